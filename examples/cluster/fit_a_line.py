"""Fit a line on a cluster: one server or more, and two trainers. The same script is run in every process.

On the server, then on two machines as trainers (or all three on one machine, with 127.0.0.1):

    PSERVERS=192.168.1.2:6174 SERVER_ENDPOINT=192.168.1.2:6174 TRAINING_ROLE=PSERVER python fit_a_line.py
    PSERVERS=192.168.1.2:6174 TRAINING_ROLE=TRAINER python fit_a_line.py

Any order of starting will do. Trainers have no numbers here: the first server hands them out, and each one
shuffles all of the data in its own way. The server ends when both trainers have ended.
"""

import argparse
import os

import paddle.v2 as paddle
import paddle.fluid as fluid

# Everything is said by the environment; this answers --help.
argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()

x = fluid.layers.data(name='x', shape=[13], dtype='float32')
y_predict = fluid.layers.fc(input=x, size=1, act=None)
y = fluid.layers.data(name='y', shape=[1], dtype='float32')

cost = fluid.layers.square_error_cost(input=y_predict, label=y)
avg_cost = fluid.layers.mean(x=cost)

sgd_optimizer = fluid.optimizer.SGD(learning_rate=0.001)
optimize_ops, params_grads = sgd_optimizer.minimize(avg_cost)

BATCH_SIZE = 20
TRAINERS = 2
PASS_NUM = 100

pserver_endpoints = os.getenv('PSERVERS', '127.0.0.1:6174')  # HOST:PORT,HOST:PORT,...
current_endpoint = os.getenv('SERVER_ENDPOINT')              # of a server: its own
training_role = os.getenv('TRAINING_ROLE', 'TRAINER')        # TRAINER or PSERVER

t = fluid.DistributeTranspiler()
t.transpile(optimize_ops, params_grads, pservers=pserver_endpoints, trainers=TRAINERS)

place = fluid.CPUPlace()
exe = fluid.Executor(place)

if training_role == 'PSERVER':
    if not current_endpoint:
        exit('SERVER_ENDPOINT is not set; a server needs the one of PSERVERS that is its own.')
    pserver_prog = t.get_pserver_program(current_endpoint)
    exe.run(t.get_startup_program(current_endpoint, pserver_prog))
    exe.run(pserver_prog)  # serves, and ends the process when the trainers have ended

elif training_role == 'TRAINER':
    train_reader = paddle.batch(
        paddle.reader.shuffle(
            paddle.dataset.uci_housing.train(), buf_size=500),
        batch_size=BATCH_SIZE)
    feeder = fluid.DataFeeder(place=place, feed_list=[x, y])
    exe.run(fluid.default_startup_program())
    step = 0
    for pass_id in range(PASS_NUM):
        for data in train_reader():
            avg_loss_value, = exe.run(t.get_trainer_program(),
                                      feed=feeder.feed(data),
                                      fetch_list=[avg_cost])
            if step % 50 == 0:
                print(f'pass {pass_id}, step {step}: loss {avg_loss_value[0]:.4f}', flush=True)
            step += 1
            if avg_loss_value[0] < 10.0:
                print(f'pass {pass_id}, step {step}: loss {avg_loss_value[0]:.4f} is good enough')
                exit(0)
    exit(1)

else:
    exit(f'TRAINING_ROLE is {training_role!r}; it must be PSERVER or TRAINER.')
