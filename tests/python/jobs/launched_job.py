"""A process of a small sync job, by the variables that a launcher sets: launched_job.py DIR [--raise].

Worker 0 stops at half of its steps, writes DIR/half and goes on when there is DIR/go. At its end it writes the parameters to
DIR/found.npy. Each process adds its process id to DIR/NAME.starts. A worker that is started again goes on behind what counts.
"""

import os
import sys
import time

import numpy as np

import paddle.fluid as fluid

STEPS = 30

folder = sys.argv[1]
is_server = os.environ["TRAINING_ROLE"] == "PSERVER"
number = int(os.environ["PADDLE_PSERVER_ID" if is_server else "PADDLE_TRAINER_ID"])
with open(os.path.join(folder, f"{'server' if is_server else 'worker'}-{number}.starts"), "a") as file:
    file.write(f"{os.getpid()}\n")

x = fluid.layers.data("x", [13])
y = fluid.layers.data("y", [1])
hidden = fluid.layers.fc(x, 8, param_attr=fluid.ParamAttr("w1", initializer=fluid.initializer.Uniform(-0.2, 0.2, seed=1)))
predicted = fluid.layers.fc(hidden, 1, param_attr=fluid.ParamAttr("w2", initializer=fluid.initializer.Uniform(-0.2, 0.2, seed=2)))
loss = fluid.layers.mean(fluid.layers.square_error_cost(predicted, y))
fluid.optimizer.Momentum(0.01, 0.9).minimize(loss)

t = fluid.DistributeTranspiler()
t.transpile(0 if is_server else number, pservers=os.environ["PSERVERS"], trainers=int(os.environ["PADDLE_TRAINERS"]))
exe = fluid.Executor(fluid.CPUPlace())
if is_server:
    main, startup = t.get_pserver_programs(os.environ["SERVER_ENDPOINT"])
    exe.run(startup)
    exe.run(main)
exe.run(fluid.default_startup_program())
begin = t.steps_done()
print(f"begins behind step {begin}")
for step in range(begin, STEPS):
    if number == 0 and step == STEPS // 2:
        open(os.path.join(folder, "half"), "w").close()
        while not os.path.exists(os.path.join(folder, "go")):
            time.sleep(0.01)
    rng = np.random.RandomState(100 * step + number)
    features = rng.uniform(-1, 1, (8, 13)).astype("float32")
    exe.run(t.get_trainer_program(), feed={"x": features, "y": features.sum(axis=1, keepdims=True)}, fetch_list=[loss])
    if "--raise" in sys.argv and number == 1 and step == STEPS // 2 - 1:
        raise RuntimeError("the data are gone")
if number == 0:
    found = [np.array(fluid.global_scope().find_var(name).get_tensor()).ravel() for name in ("w1", "w2")]
    np.save(os.path.join(folder, "found.npy"), np.concatenate(found))
