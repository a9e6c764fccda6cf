"""A job, or one process, whose distributed table has an optimizer with states. Prints what it begins and ends with."""

import json

import numpy as np
import small

import paddle.fluid as fluid

ROWS, WIDTH, BATCH = 60, 3, 24
RULES = {
    "momentum": lambda: fluid.optimizer.Momentum(0.1, 0.9),
    "adagrad": lambda: fluid.optimizer.Adagrad(0.1),
    "adam": lambda: fluid.optimizer.Adam(0.01),
    "lazy": lambda: fluid.optimizer.Adam(0.01, lazy_mode=True),
    "rmsprop": lambda: fluid.optimizer.RMSProp(0.01),
    "adadelta": lambda: fluid.optimizer.Adadelta(0.5),
}
STARTS = {
    "uniform": lambda: fluid.initializer.Uniform(-1.0, 1.0, seed=7),
    "normal": lambda: fluid.initializer.Normal(0.0, 1.0, seed=7),
    "constant": lambda: fluid.initializer.Constant(0.5),
}


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--rule", default="adam")
    parser.add_argument("--start", default="uniform")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--load", default="")
    parser.add_argument("--save", default="")
    args = parser.parse_args()
    ids = fluid.layers.data("ids", [1], dtype="int64")
    label = fluid.layers.data("label", [1])
    attr = fluid.ParamAttr(name="emb", initializer=STARTS[args.start]())
    rows = fluid.layers.embedding(ids, size=[ROWS, WIDTH], is_sparse=True, is_distributed=True, param_attr=attr)
    out = fluid.layers.fc(rows, 1, param_attr=fluid.ParamAttr("w", initializer=fluid.initializer.Constant(0.3)))
    loss = fluid.layers.mean(fluid.layers.square_error_cost(out, label))
    RULES[args.rule]().minimize(loss)

    def load(exe, program) -> None:
        if args.load:
            fluid.io.load_persistables(exe, args.load, program)

    if args.role == "single":
        exe, program, transpiler = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program(), None
        exe.run(fluid.default_startup_program())
        load(exe, program)
    else:
        exe, program, transpiler = small.start(args, load=load)
    begun = transpiler.steps_done() if transpiler else 0
    print("begins", begun, flush=True)
    parts = args.trainers or 1
    for step in range(begun, args.steps):
        drawn = np.random.RandomState(step)
        # Some ids come again, some never come.
        batch = drawn.randint(0, ROWS // 2, (BATCH, 1)) * 2 if step % 2 else drawn.randint(0, ROWS, (BATCH, 1))
        labels = drawn.rand(BATCH, 1).astype("float32")
        own = slice(args.id * BATCH // parts, (args.id + 1) * BATCH // parts) if transpiler else slice(None)
        exe.run(program, feed={"ids": batch[own].astype("int64"), "label": labels[own]})
        print("did", step, flush=True)
    if args.save:
        fluid.io.save_persistables(exe, args.save, program)
    table = np.array(fluid.global_scope().find_var("emb").get_tensor())
    print("ends", json.dumps(table.tolist()), flush=True)


if __name__ == "__main__":
    main()
