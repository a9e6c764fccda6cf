"""Makes Programs of a recipe and runs them. Runs under Python 3.7 too, for paddlepaddle 1.8.5."""

import os

import numpy as np
import paddle.fluid as fluid

from . import recipe as recipes

WORDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "words.py")
with open(WORDS) as stream:
    WORDS_CODE = compile(stream.read(), "words.py", "exec")


class Built:
    """The Programs of a recipe, a scope of their own and an executor.

    With `train` the main Program has gradients, and updates where the recipe has an optimizer. With `fixed` the
    values behind stop() are feeds, with `apart` no op writes what it reads.
    """

    def __init__(self, recipe, dtype, train, fixed=False, apart=False):
        self.recipe, self.dtype = recipe, dtype
        self.main, self.startup = fluid.Program(), fluid.Program()
        names = {"DTYPE": dtype, "np": np}
        exec(WORDS_CODE, names)
        names["FIXED"], names["APART"] = fixed, apart
        code = compile("\n".join(recipes.lines_of(recipe["steps"])), "recipe", "exec")
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            exec(code, names)
            self.loss = names["total"]([names[name] for name in recipe["loss"]])
            self.frozen = names["FROZEN"]
            self.test = self.main.clone(for_test=True) if train else self.main
            if train and recipe["optimizer"]:
                eval(recipe["optimizer"], names).minimize(self.loss)
            elif train:
                fluid.backward.append_backward(self.loss)
            self.gradients = {}
            self.leaves = self.find_leaves(train)
        self.values = {name: value for name, value in names.items() if isinstance(value, fluid.framework.Variable)}
        self.scope, self.exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        self.exe.run(self.startup, scope=self.scope)
        for parameter in self.main.global_block().all_parameters():
            if parameter.trainable:
                self.put(parameter.name, recipes.start_of(parameter.name, parameter.shape).astype(dtype))
        self.begin = self.state()

    def find_leaves(self, train):
        """What has a gradient to check: float feeds and parameters. Notes where their gradients are."""
        block, recipe = self.main.global_block(), self.recipe
        self.feeds = [name for name in recipe["feeds"] if block.has_var(name)]
        leaves = [name for name in self.feeds if recipe["feeds"][name]["kind"] == "float"]
        leaves += [parameter.name for parameter in block.all_parameters() if parameter.trainable]
        for leaf in leaves if train else ():
            if block.has_var(leaf + "@GRAD"):
                gradient = block.var(leaf + "@GRAD")
                sparse = gradient.type == fluid.core.VarDesc.VarType.SELECTED_ROWS
                self.gradients[leaf] = self.dense(block, leaf, gradient) if sparse else gradient.name
        return leaves

    def dense(self, block, leaf, gradient):
        """Name of a gradient of selected rows as a table: what a step of size -1 makes of zeros."""
        table = fluid.layers.fill_constant(block.var(leaf).shape, self.dtype, 0.0)
        rate = fluid.layers.fill_constant([1], self.dtype, -1.0)
        block.append_op(type="sgd", inputs={"Param": [table], "Grad": [gradient], "LearningRate": [rate]},
                        outputs={"ParamOut": [table]})
        return table.name

    def put(self, name, array):
        """Sets a variable of the scope."""
        tensor = self.scope.find_var(name).get_tensor()
        tensor.set(array, fluid.CPUPlace())

    def state(self):
        """All persistable variables by name."""
        found = {}
        for var in self.main.list_vars():
            held = self.scope.find_var(var.name) if var.persistable else None
            if held is not None and var.type == fluid.core.VarDesc.VarType.LOD_TENSOR:
                found[var.name] = np.array(held.get_tensor())
        return found

    def restore(self):
        for name, array in self.begin.items():
            self.put(name, array)

    def feed(self, number):
        """What run `number` is fed."""
        found = {}
        for name in self.feeds:
            array, lengths = recipes.values_of(self.recipe["feeds"][name], name, self.recipe, number)
            found[name] = self.wrap(array if array.dtype == np.int64 else array.astype(self.dtype), lengths)
        return found

    @staticmethod
    def wrap(array, lengths):
        if lengths is None:
            return array
        tensor = fluid.core.LoDTensor()
        tensor.set(array, fluid.CPUPlace())
        tensor.set_recursive_sequence_lengths([lengths])
        return tensor

    def fetches(self, run):
        """(the Program of this run, names to fetch by the name that they get in the result)."""
        program = self.test if run["test"] else self.main
        found = {name: self.values[name] for name in run["fetch"] if name in self.values}
        # A parameter goes by its own name, by which its gradient is found, whatever the recipe calls it.
        names = {var.name if var.persistable else name: var.name for name, var in found.items()}
        names["loss"] = self.loss.name
        if not run["test"]:
            names.update((leaf + "@GRAD", name) for leaf, name in self.gradients.items())
        block = program.global_block()
        return program, {key: name for key, name in names.items() if block.has_var(name)}

    def run(self, number):
        """The values that a run fetches."""
        program, names = self.fetches(self.recipe["runs"][number])
        keys = sorted(names)
        found = self.exe.run(program, feed=self.feed(number), fetch_list=[names[key] for key in keys],
                             scope=self.scope, return_numpy=False)
        return dict(zip(keys, map(np.array, found)))

    def loss_of(self, feed, fetch=()):
        """The loss, and other variables."""
        found = self.exe.run(self.main, feed=feed, fetch_list=[self.loss.name] + list(fetch), scope=self.scope, return_numpy=False)
        return float(np.array(found[0]).reshape(-1)[0]), [np.array(value) for value in found[1:]]

