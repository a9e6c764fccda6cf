"""equality.py with a variable in the server's scope that is no part of the server's Program."""

import sys

import equality
import numpy as np

import paddle.fluid as fluid

if __name__ == "__main__":
    fluid.global_scope().var("hidden").get_tensor().set(np.full(4, 7, "float32"), fluid.CPUPlace())
    sys.exit(equality.main())
