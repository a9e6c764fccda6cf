"""One process of a job that saves and loads: `single`, `server` or `trainer`, on the models of equality.py and some with tables.

It starts at --first-step, may load before it, and saves after the last one.
"""

import argparse
import sys

import equality
import numpy as np

import paddle.fluid as fluid


def table(args, **how):
    """word2vec over a table; `how` is given to its lookups."""
    words = [fluid.layers.data(name=f"w{i}", shape=[1], dtype="int64") for i in range(5)]
    attr = fluid.ParamAttr(name="table", initializer=fluid.initializer.Uniform(-0.5, 0.5))
    size = [1201, 16]  # not a multiple of the servers
    parts = [fluid.layers.embedding(w, size=size, param_attr=attr, **how) for w in words[:4]]
    hidden = fluid.layers.fc(input=fluid.layers.concat(parts, axis=1), size=48, act="tanh")
    predicted = fluid.layers.fc(input=hidden, size=300, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=predicted, label=words[4]))

    def batch(rng, n):
        # Few ids, so that their rows change much: a wrong update of the table shows in the next losses.
        found = {f"w{i}": (rng.integers(0, 8, (n, 1)) * 149 + 3).astype("int64") for i in range(4)}
        return {**found, "w4": (found["w0"] * 7 + found["w1"]) % 300}

    return loss, batch, 3.0


def sequence(args, form, **how):
    """Rows of a table for several words of each sample at once: ids [batch, 4, 1], or [batch, 4] for the second form."""
    words = fluid.layers.data(name="words", shape=[4, 1] if form == 1 else [4], dtype="int64")
    last = fluid.layers.data(name="last", shape=[1, 1] if form == 1 else [1], dtype="int64")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    attr = fluid.ParamAttr(name="table", initializer=fluid.initializer.Uniform(-0.5, 0.5))
    lookup = fluid.layers.embedding if form == 1 else fluid.embedding
    rows = [lookup(each, size=[1201, 16], param_attr=attr, **how) for each in (words, last)]
    assert [each.shape for each in rows] == [(-1, 4, 16), (-1, 1, 16)]
    hidden = fluid.layers.fc(input=fluid.layers.concat(rows, axis=1), size=48, act="tanh")
    predicted = fluid.layers.fc(input=hidden, size=300, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=predicted, label=label))

    def batch(rng, n):
        ids = (rng.integers(0, 8, (n, 5)) * 149 + 3).astype("int64")
        shaped = ids[..., None] if form == 1 else ids
        return {"words": shaped[:, :4], "last": shaped[:, 4:], "label": (ids[:, :1] * 7 + ids[:, 1:2]) % 300}

    return loss, batch, 3.0


def noisy(args):
    """word2vec on words of which only some follow from the one before: training ends at a loss above zero, sync or not."""
    words = [fluid.layers.data(name=f"w{i}", shape=[1], dtype="int64") for i in range(2)]
    row = fluid.layers.embedding(words[0], size=[600, 32], is_sparse=True, param_attr=fluid.ParamAttr(name="emb"))
    hidden = fluid.layers.fc(input=row, size=64, act="tanh")
    predicted = fluid.layers.fc(input=hidden, size=600, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=predicted, label=words[1]))

    def batch(rng, n):
        first, other = rng.integers(0, 6, (2, n, 1))
        follows = rng.random((n, 1)) < 0.5
        return {"w0": (first * 97).astype("int64"), "w1": (np.where(follows, (first + 1) % 6, other) * 97).astype("int64")}

    rate = 0.4
    if args.slow_schedule:
        rate = fluid.layers.exponential_decay(learning_rate=rate, decay_steps=100, decay_rate=0.5)
    return loss, batch, rate


def statistics(args):
    """A model whose trainers hold something of their own: the statistics of batch_norm."""
    x = fluid.layers.data(name="x", shape=[200], dtype="float32")
    y = fluid.layers.data(name="y", shape=[1], dtype="float32")
    hidden = fluid.layers.batch_norm(fluid.layers.fc(input=x, size=100))
    loss = fluid.layers.mean(fluid.layers.square_error_cost(input=fluid.layers.fc(input=hidden, size=1), label=y))

    def batch(rng, n):
        rows = rng.standard_normal((n, 200)).astype("float32")
        return {"x": rows, "y": rows.sum(axis=1, keepdims=True).astype("float32")}

    return loss, batch, 0.02


equality.MODELS.update(
    table_plain=lambda args: table(args, is_sparse=True),
    table=lambda args: table(args, is_sparse=True, is_distributed=True),
    padded_plain=lambda args: table(args, is_sparse=True, padding_idx=3),
    padded=lambda args: table(args, is_sparse=True, is_distributed=True, padding_idx=3),
    sequence_plain=lambda args: sequence(args, 1, is_sparse=True),
    sequence=lambda args: sequence(args, 1, is_sparse=True, is_distributed=True),
    sequence_v2=lambda args: sequence(args, 2, is_sparse=True),
    sequence_v2_distributed=lambda args: sequence(args, 2, is_sparse=True, is_distributed=True),
    statistics=statistics,
    noisy=noisy,
)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["single", "server", "trainer"])
    parser.add_argument("--model", default="mlp", choices=sorted(equality.MODELS))
    parser.add_argument("--optimizer", default="sgd", choices=sorted(equality.OPTIMIZERS))
    parser.add_argument("--schedule", action="store_true")
    parser.add_argument("--slow-schedule", action="store_true", help="of the model `noisy`")
    parser.add_argument("--endpoints", default="")
    parser.add_argument("--endpoint", default="")
    parser.add_argument("--trainers", type=int, default=1)
    parser.add_argument("--id", type=int, default=0)
    parser.add_argument("--no-id", action="store_true", help="the first server hands ids out")
    parser.add_argument("--async", dest="is_async", action="store_true")
    parser.add_argument("--runtime-split", action="store_true")
    parser.add_argument("--sum-table", action="store_true", help="add the gradients of the table, as upstream does")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--first-step", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--load", default="")
    parser.add_argument("--load-params", default="")
    parser.add_argument("--load-vars", default="", help="loads the variable `emb` alone")
    parser.add_argument("--save", default="")
    parser.add_argument("--save-params", default="")
    parser.add_argument("--of-clone", action="store_true", help="save with a test clone made before transpile")
    parser.add_argument("--model-to", default="")
    parser.add_argument("--infer", action="store_true", help="the last loss is that of the model just saved, on a batch of its own")
    parser.add_argument("--filename", default=None)
    parser.add_argument("--fluid-save", default="", help="the path that fluid.save is given")
    parser.add_argument("--fluid-load", default="")
    parser.add_argument("--state", action="store_true", help="load by load_program_state and set_program_state")
    parser.add_argument("--fetch", default="", help="variables to fetch beside the loss; `rate`: the Variable that updates read")
    parser.add_argument("--evaluate", default="", choices=["", "before", "after"],
                        help="a test clone made before or after transpile")
    parser.add_argument("--out", default="")
    args = parser.parse_args()
    args.clip, args.decay = "none", False
    return args


def transpile(args) -> fluid.DistributeTranspiler:
    config = fluid.DistributeTranspilerConfig()
    if args.is_async:
        config.sync_mode = False
        config.runtime_split_send_recv = args.runtime_split
    config.average_table_gradient = not args.sum_table
    t = fluid.DistributeTranspiler(config=config)
    number = -1 if args.no_id else args.id
    t.transpile(number, pservers=args.endpoints, trainers=args.trainers, sync_mode=not args.is_async)
    return t


def load(args, exe, program, filename=None) -> None:
    if args.load:
        fluid.io.load_persistables(exe, args.load, program, filename)
    if args.load_params:
        fluid.io.load_params(exe, args.load_params, program, filename)
    if args.load_vars:
        fluid.io.load_vars(exe, args.load_vars, program, vars=["emb"], filename=filename)
    if args.fluid_load and args.state:
        fluid.set_program_state(program, fluid.load_program_state(args.fluid_load))
    elif args.fluid_load:
        fluid.load(program, args.fluid_load, exe)


def serve(args, t, exe) -> None:
    main, startup = t.get_pserver_programs(args.endpoint)
    exe.run(startup)
    load(args, exe, main, args.filename)
    exe.run(main)
    raise AssertionError("the server's run ends the process")


def save(args, exe, program, loss, batch) -> None:
    if args.save:
        fluid.io.save_persistables(exe, args.save, program, args.filename)
    if args.fluid_save:
        fluid.save(program, args.fluid_save)
    if args.save_params:
        fluid.io.save_params(exe, args.save_params, program, args.filename)
    if args.model_to:
        feeds = list(batch(np.random.default_rng(0), 1))
        fluid.io.save_inference_model(args.model_to, feeds, [loss], exe, program, params_filename=args.filename)


def infer(args, exe, batch) -> float:
    with fluid.scope_guard(fluid.Scope()):
        program, _, outs = fluid.io.load_inference_model(args.model_to, exe, params_filename=args.filename)
        return exe.run(program, feed=batch(np.random.default_rng(1), 32), fetch_list=outs)[0].item()


def main() -> int:
    args = parse()
    loss, batch = equality.build(args)
    program = fluid.default_main_program()
    test = program.clone(for_test=True)
    rate = next(op.input("LearningRate")[0] for op in program.global_block().ops if "LearningRate" in op.input_names)
    rate = program.global_block().var(rate)
    more = [rate if name == "rate" else name for name in filter(None, args.fetch.split(","))]
    exe = fluid.Executor(fluid.CPUPlace())
    if args.role != "single":
        t = transpile(args)
        if args.role == "server":
            serve(args, t, exe)
        program = t.get_trainer_program()
    if args.evaluate == "after":
        test = program.clone(for_test=True)
    exe.run(fluid.default_startup_program())
    load(args, exe, program, args.filename)
    losses = []
    for step in range(args.first_step, args.first_step + args.steps):
        which = None if args.role == "single" else args.id
        feed = equality.feeds(args, batch, step, args.trainers, which)
        values = exe.run(program, feed=feed, fetch_list=[loss, *more])
        losses += [float(np.mean(each)) for each in values]
        if args.evaluate:  # with what the step has made of the parameters
            losses.append(float(np.mean(exe.run(test, feed=feed, fetch_list=[loss.name])[0])))
    save(args, exe, test if args.of_clone else program, loss, batch)
    if args.infer:
        losses.append(infer(args, exe, batch))
    equality.save(args, losses, [p.name for p in program.all_parameters()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
