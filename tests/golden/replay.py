"""Build a program, put known values into it, run it, read everything back.

`make_golden.py` runs this on paddlepaddle 1.8.5 to write the golden files, the tests run the same on this
project's `paddle`; what differs is then the engine, never the harness.
"""

import zlib

import numpy as np
import paddle.fluid as fluid

TYPES = fluid.core.VarDesc.VarType
DTYPES = [
    (TYPES.FP32, 'float32'),
    (TYPES.FP64, 'float64'),
    (TYPES.INT64, 'int64'),
    (TYPES.INT32, 'int32'),
    (TYPES.BOOL, 'bool'),
    (TYPES.FP16, 'float16'),
    (TYPES.UINT8, 'uint8'),
    (TYPES.INT8, 'int8'),
]
RANDOM = ('uniform_random', 'gaussian_random', 'truncated_gaussian_random')


class Built:
    """A network in programs, a scope and an executor of its own."""

    def __init__(self, build):
        self.main, self.startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        self.startup.random_seed = 11
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            self.result = build()
        self.place = fluid.CPUPlace()
        self.exe = fluid.Executor(self.place)

    def persistables(self):
        return sorted(var.name for var in self.main.list_vars() if var.persistable)

    def trainable(self):
        return [p for p in self.main.global_block().all_parameters() if p.trainable]

    def start(self, values=None):
        """Run the startup program, then give the trainable parameters their `values` (name to array).

        Learning rates, accumulators and statistics keep what the startup program gave them; that is tested.
        """
        with fluid.scope_guard(self.scope):
            self.exe.run(self.startup)
        if values is not None:
            for parameter in self.trainable():
                self.scope.find_var(parameter.name).get_tensor().set(values[parameter.name], self.place)

    def values(self):
        """Every persistable, by name."""
        return {name: np.array(self.scope.find_var(name).get_tensor()) for name in self.persistables()}

    def step(self, batch, fetches):
        feed = {}
        for name, value in batch.items():
            if isinstance(value, tuple):
                value = fluid.create_lod_tensor(value[0], [list(value[1])], self.place)
            feed[name] = value
        with fluid.scope_guard(self.scope):
            return [np.array(found) for found in self.exe.run(self.main, feed=feed, fetch_list=fetches)]

    def gradients(self):
        """Fetch names of the dense step gradients: {parameter: fetch name}.

        A dense gradient is fetched as `<parameter>@GRAD`. A sparse one (selected rows) is made dense by
        an sgd op over zeros with learning rate -1: exact, and repeated rows are added up.
        """
        block, found = self.main.global_block(), {}
        for parameter in self.trainable():
            gradient = block.var(parameter.name + '@GRAD')
            found[parameter.name] = gradient.name
            if gradient.type != TYPES.SELECTED_ROWS:
                continue
            dense = block.create_var(
                name=parameter.name + '@DENSE', shape=parameter.shape, dtype=parameter.dtype
            )
            minus = block.create_var(name=parameter.name + '@MINUS', shape=[1], dtype=parameter.dtype)
            for out, value in [(dense, 0.0), (minus, -1.0)]:
                block.append_op(
                    type='fill_constant',
                    outputs={'Out': [out]},
                    attrs={'shape': list(out.shape), 'dtype': out.dtype, 'value': value},
                )
            block.append_op(
                type='sgd',
                inputs={'Param': [dense], 'Grad': [gradient], 'LearningRate': [minus]},
                outputs={'ParamOut': [dense]},
            )
            found[parameter.name] = dense.name
        return found

    def seeded(self, salt):
        """Start values for the trainable parameters: a function of salt, name and shape, on a grid of 1/2048.

        Matrices and filters get a uniform spread by fan in and out; vectors their start value plus a little.
        """
        found = {}
        for parameter in self.trainable():
            old = np.array(self.scope.find_var(parameter.name).get_tensor())
            rng = np.random.RandomState(zlib.crc32((salt + '/' + parameter.name).encode()) & 0x7FFFFFFF)
            if old.ndim == 1:
                new = old + rng.uniform(-0.1, 0.1, old.shape)
            else:
                field = float(np.prod(old.shape[2:]))
                limit = np.sqrt(6.0 / ((old.shape[0] + old.shape[1]) * field))
                new = rng.uniform(-limit, limit, old.shape)
            found[parameter.name] = (np.round(new * 2048) / 2048).astype(old.dtype)
        return found


def dtype_name(dtype):
    for known, name in DTYPES:
        if dtype == known:
            return name
    return str(dtype)


def describe(program):
    """What names.json keeps of a program: op types by block, all names, persistables with shape and dtype."""
    names, kept = set(), {}
    for block in program.blocks:
        names.update(block.vars)
    for var in program.list_vars():
        if var.persistable:
            kept[var.name] = [list(var.shape), dtype_name(var.dtype)]
    return {
        'ops': [[op.type for op in block.ops] for block in program.blocks],
        'persistables': kept,
        'vars': sorted(names),
    }


def initializers(startup):
    """How the startup program fills each variable: {name: [op type, {attribute: value}]}."""
    found = {}
    for op in startup.global_block().ops:
        attrs = {key: op.attr(key) for key in ('value', 'min', 'max', 'mean', 'std') if op.has_attr(key)}
        if op.type in RANDOM + ('fill_constant',):
            found[op.output('Out')[0]] = [op.type, {key: round(float(v), 7) for key, v in attrs.items()}]
    return found


def names_of(built):
    return {
        'main': describe(built.main),
        'startup': describe(built.startup),
        'init': initializers(built.startup),
    }


def pack(batches):
    """Batches as flat arrays for an npz file: values end to end, and how many rows each batch has."""
    found = {}
    for name in batches[0]:
        values = [batch[name] for batch in batches]
        if isinstance(values[0], tuple):
            found['lens/' + name] = np.concatenate([v[1] for v in values]).astype('int64')
            found['sequences/' + name] = np.array([len(v[1]) for v in values], 'int64')
            values = [v[0] for v in values]
        found['rows/' + name] = np.array([len(v) for v in values], 'int64')
        found['feed/' + name] = np.concatenate(values)
    return found


def unpack(data):
    """The inverse of `pack`, from a mapping that may hold other keys too."""
    names = [key[len('feed/') :] for key in data if key.startswith('feed/')]
    batches = []
    for name in names:
        values = np.split(data['feed/' + name], np.cumsum(data['rows/' + name])[:-1])
        if 'lens/' + name in data:
            lens = np.split(data['lens/' + name], np.cumsum(data['sequences/' + name])[:-1])
            values = [(value, part.tolist()) for value, part in zip(values, lens)]
        batches = batches or [{} for _ in values]
        for batch, value in zip(batches, values):
            batch[name] = value
    return batches


def section(data, prefix):
    """The entries below `prefix`, with the prefix cut off."""
    return {key[len(prefix) :]: data[key] for key in data if key.startswith(prefix)}


def run_model(case, init, batches):
    """Run a model case. `init` None: make the start values. Returns init, grad, loss, extra and final."""
    optimizer = lambda: fluid.optimizer.SGD(learning_rate=case.lr)
    built = Built(lambda: case.network(optimizer))
    built.start(init)
    if init is None:
        built.start(built.seeded('model'))
    init = built.values()
    probe = Built(lambda: case.network(optimizer))
    gradients = probe.gradients()
    probe.start(init)
    order = sorted(gradients)
    fetched = probe.step(batches[0], [gradients[name] for name in order])
    _, loss, extra = built.result
    rows = [built.step(batch, [loss] + extra) for batch in batches]
    return {
        'init': init,
        'grad': dict(zip(order, fetched)),
        'loss': np.array([row[0].item() for row in rows]),
        'extra': [np.stack([row[i] for row in rows]) for i in range(1, len(rows[0]))],
        'final': built.values(),
    }


def run_small(build, init, steps, batches):
    """Run a case of small.py; returns init, loss, extra (one row a step, or None) and final."""
    built = Built(build)
    built.start(init)
    if init is None:
        built.start(built.seeded('small'))
    init = built.values()
    loss, extra = built.result
    rows = [built.step(batch, [loss] + extra) for batch in batches[:steps]]
    extra = np.array([row[1].reshape(-1) for row in rows]) if extra else None
    return {
        'init': init,
        'loss': np.array([row[0].item() for row in rows]),
        'extra': extra,
        'final': built.values(),
    }
