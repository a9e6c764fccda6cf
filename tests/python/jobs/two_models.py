"""A process that trains a model, and then another one with the same servers: `two_models.py server|trainer --endpoints ...`."""

import os
import time

import numpy as np
import small

import paddle.fluid as fluid

parser = small.parse(__doc__)
parser.add_argument("--linger", help="a trainer that is refused says so, and ends when there is a file of that name")
args = parser.parse_args()
try:
    for is_sparse in (False, True):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
            ids = fluid.layers.data("ids", [1], dtype="int64")
            rows = fluid.layers.embedding(ids, [100, 4], is_sparse=is_sparse, param_attr="table")
            loss = fluid.layers.mean(fluid.layers.square(rows))
            fluid.optimizer.SGD(0.01).minimize(loss)
            exe, program, _ = small.start(args)
            exe.run(program, feed={"ids": np.arange(8).reshape(8, 1)}, fetch_list=[loss])
            print("a model is trained", flush=True)
except Exception:
    if args.role == "trainer" and args.linger:
        print("lingers", flush=True)
        while not os.path.exists(args.linger):
            time.sleep(0.01)
    raise
