"""A script of pslib: slots in one table of any ids, a worker and a server by the environment. Prints the losses."""

import argparse

import numpy as np

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.pslib import fleet, fleet_embedding

SLOTS, BATCH = ["user", "item"], 16


def build():
    label = fluid.layers.data("click", [1], dtype="float32")
    slots = [fluid.layers.data(name, [1], dtype="int64", lod_level=1) for name in SLOTS]
    with fleet_embedding(click_name=label.name):
        rows = [fluid.layers.embedding(slot, size=[-1, 8], is_sparse=True, is_distributed=True,
                                       param_attr=fluid.ParamAttr("embedding", initializer=fluid.initializer.Constant(0.0)))
                for slot in slots]
    pooled = [fluid.layers.sequence_pool(row, "sum") for row in rows]
    found = fluid.layers.fc(fluid.layers.concat(pooled, axis=1), 1, param_attr=fluid.initializer.Uniform(-0.5, 0.5, seed=2))
    return fluid.layers.reduce_mean(fluid.layers.sigmoid_cross_entropy_with_logits(found, label))


def batch(step: int) -> dict:
    """Ids far beyond any vocabulary; users of odd numbers click."""
    drawn = np.random.RandomState(step)
    users, items = drawn.randint(0, 20, BATCH), drawn.randint(0, 20, BATCH)
    feed = {name: fluid.create_lod_tensor((10**15 * (i + 1) + each).reshape(-1, 1).astype("int64"), [[1] * BATCH], fluid.CPUPlace())
            for i, (name, each) in enumerate(zip(SLOTS, (users, items)))}
    return {**feed, "click": (users % 2).reshape(-1, 1).astype("float32")}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--load", default=None)
    parser.add_argument("--save", default="")
    args = parser.parse_args()
    fleet.init(role_maker.PaddleCloudRoleMaker())
    loss = build()
    fleet.distributed_optimizer(fluid.optimizer.Adagrad(0.1), strategy={"use_cvm": False}).minimize([loss], [fluid.global_scope()])
    if fleet.is_server():
        if args.load:
            fleet.init_server(args.load, mode=0)
        fleet.run_server()
        return
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    fleet.init_worker()
    for step in range(args.steps):
        value, = exe.run(fluid.default_main_program(), feed=batch(step), fetch_list=[loss])
        print("loss", float(np.mean(value)), flush=True)
    fleet.shrink_sparse_table()
    fleet.print_table_stat(0)
    if args.save and fleet.is_first_worker():
        fleet.save_persistables(exe, args.save, mode=0)
    fleet.stop_worker()


if __name__ == "__main__":
    main()
