"""A process that trains a model, and then another one with the same servers: `two_models.py server|trainer --endpoints ...`."""

import argparse
import sys

import numpy as np

import paddle.fluid as fluid

parser = argparse.ArgumentParser()
parser.add_argument("role")
parser.add_argument("--endpoints")
parser.add_argument("--endpoint")
parser.add_argument("--trainers", type=int)
parser.add_argument("--id", type=int, default=0)
args = parser.parse_args()

exe = fluid.Executor(fluid.CPUPlace())
for is_sparse in (False, True):
    main, start = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, start), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        ids = fluid.layers.data("ids", [1], dtype="int64")
        rows = fluid.layers.embedding(ids, [100, 4], is_sparse=is_sparse, param_attr="table")
        loss = fluid.layers.mean(fluid.layers.square(rows))
        fluid.optimizer.SGD(0.01).minimize(loss)
        t = fluid.DistributeTranspiler()
        t.transpile(args.id, main, args.endpoints, args.trainers, startup_program=start)
        if args.role == "server":
            served, first = t.get_pserver_programs(args.endpoint)
            exe.run(first)
            exe.run(served)
            sys.exit(0)
        exe.run(start)
        exe.run(t.get_trainer_program(), feed={"ids": np.arange(8).reshape(8, 1)}, fetch_list=[loss])
        print("a model is trained", flush=True)
