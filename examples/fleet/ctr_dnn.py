"""Click prediction with Fleet: the net of examples/ctr_dnn.py, in one process or on servers and workers.

In one process:

    python examples/fleet/ctr_dnn.py

Two servers and two workers on one machine, all of them by one command (docs/LAUNCH.md):

    paddle launch local --server_num=2 --worker_num=2 examples/fleet/ctr_dnn.py --is_cloud=1

Or each by itself, in any order (on several, with their addresses):

    export PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:36000,127.0.0.1:36001 PADDLE_TRAINERS_NUM=2 POD_IP=127.0.0.1
    TRAINING_ROLE=PSERVER PADDLE_PORT=36000 python examples/fleet/ctr_dnn.py --is_cloud=1 &
    TRAINING_ROLE=PSERVER PADDLE_PORT=36001 python examples/fleet/ctr_dnn.py --is_cloud=1 &
    TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=0 python examples/fleet/ctr_dnn.py --is_cloud=1 &
    TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=1 python examples/fleet/ctr_dnn.py --is_cloud=1

docs/FLEET.md tells of the variables. Without --data each worker makes up clicks of its own; with several files, it reads its share.
"""

import argparse
import itertools
import sys
from pathlib import Path

import paddle
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import clicks
from ctr_dnn import network  # that of examples/ctr_dnn.py


def train(options, feeds, loss, auc, startup, program, files, seed):
    """Goes over the data; what it is given is the same in one process and in a worker."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    feeder = fluid.DataFeeder(feed_list=feeds, place=fluid.CPUPlace())
    sources = [clicks.criteo(path, options.rows) for path in files]
    if not options.data:
        sources = [clicks.made_up(options.samples, options.rows, seed=seed)]
    batches = paddle.batch(paddle.reader.chain(*sources), options.batch_size) if sources else lambda: ()
    for step, batch in enumerate(itertools.islice(batches(), options.steps or None)):
        loss_now, auc_now = exe.run(program, feed=feeder.feed(batch), fetch_list=[loss, auc])
        if step % options.every == 0:
            print(f"step {step}: loss {loss_now.item():.4f}, AUC {auc_now.item():.4f}", flush=True)
    return exe


def run_alone(options):
    feeds, loss, _, auc = network(options)
    fluid.optimizer.Adam(learning_rate=options.rate, lazy_mode=True).minimize(loss)
    exe = train(options, feeds, loss, auc, fluid.default_startup_program(), fluid.default_main_program(), options.data, seed=1)
    if options.model:
        fluid.io.save_persistables(exe, options.model)


def run_with_servers(options):
    fleet.init(role_maker.PaddleCloudRoleMaker())
    feeds, loss, _, auc = network(options)
    strategy = StrategyFactory.create_async_strategy() if options.strategy == "async" else StrategyFactory.create_sync_strategy()
    optimizer = fluid.optimizer.Adam(learning_rate=options.rate, lazy_mode=True)
    fleet.distributed_optimizer(optimizer, strategy).minimize(loss)

    if fleet.is_server():
        fleet.init_server(options.load)
        fleet.run_server()
    if fleet.is_worker():
        fleet.init_worker()
        exe = train(options, feeds, loss, auc, fleet.startup_program, fleet.main_program, fleet.split_files(options.data),
                    seed=1 + fleet.worker_index())
        if options.model and fleet.is_first_worker():
            fleet.save_persistables(exe, options.model)
        fleet.stop_worker()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--is_cloud", type=int, default=0, help="1: a process of a job, by its environment; 0: all in one process")
    parser.add_argument("--strategy", choices=["sync", "async"], default="sync")
    parser.add_argument("--data", nargs="*", default=[], help="files of Criteo's layout; without them the data are made up")
    parser.add_argument("--rows", type=int, default=1000001, help="rows of the table of ids")
    parser.add_argument("--width", type=int, default=10, help="values for each id")
    parser.add_argument("--rate", type=float, default=0.001, help="learning rate")
    parser.add_argument("--samples", type=int, default=50000, help="made-up samples of one worker")
    parser.add_argument("--steps", type=int, default=0, help="stop after so many steps; 0: never")
    parser.add_argument("--batch-size", type=int, default=1000, help="samples in a step of one worker")
    parser.add_argument("--every", type=int, default=20, help="steps between two lines")
    parser.add_argument("--model", help="folder that worker 0 saves in at its end")
    parser.add_argument("--load", help="folder that servers load at their start")
    chosen = parser.parse_args()
    (run_with_servers if chosen.is_cloud else run_alone)(chosen)
