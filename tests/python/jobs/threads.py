"""Threads of one trainer, an executor each, which train one Program: w -= mean(x), so that w counts what was given."""

import argparse
import sys
import threading

import numpy as np

import paddle.fluid as fluid

parser = argparse.ArgumentParser()
parser.add_argument("role")
parser.add_argument("--endpoints")
parser.add_argument("--endpoint")
parser.add_argument("--trainers", type=int)
parser.add_argument("--id", type=int, default=0)
parser.add_argument("--threads", type=int, default=4)
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--async", dest="is_async", action="store_true")
args = parser.parse_args()

x = fluid.layers.data("x", [1])
zero = fluid.initializer.Constant(0.0)
ws = [fluid.layers.create_parameter([1], "float32", name=f"w{i}", default_initializer=zero) for i in range(2)]
loss = fluid.layers.mean(fluid.layers.elementwise_mul(x, ws[0])) + fluid.layers.mean(fluid.layers.elementwise_mul(x, ws[1]))
fluid.optimizer.SGD(1.0).minimize(loss)
t = fluid.DistributeTranspiler()
t.transpile(args.id, pservers=args.endpoints, trainers=args.trainers, sync_mode=not args.is_async)
exe = fluid.Executor(fluid.CPUPlace())
if args.role == "server":
    main, startup = t.get_pserver_programs(args.endpoint)
    exe.run(startup)
    exe.run(main)
    sys.exit(0)
exe.run(fluid.default_startup_program())
program = t.get_trainer_program()
given, failed = [0.0] * args.threads, []


def train(number):
    try:
        own = fluid.Executor(fluid.CPUPlace())
        for step in range(args.steps):
            value = float((number * args.steps + step) % 7)
            (seen,) = own.run(program, feed={"x": np.full((1 + step % 3, 1), value, "float32")}, fetch_list=[x])
            assert (seen == value).all()
            given[number] += value
    except Exception as error:
        failed.append(error)


threads = [threading.Thread(target=train, args=(number,)) for number in range(args.threads)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, failed[0]
exe.run(program, feed={"x": np.zeros((1, 1), "float32")}, fetch_list=[loss])
found = [float(np.array(fluid.global_scope().find_var(w.name).get_tensor())[0]) for w in ws]
print(f"given {sum(given)} found {found}", flush=True)
assert found == [-sum(given)] * 2, (found, sum(given))
exe.close()
