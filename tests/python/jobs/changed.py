"""A job whose trainer changes, in one of many ways, what its servers hold: before its first step, or between two. Where a step is
refused, the startup Program brings the servers' values back and the step is done."""

import os

import numpy as np
import small

import paddle.fluid as fluid
from paddle.fluid import core, layers, optimizer

WIDTH = 8192  # large enough for two servers to share it


def scope_tensor(name: str):
    return fluid.global_scope().find_var(name).get_tensor()


def doubled(name: str) -> np.ndarray:
    return np.array(scope_tensor(name)) * 2 + 1


def saved(exe, name: str, value: np.ndarray) -> str:
    """A folder with a file of this value."""
    program = fluid.Program()
    var = program.global_block().create_var(name=name, shape=value.shape, dtype="float32", persistable=True)
    scope = fluid.Scope()
    scope.var(name).get_tensor().set(value, fluid.CPUPlace())
    with fluid.scope_guard(scope):
        fluid.io.save_vars(exe, "saved", program, vars=[var])
    return "saved"


def program_of(*lines):
    """A Program over variables of the scope: {name: what it becomes}."""
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        for name, becomes in lines:
            shape = scope_tensor(name).shape()
            var = program.global_block().create_var(name=name, shape=shape, dtype="float32", persistable=True)
            layers.assign(becomes(var), var)
    return program


class Ways:
    """How it is changed. `copy` is a test clone made before transpile."""

    def __init__(self, exe, copy, folder: str):
        self.exe, self.copy, self.folder = exe, copy, folder

    def clone(self):
        saved(self.exe, "w", doubled("w"))
        fluid.io.load_vars(self.exe, "saved", self.copy, predicate=lambda var: var.name == "w")

    def vars(self):
        other = fluid.Program()
        var = other.global_block().create_var(name="w", shape=scope_tensor("w").shape(), dtype="float32", persistable=True)
        fluid.io.load_vars(self.exe, saved(self.exe, "w", doubled("w")), other, vars=[var])

    def set(self):
        scope_tensor("w").set(doubled("w"), fluid.CPUPlace())

    def element(self):
        scope_tensor("w")._set_float_element(3, 17.0)

    def feed_copy(self):
        self.exe.run(self.copy, feed={**batch(), "w": doubled("w")})

    def feed(self):
        return {"w": doubled("w")}

    def ops(self):
        self.exe.run(program_of(("w", lambda w: layers.clip(layers.scale(w, 2.0, bias=1.0), -0.01, 0.01))))

    # what changes nothing

    def same(self):
        scope_tensor("w").set(np.array(scope_tensor("w")), fluid.CPUPlace())

    def swap(self):
        before = np.array(scope_tensor("w"))
        self.ops()
        scope_tensor("w").set(before, fluid.CPUPlace())

    def evaluate(self):
        self.exe.run(self.copy, feed=batch())

    # of a learning rate

    def rate(self):
        scope_tensor("base").set(np.array([0.75], "float32"), fluid.CPUPlace())

    def rate_ops(self):
        self.exe.run(program_of(("base", lambda base: layers.scale(base, 3.0))))

    def rate_feed(self):
        return {"base": np.array([0.75], "float32")}

    def rate_count(self):
        scope_tensor("count").set(np.array([7], "float32"), fluid.CPUPlace())

    # of a table

    def table(self):
        scope_tensor("emb").set(np.ones((6, 2), "float32"), fluid.CPUPlace())

    def table_ops(self):
        other = fluid.Program()
        var = other.global_block().create_var(name="emb", shape=[6, 2], dtype="float32", persistable=True)
        fluid.io.load_vars(self.exe, saved(self.exe, "emb", np.ones((6, 2), "float32")), other, vars=[var])

    def table_feed(self):
        return {"emb": np.ones((6, 2), "float32")}


def batch() -> dict:
    return {"x": np.ones((2, 4), "float32"), "ids": np.array([[3], [3]], "int64")}


def main() -> None:
    parser = small.parse(__doc__)
    parser.add_argument("--how", required=True)
    parser.add_argument("--at", type=int, default=0, help="before this step")
    parser.add_argument("--folder", default=".")
    parser.add_argument("--async", dest="is_async", action="store_true")
    parser.add_argument("--places", type=int, default=1)
    options = parser.parse_args()
    os.chdir(options.folder)
    constant = fluid.initializer.Constant(0.0)
    x, ids = layers.data("x", [4], dtype="float32"), layers.data("ids", [1], dtype="int64")
    base = layers.create_global_var([1], 0.5, "float32", persistable=True, name="base")
    count = layers.create_global_var([1], 0.0, "float32", persistable=True, name="count")
    layers.increment(count, 1.0, in_place=True)
    out = layers.fc(x, WIDTH, param_attr=fluid.ParamAttr(name="w", initializer=constant), bias_attr=False)
    rows = layers.embedding(ids, size=[6, 2], is_sparse=True, param_attr=fluid.ParamAttr(name="emb", initializer=constant))
    loss = layers.sums([layers.reduce_mean(out), layers.reduce_mean(rows)])
    if options.places > 1:
        loss = layers.elementwise_mul(loss, layers.scale(count, 0.5))  # places read it, too
    copy = fluid.default_main_program().clone(for_test=True)
    optimizer.SGD(layers.elementwise_mul(base, layers.scale(count, 0.5))).minimize(loss)
    exe, program, _ = small.start(options, sync_mode=not options.is_async)
    if options.places > 1:
        places = fluid.cpu_places(options.places)
        program = fluid.CompiledProgram(program).with_data_parallel(loss_name=loss.name, places=places)
    ways = Ways(exe, copy, options.folder)
    for step in range(3):
        more = {}
        try:
            if step == options.at:
                more = getattr(ways, options.how)() or {}
            exe.run(program, feed={**batch(), **more})
        except core.EnforceNotMet as error:
            print(f"refused in step {step}: {error}", flush=True)
            exe.run(fluid.default_startup_program())
            exe.run(program, feed=batch())
        print(f"step {step}: {np.array(scope_tensor('w')).ravel()[0]} {np.array(scope_tensor('emb')).ravel()[6]}", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
