"""Random Programs on several places: what is computed once for all is what each place would have computed, op by op."""

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import layers, places_cut

pytestmark = pytest.mark.usefixtures("fresh")


class Builder:
    """A Program of random layers, updates, and ops that touch gradients, parameters and kept variables."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)
        started = [fluid.initializer.Uniform(-0.5, 0.5, seed=i + 1) for i in range(3)]
        self.params = [
            layers.create_parameter([3, 3], "float32", name=f"p{i}", default_initializer=each) for i, each in enumerate(started)
        ]
        self.kept = [layers.create_global_var([3, 3], 0.1 * i, "float32", persistable=True, name=f"k{i}") for i in (1, 2)]
        self.count = layers.create_global_var([1], 0.0, "float32", persistable=True, name="count")
        self.rows, self.squares, self.numbers = [fluid.data("x", [-1, 3])], [], [layers.scale(self.count, 0.1)]
        self.loss = None
        steps = [self.layer, self.mix, self.update, self.change, self.change, self.keep, self.advance, self.decide, self.noise]
        self.update()
        for _ in range(self.rng.randint(4, 10)):
            for each in self.squares + self.numbers:
                each.stop_gradient = True
            self.any(steps)()

    def any(self, of):
        return of[self.rng.randint(len(of))]

    def square(self):
        return self.any(self.params + self.kept + self.squares + self.params)

    def layer(self):
        self.rows.append(layers.tanh(layers.mul(self.any(self.rows), self.square())))

    def mix(self):
        self.squares.append(layers.elementwise_mul(self.square(), layers.clip(self.any(self.numbers), 0.0, 1.0)))

    def forward(self):
        params = [param for param in self.params if self.rng.rand() < 0.6] or self.params[:1]
        out = self.any(self.rows)
        for param in params:
            out = layers.tanh(layers.mul(out, param))
        self.loss = layers.mean(layers.square(out - 0.5))
        self.rows.append(out)
        self.numbers.append(self.loss)
        return [param.name for param in params]

    def update(self):
        names = self.forward()
        clip = self.any([None, fluid.clip.GradientClipByGlobalNorm(0.1)])
        fluid.optimizer.Momentum(0.1, 0.9, grad_clip=clip).minimize(self.loss, parameter_list=names)

    def change(self):
        """An update by hand."""
        names = self.forward()
        for param, grad in fluid.backward.append_backward(self.loss, parameter_list=names):
            grad.stop_gradient = True
            how = self.rng.randint(4)
            if how == 0:
                layers.assign(layers.clip(grad, -0.02, 0.02), output=grad)
            elif how == 1:
                kept = self.any(self.kept)
                layers.assign(kept * 0.5 + grad, output=kept)
                grad = kept
            elif how == 2:
                self.numbers.append(layers.sqrt(layers.reduce_sum(layers.square(grad))))
            else:
                grad = layers.elementwise_mul(grad, layers.clip(self.any(self.numbers), 0.0, 1.0))
            layers.assign(param - grad * 0.2, output=param)

    def keep(self):
        kept = self.any(self.kept + self.params)
        mean = layers.expand(layers.reduce_mean(self.any(self.rows), dim=0, keep_dim=True), [3, 1])
        layers.assign(kept * 0.5 + self.any([mean, self.square()]) * 0.5, output=kept)

    def advance(self):
        layers.increment(self.count)
        self.numbers.append(layers.scale(self.count, 0.1))

    def decide(self):
        small = layers.less_than(self.any(self.numbers), layers.fill_constant([1], "float32", 0.3))
        value = layers.scale(self.square(), 0.9)
        value.stop_gradient = True
        with layers.Switch() as switch, switch.case(small):
            layers.assign(value, output=self.any(self.kept))

    def noise(self):
        self.squares.append(self.square() * 0.5 + layers.uniform_random([3, 3], min=-0.1, max=0.1, seed=7))


def run(seed, count):
    """The fetches of three steps, and the number of segments."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.core.Scope()):
        built = Builder(seed)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        program = fluid.CompiledProgram(main).with_data_parallel(loss_name=built.loss.name, places=fluid.cpu_places(count))
        fetches = [built.loss, *built.rows[1:], *built.squares, *built.numbers, *built.params, *built.kept]
        found = []
        for i in range(3):
            feed = {"x": np.random.RandomState(i).randn(2 * count, 3).astype("float32")}
            found += exe.run(program, feed=feed, fetch_list=fetches)
        return found, len(places_cut.cut(main, count, frozenset()).segments)


@pytest.mark.parametrize("seed", range(24))
def test_once_is_as_good_as_on_each_place(monkeypatch, seed):
    count = 2 + seed % 2
    found, _ = run(seed, count)
    of_ops = places_cut._ops

    def all_on_each(block, known):
        """No op is taken for one that gives the same on all places."""
        return [op._replace(role=op.role & ~places_cut._UPDATES, draws=True) for op in of_ops(block, known)]

    monkeypatch.setattr(places_cut, "_ops", all_on_each)
    wanted, _ = run(seed, count)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_the_random_programs_have_many_segments():
    assert {run(seed, 2)[1] for seed in range(24)} >= {3, 4, 5, 6, 7, 8}
