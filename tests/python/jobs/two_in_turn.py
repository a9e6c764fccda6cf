"""One process does the work of trainer 0, then that of trainer 1 (async); with --close it says goodbye between them."""

import sys

import numpy as np
import small

import paddle.fluid as fluid


def main() -> int:
    parser = small.parse(__doc__)
    parser.add_argument("--close", action="store_true")
    options = parser.parse_args()
    for options.id in range(1 if options.role == "server" else 2):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
            x = fluid.layers.data("x", [4])
            fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(fluid.layers.fc(x, 1)))
            exe, program, _ = small.start(options, sync_mode=False)
            for _ in range(5):
                exe.run(program, feed={"x": np.ones((2, 4), "float32")})
            if options.close:
                exe.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
