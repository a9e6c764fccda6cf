"""One process of a small training job: `single` with the joined batch, or `server` or `trainer` of a cluster.

What it saw (losses, final parameters) goes into an .npz file. All processes build the same Program and make the same data
from the step's number.
"""

import argparse
import os
import resource
import signal
import sys
import time

import numpy as np

import paddle.fluid as fluid

BATCH = 16


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["single", "server", "trainer"])
    parser.add_argument("--model", default="fit_a_line", choices=sorted(MODELS))
    parser.add_argument("--optimizer", default="sgd", choices=sorted(OPTIMIZERS))
    parser.add_argument("--mu", type=float, default=0.9, help="of momentum")
    parser.add_argument("--clip", default="none", choices=["none", "value", "norm", "global_norm"])
    parser.add_argument("--decay", action="store_true", help="L2 decay of all parameters")
    parser.add_argument("--schedule", action="store_true", help="an exponential learning rate schedule")
    parser.add_argument("--no-slices", action="store_true")
    parser.add_argument("--endpoints", default="")
    parser.add_argument("--endpoint", default="")
    parser.add_argument("--trainers", type=int, default=1)
    parser.add_argument("--shards", type=int, default=0, help="into so many the joined batch is cut; 0: one for each trainer")
    parser.add_argument("--id", type=int, default=0)
    parser.add_argument("--places", type=int, default=0, help="a trainer runs on so many places; 0: without with_data_parallel")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--resume", action="store_true",
                        help="begin behind the steps that count this trainer already, and say how many")
    parser.add_argument("--async", dest="is_async", action="store_true")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--say-at", type=int, default=-1, help="print a line when this step has ended")
    parser.add_argument("--linger", default="", help="after the last step, say so and stay until this file is there")
    parser.add_argument("--fail-at", type=int, default=-1, help="raise an exception before this step")
    parser.add_argument("--exit-at", type=int, default=-1, help="end the process before this step, as --exit says")
    parser.add_argument("--exit", default="sys.exit(1)", help="a statement")
    parser.add_argument("--fork-at", type=int, default=-1,
                        help="fork before this step: one child ends, one tries to train, one stays")
    parser.add_argument("--pause-at", type=int, default=-1,
                        help="before this step, say so and stay until the file of --linger is there")
    parser.add_argument("--leave", action="store_true", help="Ctrl-C ends the process well")
    parser.add_argument("--pace", default="", help="FILE:N: no step from k * N on begins before this file has k bytes")
    parser.add_argument("--file-limit", type=int, default=0, help="no file may grow beyond this (bytes)")
    parser.add_argument("--load", default="", help="a server loads this folder before it serves")
    parser.add_argument("--save", default="", help="one process saves its persistables there at its end")
    parser.add_argument("--out", default="")
    return parser.parse_args()


def fit_a_line(args, names=(None, None)):
    x = fluid.layers.data(name="x", shape=[13], dtype="float32")
    y = fluid.layers.data(name="y", shape=[1], dtype="float32")
    predicted = fluid.layers.fc(input=x, size=1, param_attr=names[0], bias_attr=names[1])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(input=predicted, label=y))

    def batch(rng, n):
        rows = rng.standard_normal((n, 13)).astype("float32")
        return {"x": rows, "y": (rows.sum(axis=1, keepdims=True) * 0.3 + 1).astype("float32")}

    return loss, batch, 0.02


def mlp(args):
    image = fluid.layers.data(name="image", shape=[784], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    hidden = fluid.layers.fc(input=image, size=64, act="relu")
    hidden = fluid.layers.fc(input=hidden, size=64, act="tanh")
    predicted = fluid.layers.fc(input=hidden, size=10, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=predicted, label=label))

    def batch(rng, n):
        labels = rng.integers(0, 10, (n, 1))
        pixels = rng.random((n, 784)) * 0.1
        pixels[np.arange(n), labels[:, 0] * 70] += 1
        return {"image": pixels.astype("float32"), "label": labels.astype("int64")}

    return loss, batch, 0.05


def word2vec(args, is_sparse=False):
    words = [fluid.layers.data(name=f"w{i}", shape=[1], dtype="int64") for i in range(5)]
    parts = [
        fluid.layers.embedding(w, size=[1200, 16], is_sparse=is_sparse, param_attr=fluid.ParamAttr(name="emb")) for w in words[:4]
    ]
    hidden = fluid.layers.fc(input=fluid.layers.concat(parts, axis=1), size=48, act="sigmoid")
    predicted = fluid.layers.fc(input=hidden, size=1200, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=predicted, label=words[4]))

    def batch(rng, n):
        return {f"w{i}": rng.integers(0, 1200, (n, 1)).astype("int64") for i in range(5)}

    return loss, batch, 0.1


def turns(args, dtype="float32"):
    """A table in slices: the rows of a batch lie close to each other, so that a step leaves out all slices but one."""
    ids = fluid.layers.data(name="ids", shape=[1], dtype="int64")
    label = fluid.layers.data(name="label", shape=[1], dtype="float32")
    rows = fluid.layers.embedding(ids, size=[1800, 16], is_sparse=True, param_attr=fluid.ParamAttr(name="emb"), dtype=dtype)
    predicted = fluid.layers.fc(fluid.layers.cast(rows, "float32"), 1, bias_attr=False)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(predicted, label))

    def batch(rng, n):
        first = 300 * rng.integers(0, 6)
        picked = rng.integers(first, first + 300, (n, 1)).astype("int64")
        return {"ids": picked, "label": (picked % 7 - 3).astype("float32")}

    return loss, batch, 0.1


def gaps(args):
    """A feature that many batches have not at all: with the seed 7, of the first twelve 5, 6, 7, 10."""
    words = fluid.layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
    label = fluid.layers.data(name="label", shape=[1], dtype="float32")
    rows = fluid.layers.embedding(words, size=[1800, 16], is_sparse=True, param_attr=fluid.ParamAttr(name="emb"))
    predicted = fluid.layers.fc(fluid.layers.sequence_pool(rows, "sum"), 1, bias_attr=False)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(predicted, label))

    def batch(rng, n):
        lengths = [0 if rng.random() < 0.4 else 2] * n
        picked = rng.integers(0, 1800, (sum(lengths), 1)).astype("int64")
        return {"words": fluid.create_lod_tensor(picked, [lengths], fluid.CPUPlace()),
                "label": rng.random((n, 1)).astype("float32")}

    return loss, batch, 0.1


def factors(args):
    """Nothing but tables that stay on the servers."""
    ids = [fluid.layers.data(name=name, shape=[1], dtype="int64") for name in ("user", "item")]
    label = fluid.layers.data(name="label", shape=[1], dtype="float32")
    rows = [fluid.layers.embedding(i, size=[600, 8], is_sparse=True,
                                   param_attr=fluid.ParamAttr(name=i.name + "_table")) for i in ids]
    predicted = fluid.layers.reduce_sum(fluid.layers.elementwise_mul(*rows), dim=1, keep_dim=True)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(predicted, label))

    def batch(rng, n):
        pairs = rng.integers(0, 8, (2, n, 1)).astype("int64")
        return {"user": pairs[0], "item": pairs[1], "label": (pairs.sum(axis=0) % 2).astype("float32")}

    return loss, batch, 0.5


TENSOR = fluid.core.VarDesc.VarType.LOD_TENSOR
MODELS = {
    "fit_a_line": fit_a_line,
    "mlp": mlp,
    "factors": factors,
    "turns": turns,
    "turns64": lambda args: turns(args, "float64"),
    "gaps": gaps,
    "names": lambda args: fit_a_line(args, ("w.trainer_0", "b.trainer_1.pserver_0")),
    "gradients": lambda args: fit_a_line(args, ("w@GRAD", "my@GRAD.b")),  # parameters that are called so
    "word2vec": word2vec,
    "word2vec_sparse": lambda args: word2vec(args, is_sparse=True),
}
OPTIMIZERS = {
    "sgd": lambda rate, **more: fluid.optimizer.SGD(rate, **more),
    "momentum": lambda rate, mu=0.9, **more: fluid.optimizer.Momentum(rate, momentum=mu, **more),
    "adam": lambda rate, **more: fluid.optimizer.Adam(rate, **more),
    "adamax": lambda rate, **more: fluid.optimizer.Adamax(rate, **more),
    "lazy_adam": lambda rate, **more: fluid.optimizer.Adam(rate, lazy_mode=True, **more),
    "lamb": lambda rate, **more: fluid.optimizer.Lamb(rate, **more),
    "adagrad": lambda rate, **more: fluid.optimizer.Adagrad(rate, **more),
}


def clip_of(name: str):
    if name == "value":
        return fluid.clip.GradientClipByValue(0.01)
    if name == "norm":
        return fluid.clip.GradientClipByNorm(0.05)
    if name == "global_norm":
        return fluid.clip.GradientClipByGlobalNorm(0.05)
    return None


def build(args):
    fluid.default_startup_program().random_seed = args.seed
    fluid.default_main_program().random_seed = args.seed
    loss, batch, rate = MODELS[args.model](args)
    # These divide by the size of a gradient, so that rounding decides where it is near 0: at the other rate one process that
    # gets the rows of its batches in another order differs from itself by 3e-5.
    if args.optimizer in ("adam", "adamax", "lazy_adam", "adagrad"):
        rate *= 0.1
    if args.schedule:
        rate = fluid.layers.exponential_decay(learning_rate=rate, decay_steps=2, decay_rate=0.8)
    more = {"regularization": fluid.regularizer.L2Decay(0.01)} if args.decay else {}
    if args.optimizer == "momentum":
        more["mu"] = args.mu
    clip = clip_of(args.clip)
    if clip:
        fluid.clip.set_gradient_clip(clip)
    OPTIMIZERS[args.optimizer](rate, **more).minimize(loss)
    return loss, batch


def feeds(args, batch, step: int, trainers: int, which: int | None):
    """The joined batch of a step, or the share of one trainer."""
    whole = batch(np.random.default_rng(1000 * args.seed + step), BATCH * trainers)
    if which is None or trainers == 1:
        return whole
    return {name: value[which * BATCH : (which + 1) * BATCH] for name, value in whole.items()}


def save(args, losses, names) -> None:
    """What this process holds: a trainer has no tables that stay on the servers, a server has slices."""
    if not args.out:
        return
    scope, values = fluid.global_scope(), {}
    for name in names:
        tensor = scope.find_var(name) and scope.find_var(name).get_tensor()
        if tensor is not None and tensor._is_initialized():
            values[name] = np.array(tensor)
    np.savez(args.out, losses=np.array(losses), **values)


def fork(run) -> None:
    """Three children, as users' readers make them. What the one that trains says is printed; the last stays when this process
    goes."""
    if os.fork() == 0:
        sys.exit(0)
    os.wait()
    if os.fork() == 0:
        try:
            run()
        except fluid.core.EnforceNotMet as error:
            print(f"child: {error}", flush=True)
        os._exit(0)
    os.wait()
    stays = os.fork()
    if stays == 0:
        signal.pause()
    print(f"forked {stays}.", flush=True)


def keep_pace(pace: str, step: int) -> None:
    path, _, each = pace.rpartition(":")
    while os.path.getsize(path) < step // int(each):
        time.sleep(0.005)


def main() -> int:
    args = parse()
    loss, batch = build(args)
    main_program = fluid.default_main_program()
    exe = fluid.Executor(fluid.CPUPlace())
    if args.role == "single":
        exe.run(fluid.default_startup_program())
        losses = [
            float(np.mean(exe.run(main_program, feed=feeds(args, batch, s, args.trainers, None), fetch_list=[loss])[0]))
            for s in range(args.steps)
        ]
        save(args, losses, [p.name for p in main_program.all_parameters()])
        if args.save:
            fluid.io.save_persistables(exe, args.save, main_program)
        return 0
    config = fluid.DistributeTranspilerConfig()
    config.slice_var_up = not args.no_slices
    if args.is_async:
        config.sync_mode = False
        config.runtime_split_send_recv = False
    t = fluid.DistributeTranspiler(config=config)
    t.transpile(args.id, pservers=args.endpoints, trainers=args.trainers, sync_mode=not args.is_async)
    if args.role == "server":
        if args.file_limit:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (args.file_limit, args.file_limit))
        main_of_server, startup = t.get_pserver_programs(args.endpoint)
        exe.run(startup)
        if args.load:
            fluid.io.load_persistables(exe, args.load, main_of_server)
        try:
            exe.run(main_of_server)
        finally:
            save(args, [], [v.name for v in main_of_server.list_vars() if v.persistable and
                            "@GRAD" not in v.name and v.type == TENSOR])
        raise AssertionError("the server's run ends the process")
    program = t.get_trainer_program()
    if args.places:
        places = fluid.cpu_places(args.places)
        parallel = fluid.CompiledProgram(program).with_data_parallel(loss_name=loss.name, places=places)
    exe.run(fluid.default_startup_program())
    losses = []

    def close_another(*unused):
        fluid.Executor(fluid.CPUPlace()).close()
        print("closed another", flush=True)

    signal.signal(signal.SIGUSR1, close_another)
    done = t.steps_done() if args.resume else 0
    if args.resume:
        print(f"steps done: {done}", flush=True)
    for s in range(done, args.steps):
        if s == args.fail_at:
            raise RuntimeError("this trainer fails on purpose")
        if args.pace:
            keep_pace(args.pace, s)
        if s == args.exit_at:
            exec(args.exit)
        feed = feeds(args, batch, s, args.shards or args.trainers, args.id)
        if s == args.pause_at:
            print("pauses", flush=True)
            while not os.path.exists(args.linger):
                time.sleep(0.01)
        if s == args.fork_at:
            fork(lambda: exe.run(program, feed=feed, fetch_list=[loss]))
        try:
            losses.append(float(np.mean(exe.run(parallel if args.places else t.get_trainer_program(),
                                                feed=feed, fetch_list=[loss])[0])))
        except KeyboardInterrupt:
            if not args.leave:
                raise
            print("interrupted", flush=True)
            return 0
        if s == args.say_at:
            print(f"step {s} has ended", flush=True)
    if args.linger:
        print("all steps have ended", flush=True)
    while args.linger and not os.path.exists(args.linger):
        time.sleep(0.01)
    save(args, losses, [p.name for p in program.all_parameters()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
