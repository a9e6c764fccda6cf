"""Word vectors on a cluster: the net of examples/word2vec.py, each trainer with its share of the text.

Two servers and two trainers on one machine, in any order:

    export PSERVERS=127.0.0.1:6174,127.0.0.1:6175 PADDLE_TRAINERS=2
    TRAINING_ROLE=PSERVER SERVER_ENDPOINT=127.0.0.1:6174 python examples/cluster/word2vec.py --sparse &
    TRAINING_ROLE=PSERVER SERVER_ENDPOINT=127.0.0.1:6175 python examples/cluster/word2vec.py --sparse &
    TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=0 python examples/cluster/word2vec.py --sparse &
    TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=1 python examples/cluster/word2vec.py --sparse

job.py says what the variables mean.
"""

import sys
from pathlib import Path

import job
import paddle
import paddle.fluid as fluid

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from word2vec import network  # that of examples/word2vec.py


def main(options):
    this = job.from_environment()
    word_dict = paddle.dataset.imikolov.build_dict()
    words, _, loss = network(len(word_dict), options)
    fluid.optimizer.SGD(learning_rate=options.rate).minimize(loss)
    t = this.transpile()  # a server ends here

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feeder = fluid.DataFeeder(feed_list=words, place=fluid.CPUPlace())
    text = this.share(paddle.dataset.imikolov.train(word_dict, 5))
    progress = job.Progress(this, options)
    for batch in progress.over(paddle.batch(text, options.batch_size)):
        loss_now, = exe.run(t.get_trainer_program(), feed=feeder.feed(batch), fetch_list=[loss])
        progress.note(len(batch), loss=loss_now.item())


if __name__ == "__main__":
    parser = job.parser(__doc__, batch_size=100)
    parser.add_argument("--width", type=int, default=32, help="length of a word's vector")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate")
    parser.add_argument("--sparse", action="store_true", help="gradients of the table as rows")
    main(parser.parse_args())
