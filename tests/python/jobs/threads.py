"""One process of a job whose trainers have several threads, an executor each. What they train tells what has counted: with a rate
of 1, `w` and every element of `wide` lose what was fed, and a row of `table` loses 1 each time it is looked up.
"""

import os
import signal
import sys
import threading
import time

import numpy as np
import small

import paddle.fluid as fluid

ROWS, START = 50, 4096.0


def build(args):
    x = fluid.layers.data(name="x", shape=[1], dtype="float32")
    ids = fluid.layers.data(name="ids", shape=[1], dtype="int64")
    scale = fluid.layers.data(name="scale", shape=[1], dtype="float32")  # 0: the backward pass makes NaN below what is sent by then
    many = fluid.layers.data(name="many", shape=[1024], dtype="float32")
    zero = fluid.initializer.Constant(0.0)
    table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(START))
    rows = fluid.layers.embedding(ids, size=[ROWS, 1], is_sparse=True, param_attr=table)
    losses = [fluid.layers.reduce_sum(fluid.layers.sqrt(fluid.layers.square(fluid.layers.elementwise_mul(rows, scale))))]
    for i in range(args.layers):  # of no effect on the rest, but long
        many = fluid.layers.fc(many, size=1024, bias_attr=False,
                               param_attr=fluid.ParamAttr(name=f"long{i}", initializer=zero, learning_rate=0.0))
        losses.append(fluid.layers.reduce_sum(many))
    mean = fluid.layers.mean(x)
    for name, n in (("w", 1), ("wide", args.wide)):
        parameter = fluid.layers.create_parameter([n], "float32", name=name, default_initializer=zero)
        losses.append(fluid.layers.reduce_sum(fluid.layers.elementwise_mul(parameter, mean)))
    loss = fluid.layers.sums(losses)
    fluid.optimizer.SGD(1.0).minimize(loss)
    return loss


class Trainer:
    def __init__(self, args, program, loss):
        self.args, self.program, self.loss = args, program, loss
        self.lock, self.fed, self.looked_up = threading.Lock(), 0.0, np.zeros(ROWS)
        self.main = fluid.Executor(fluid.CPUPlace())

    def run(self, executor, value: float, ids, scale: float = 1.0) -> None:
        n = len(ids)
        feed = {"x": np.full((n, 1), value, "float32"), "ids": np.reshape(ids, (n, 1)).astype("int64"),
                "scale": np.full((n, 1), scale, "float32")}
        if self.args.layers:
            feed["many"] = np.ones((256, 1024), "float32")
        executor.run(self.program, feed=feed, fetch_list=[self.loss])
        with self.lock:
            self.fed += value
            np.add.at(self.looked_up, np.ravel(ids), 1)

    def train(self, thread: int) -> None:
        executor = self.main if self.args.shared else fluid.Executor(fluid.CPUPlace())
        rng = np.random.default_rng(100 * self.args.id + thread)
        for step in range(self.args.runs):
            if self.args.stumble and step % 5 == thread % 5:
                try:
                    self.run(executor, 1000.0, [1, 2, 3], scale=0.0)
                    raise AssertionError("a batch without a gradient went well")
                except fluid.core.EnforceNotMet as error:
                    assert "NaN or Inf" in str(error), error
            self.run(executor, float(rng.integers(7)), rng.integers(ROWS, size=1 + step % 3))

    def start(self) -> list[threading.Thread]:
        def train(thread: int) -> None:
            try:
                self.train(thread)
            except BaseException as error:
                print(f"thread {thread} failed: {error!r}", flush=True)
                os._exit(3)

        threads = [threading.Thread(target=train, args=(k,)) for k in range(self.args.threads)]
        for thread in threads:
            thread.start()
        return threads

    def report(self) -> None:
        self.run(self.main, 0.0, [0])
        values = {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in ("w", "wide", "table")}
        np.savez(self.args.out, fed=self.fed, looked_up=self.looked_up, **values)


def handle_signals(trainer: Trainer) -> None:
    """Saves with another executor, whenever the signal comes, in the middle of a step too."""
    fluid.io.save_persistables(trainer.main, trainer.args.out + ".saved", trainer.program)
    saved, handled, over = 0, threading.Event(), threading.Event()

    def save(*unused) -> None:
        nonlocal saved
        fluid.io.save_persistables(fluid.Executor(fluid.CPUPlace()), trainer.args.out + ".saved", trainer.program)
        saved += 1
        handled.set()

    signal.signal(signal.SIGUSR1, save)

    def send() -> None:
        while not over.wait(0.03):
            handled.clear()
            os.kill(os.getpid(), signal.SIGUSR1)
            handled.wait(30)

    sender = threading.Thread(target=send)
    sender.start()
    while saved < 50:
        trainer.run(trainer.main, 1.0, [0])
    over.set()
    sender.join()


def close_others(trainer: Trainer) -> None:
    threads = trainer.start()
    for _ in range(5):
        fluid.Executor(fluid.CPUPlace()).close()
        time.sleep(0.05)
    print("closed", flush=True)
    for thread in threads:
        thread.join()


def fork(trainer: Trainer) -> None:
    """Children that try to train are told that they cannot, whatever the parent's threads were at."""
    threads = trainer.start()
    for _ in range(10):
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            try:
                trainer.run(fluid.Executor(fluid.CPUPlace()), 100.0, [0])
                os._exit(0)
            except fluid.core.EnforceNotMet as error:
                os._exit(7 if "forked by a trainer" in str(error) else 8)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    for thread in threads:
        thread.join()


def interrupt(trainer: Trainer) -> None:
    """The server is stopped: a thread and the main thread wait for rows, side by side."""
    trainer.run(trainer.main, 1.0, [0])
    print("ready", flush=True)
    while not os.path.exists(trainer.args.go):
        time.sleep(0.01)
    threads = trainer.start()
    try:
        trainer.run(trainer.main, 500.0, [0])
        raise AssertionError("nothing interrupted this run")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    for thread in threads:
        thread.join()


def leave_open(trainer: Trainer) -> None:
    """A Program that sends and has nothing behind it: its step is refused, not left to the next run."""
    block = trainer.program.global_block()
    while block.ops[-1].type != "send":
        block._remove_op(len(block.ops) - 1)
    for _ in range(2):
        try:
            trainer.run(trainer.main, 9.0, [0])
            raise AssertionError("a step without an end went well")
        except fluid.core.EnforceNotMet as error:
            print(f"refused: {error}", flush=True)


def main() -> int:
    parser = small.parse(__doc__)
    parser.add_argument("--is-async", action="store_true")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--runs", type=int, default=40, help="of each thread")
    parser.add_argument("--wide", type=int, default=8, help="elements: many are sent before the backward pass ends")
    parser.add_argument("--layers", type=int, default=0, help="of a Program that takes long")
    parser.add_argument("--stumble", action="store_true", help="some batches fail in their backward pass")
    parser.add_argument("--shared", action="store_true", help="all threads have one executor")
    parser.add_argument("--how", choices=["train", "signals", "close", "fork", "interrupt", "open", "stay"], default="train")
    parser.add_argument("--go", default="", help="a file that is waited for")
    parser.add_argument("--out", default="")
    args = parser.parse_args()
    loss = build(args)
    _, program, _ = small.start(args, sync_mode=not args.is_async)
    trainer = Trainer(args, program, loss)
    if args.how == "train":
        for thread in trainer.start():
            thread.join()
    elif args.how == "stay":
        while not os.path.exists(args.go):
            time.sleep(0.01)
    else:
        {"signals": handle_signals, "close": close_others, "fork": fork, "interrupt": interrupt,
         "open": leave_open}[args.how](trainer)
    if args.out:
        trainer.report()
    return 0


if __name__ == "__main__":
    sys.exit(main())
