"""A job, or one process, with a table whose rows are added up over sequences (fused_embedding_seq_pool, is_sparse), or skip-grams
with nce. Prints the losses, and the parameters at the end."""

import json

import numpy as np
import small

import paddle.fluid as fluid

ROWS, WIDTH, BATCH = 30, 4, 8


def start(name: str, seed: int) -> fluid.ParamAttr:
    return fluid.ParamAttr(name=name, initializer=fluid.initializer.Uniform(-0.3, 0.3, seed=seed))


def pooled():
    ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
    label = fluid.layers.data("label", [1])
    summed = fluid.contrib.layers.fused_embedding_seq_pool(ids, [ROWS, WIDTH], is_sparse=True, padding_idx=3,
                                                           param_attr=start("emb", 1))
    return fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(summed, 1, param_attr=start("w", 2)), label))


def skip_gram():
    word, target = (fluid.layers.data(name, [1], dtype="int64") for name in ("word", "target"))
    rows = fluid.layers.embedding(word, [ROWS, WIDTH], is_sparse=True, param_attr=start("emb", 1))
    cost = fluid.layers.nce(rows, target, ROWS, param_attr=start("w", 2), bias_attr=start("b", 3), num_neg_samples=5,
                            sampler="custom_dist", custom_dist=[1.0 / ROWS] * ROWS, seed=11, is_sparse=True)
    return fluid.layers.mean(cost)


def feed(kind: str, step: int, own: slice) -> dict:
    drawn = np.random.RandomState(step)
    if kind == "nce":
        words, targets = drawn.randint(0, ROWS, (2, BATCH, 1)).astype("int64")
        return {"word": words[own], "target": targets[own]}
    lengths = drawn.randint(1, 5, BATCH)
    ids, labels = [drawn.randint(0, ROWS, (n, 1)) for n in lengths], drawn.rand(BATCH, 1).astype("float32")
    mine = ids[own]
    lod = fluid.create_lod_tensor(np.concatenate(mine).astype("int64"), [[len(each) for each in mine]], fluid.CPUPlace())
    return {"ids": lod, "label": labels[own]}


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--kind", choices=["pool", "nce"], default="pool")
    parser.add_argument("--rule", choices=["SGD", "Adagrad"], default="SGD")
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    loss = skip_gram() if args.kind == "nce" else pooled()
    getattr(fluid.optimizer, args.rule)(0.1).minimize(loss)
    if args.role == "single":
        exe, program = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program()
        exe.run(fluid.default_startup_program())
    else:
        exe, program, _ = small.start(args)
    for step in range(args.steps):
        size = BATCH // (args.trainers or 1)
        own = slice(args.id * size, (args.id + 1) * size) if args.role == "trainer" else slice(None)
        value, = exe.run(program, feed=feed(args.kind, step, own), fetch_list=[loss])
        print("loss", float(value[0]), flush=True)
    names = ["emb", "w"]
    print("ends", json.dumps([np.array(fluid.global_scope().find_var(name).get_tensor()).tolist() for name in names]), flush=True)


if __name__ == "__main__":
    main()
