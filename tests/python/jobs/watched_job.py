"""A process of a small sync job that somebody watches: watched_job.py DIR. Workers train until there is DIR/go; worker 0 holds the
others up while there is DIR/hold."""

import os
import sys
import time

import numpy as np

import paddle.fluid as fluid
from paddle.fluid import progress

folder = sys.argv[1]
is_server = os.environ["TRAINING_ROLE"] == "PSERVER"
number = int(os.environ["PADDLE_PSERVER_ID" if is_server else "PADDLE_TRAINER_ID"])
with open(os.path.join(folder, f"{'server' if is_server else 'worker'}-{number}.starts"), "a") as file:
    file.write(f"{os.getpid()}\n")
if os.path.exists(os.path.join(folder, "fail")) and number == 1:
    sys.exit("the data are gone")

x = fluid.layers.data("x", [13])
y = fluid.layers.data("y", [1])
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1, param_attr=fluid.ParamAttr("<b>w</b>")), y))
fluid.optimizer.SGD(0.05).minimize(loss)
t = fluid.DistributeTranspiler()
t.transpile(0 if is_server else number, pservers=os.environ["PSERVERS"], trainers=int(os.environ["PADDLE_TRAINERS"]))
exe = fluid.Executor(fluid.CPUPlace())
if is_server:
    main, startup = t.get_pserver_programs(os.environ["SERVER_ENDPOINT"])
    exe.run(startup)
    exe.run(main)
exe.run(fluid.default_startup_program())
step = 0
while not os.path.exists(os.path.join(folder, "go")):
    while number == 0 and os.path.exists(os.path.join(folder, "hold")):
        time.sleep(0.01)
    features = np.random.RandomState(100 * step + number).uniform(-1, 1, (8, 13)).astype("float32")
    found, = exe.run(t.get_trainer_program(), feed={"x": features, "y": features.sum(axis=1, keepdims=True)}, fetch_list=[loss])
    progress.report(samples=8, loss=found.item(), auc=1 - 1 / (step + 2))
    step += 1
    time.sleep(0.02)
