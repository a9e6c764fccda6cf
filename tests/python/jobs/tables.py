"""A job, or one process, whose table counts the steps: each takes 1 from all its numbers. It may load before, and save after."""

import numpy as np
import small

import paddle.fluid as fluid

ROWS = 20


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--load", default="")
    parser.add_argument("--save", default="")
    parser.add_argument("--save-params", default="")
    parser.add_argument("--added", action="store_true", help="the table's gradients are added up")
    parser.add_argument("--clip", action="store_true", help="two more parameters are clipped together, to no effect")
    args = parser.parse_args()
    ids = fluid.layers.data("ids", [1], dtype="int64")
    attr = fluid.ParamAttr(name="emb", initializer=fluid.initializer.Constant(0.0))
    rows = fluid.layers.embedding(ids, size=[ROWS, 2], is_sparse=True, is_distributed=args.role != "single", param_attr=attr)
    loss = fluid.layers.reduce_sum(rows)
    if args.clip:
        for name in ("v", "w"):
            attr = fluid.ParamAttr(name, initializer=fluid.initializer.Constant(0.0), learning_rate=0.0)
            loss = loss + fluid.layers.reduce_sum(fluid.layers.fc(rows, 1, bias_attr=False, param_attr=attr))
        fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(1e6), param_list=["v", "w"])
    fluid.optimizer.SGD(1.0).minimize(loss)
    config = fluid.DistributeTranspilerConfig()
    config.average_table_gradient = not args.added

    def load(exe: fluid.Executor, program: fluid.Program) -> None:
        if args.load:
            fluid.io.load_persistables(exe, args.load, program)

    if args.role == "single":
        exe, program = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program()
        exe.run(fluid.default_startup_program())
        load(exe, program)
    else:
        exe, program, _ = small.start(args, load=load, config=config)
    print("begins", values(), flush=True)
    for _ in range(args.steps):
        exe.run(program, feed={"ids": np.arange(ROWS).reshape(ROWS, 1)})
    if args.save:
        fluid.io.save_persistables(exe, args.save, program)
    if args.save_params:
        fluid.io.save_params(exe, args.save_params, program)
    print("ends", values(), flush=True)


def values() -> list[float]:
    return (-np.array(fluid.global_scope().find_var("emb").get_tensor())[:, 0]).tolist()


if __name__ == "__main__":
    main()
