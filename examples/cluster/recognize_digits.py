"""Digits on a cluster: the nets of examples/recognize_digits.py, each trainer with its share of MNIST.

One server and two trainers on one machine, in any order:

    export PSERVERS=127.0.0.1:6174 PADDLE_TRAINERS=2
    TRAINING_ROLE=PSERVER SERVER_ENDPOINT=127.0.0.1:6174 python examples/cluster/recognize_digits.py &
    TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=0 python examples/cluster/recognize_digits.py &
    TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=1 python examples/cluster/recognize_digits.py

job.py says what the variables mean. Trainer 0 tests the model at the end and saves it; use it with
`python examples/recognize_digits.py --infer`. Every second image of MNIST is from people who are easier to
read: of two trainers, trainer 1 gets those and has the smaller loss.
"""

import sys
from pathlib import Path

import job
import paddle
import paddle.fluid as fluid

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import recognize_digits as digits  # that of examples/


def main(options):
    this = job.from_environment()
    image = fluid.layers.data(name="img", shape=[1, 28, 28], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    prediction, loss, accuracy = {"mlp": digits.mlp, "lenet": digits.lenet}[options.net](image, label)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.001).minimize(loss)
    t = this.transpile()  # a server ends here

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feeder = fluid.DataFeeder(feed_list=[image, label], place=fluid.CPUPlace())
    images = paddle.reader.shuffle(this.share(paddle.dataset.mnist.train()), buf_size=4096)
    progress = job.Progress(this, options)
    for batch in progress.over(paddle.batch(images, options.batch_size)):
        loss_now, accuracy_now = exe.run(t.get_trainer_program(), feed=feeder.feed(batch),
                                         fetch_list=[loss, accuracy])
        progress.note(len(batch), loss=loss_now.item(), accuracy=accuracy_now.item())

    if this.trainer_id == 0 and options.model:
        found = digits.test(exe, test_program, feeder, [loss, accuracy], options.batch_size)
        print(f"test: loss {found[0]:.4f}, accuracy {found[1]:.4f}")
        fluid.io.save_inference_model(options.model, ["img"], [prediction], exe, main_program=test_program)


if __name__ == "__main__":
    parser = job.parser(__doc__, batch_size=64)
    parser.add_argument("--net", choices=["mlp", "lenet"], default="mlp")
    parser.add_argument("--model", default="recognize_digits.model", help="folder for the model; '': none")
    main(parser.parse_args())
