"""Click prediction on a cluster: the net of examples/ctr_dnn with a DistributeTranspiler, its table of ids spread over the servers.

Two servers and two trainers on one machine, all of them by one command (docs/LAUNCH.md):

    paddle launch local --server_num=2 --worker_num=2 examples/cluster/ctr_dnn.py

Or each by itself, in any order:

    export PSERVERS=127.0.0.1:6174,127.0.0.1:6175 PADDLE_TRAINERS=2
    TRAINING_ROLE=PSERVER SERVER_ENDPOINT=127.0.0.1:6174 python examples/cluster/ctr_dnn.py &
    TRAINING_ROLE=PSERVER SERVER_ENDPOINT=127.0.0.1:6175 python examples/cluster/ctr_dnn.py &
    TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=0 python examples/cluster/ctr_dnn.py &
    TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=1 python examples/cluster/ctr_dnn.py

job.py says what the variables mean. Without --data each trainer makes up clicks of its own. examples/ctr_dnn does the same with
Fleet, and reads its samples in the engine.
"""

import sys
from pathlib import Path

import job
import paddle
import paddle.fluid as fluid

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ctr_dnn"))
import generate
import reader
from network_conf import network  # that of examples/ctr_dnn


def made_up(options, seed):
    """A reader of made-up samples."""

    def samples():
        for dense, ids, label in generate.batches(options.samples, options.rows, seed):
            yield from zip(dense, *(ids[:, slot, None] for slot in range(generate.SLOTS)), label[:, None])

    return samples


def main(options):
    this = job.from_environment()
    net = network(options)
    auc = fluid.layers.auc(net.prediction, net.label)[0]
    fluid.optimizer.Adam(learning_rate=options.rate, lazy_mode=True).minimize(net.loss)
    t = this.transpile()  # a server ends here

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feeder = fluid.DataFeeder(feed_list=net.inputs, place=fluid.CPUPlace())
    if options.data:
        samples = this.share(reader.criteo(options.data, options.rows))
    else:
        samples = made_up(options, seed=1 + this.trainer_id)
    progress = job.Progress(this, options)
    for batch in progress.over(paddle.batch(samples, options.batch_size)):
        loss_now, auc_now = exe.run(t.get_trainer_program(), feed=feeder.feed(batch), fetch_list=[net.loss, auc])
        progress.note(len(batch), loss=loss_now.item(), AUC=auc_now.item())


if __name__ == "__main__":
    parser = job.parser(__doc__, batch_size=1000)
    parser.add_argument("--data", help="file of Criteo's layout; without it the data are made up")
    parser.add_argument("--samples", type=int, default=50000, help="made-up samples in a pass of one trainer")
    parser.add_argument("--rows", type=int, default=1000001, help="rows of the table of ids")
    parser.add_argument("--width", type=int, default=10, help="values for each id")
    parser.add_argument("--rate", type=float, default=0.001, help="learning rate")
    main(parser.parse_args())
