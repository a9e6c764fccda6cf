"""Random models: lines of a script that build `loss`. What trainers compute must be that of one process with the joined batch, so
losses are means over rows, and branches and loops depend on what all trainers feed alike. Functions are smooth: where a unit of
relu stands at 0, rounding would decide."""

from __future__ import annotations

import random

# Names that look like those that servers and gradients have, and signs that files, messages and texts treat in ways of their own.
NAMES = ("w.block0", "w.block1", "emb@GRAD", "p.trainer_0", "p.trainer_1.pserver_0", "p.pserver_0", "a b", "x/y", "50%", "a=b",
         "k:1", "learning_rate_9", "@rate@", "w_velocity_0", "w,1", "größe", "-", "0", "w.1", "fc_7.w_0", "a", "w", "'q'", '"',
         "\\n", "{}", "%20", "w@GRAD.block0", "beta1_pow_acc_0", "x" * 120, "..", "#1", "*", "a;b", "RENAME@w")  # fmt: skip
WIDTHS = (1, 2, 7, 33)
STARTS = ("Uniform(-0.4, 0.4)", "Uniform(-0.4, 0.4, seed=7)", "Normal(0.0, 0.2)", "TruncatedNormal(0.0, 0.3)", "Xavier()",
          "Xavier(uniform=False)", "MSRA()", "Constant(0.1)")


class Model:
    """The lines of a script as they are made, and what it feeds and trains."""

    def __init__(self, rng: random.Random, is_alone: bool, may_keep: bool):
        """`is_alone`: there is one trainer. `may_keep`: it may hold something of its own, for it is not started again."""
        self.rng, self.is_alone, self.may_keep = rng, is_alone, may_keep
        self.lines: list[str] = []
        self.feeds: dict[str, dict] = {}
        self.named: list[str] = []
        self.count = 0
        self.table: str | None = None
        self.tied: list[tuple[str, int, int]] = []  # tables that a layer may use as its weights: name, height, width
        self.need_rows = 1

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def fresh(self, kind: str = "v") -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def say(self, value: str, kind: str = "v") -> str:
        name = self.fresh(kind)
        self.lines.append(f"{name} = {value}")
        return name

    def width(self) -> int:
        return self.rng.choice(WIDTHS)

    # ---- parameters ----

    def attr(self, *starts: str, name: str | None = None, frozen: bool = True) -> str:
        """A ParamAttr; `frozen`: it may be one that nobody trains."""
        rng, words = self.rng, []
        if name is None and self.chance(0.6):
            left = [each for each in NAMES if each not in self.named]
            name = rng.choice(left) if left and self.chance(0.5) else f"{self.fresh('p')}"
        if name is not None:
            self.named.append(name)
            words.append(f"name={name!r}")
        words.append(f"initializer=fluid.initializer.{rng.choice(starts or STARTS)}")
        if self.chance(0.15):
            words.append(f"learning_rate={rng.choice([0.5, 2.0, 0.0])}")
        if self.chance(0.12):
            words.append(f"regularizer=fluid.regularizer.{rng.choice(['L1Decay', 'L2Decay'])}({rng.choice([0.01, 0.1])})")
        if self.chance(0.08):
            words.append(f"gradient_clip={clip(rng, names=False)}")
        if frozen and self.chance(0.08):
            words.append("trainable=False")
        return f"fluid.ParamAttr({', '.join(words)})"

    def bias(self) -> str:
        return self.rng.choice(["False", "None", self.attr("Constant(0.1)", "Constant(0.0)", "Normal(0.0, 0.1)")])

    # ---- inputs ----

    def dense(self) -> tuple[str, int]:
        name, width = self.fresh("x"), self.rng.choice([1, 3, 13, 33])
        self.feeds[name] = {"kind": "float", "dims": [width]}
        self.lines.append(f"{name} = L.data({name!r}, [{width}])")
        return name, width

    def how(self, height: int) -> str:
        """How an embedding lies: dense, sparse, or the one table that is dealt out row by row."""
        kind = self.rng.choice(["", ", is_sparse=True", ", is_sparse=True", ", is_sparse=True, is_distributed=True"])
        if "distributed" in kind and self.table is None:
            self.table = f"table{self.count}"
            attr = self.attr("Uniform(-0.4, 0.4)", "Normal(0.0, 0.2)", "Constant(0.1)", name=self.table, frozen=False)
        else:
            kind = kind.replace(", is_distributed=True", "")
            attr = self.attr(*STARTS[:5])
        kind += ", dtype='float64'" if self.chance(0.08) else ""
        padding = f", padding_idx={self.rng.randrange(height)}" if self.chance(0.15) else ""
        return f"param_attr={attr}{kind}{padding}"

    def lookup(self, ids: str, height: int, width: int, how: str) -> str:
        rows = self.say(f"L.embedding({ids}, [{height}, {width}], {how})")
        return self.say(f"L.cast({rows}, 'float32')") if "float64" in how else rows

    def height(self) -> tuple[int, int]:
        return self.rng.choice([(1, 3), (7, 1), (50, 8), (600, 33), (1300, 16), (2500, 7)])

    def ids(self) -> tuple[str, int]:
        height, width = self.height()
        how, shared = self.how(height), self.chance(0.3)
        if "name=" in how and "distributed" not in how and "float64" not in how and 1 < height < 1000 and self.chance(0.3):
            self.tied.append((self.named[-1], height, width))
        outs = []
        for _ in range(2 if shared and "name=" in how else 1):
            name = self.fresh("ids")
            self.feeds[name] = {"kind": "ids", "dims": [1], "high": height}
            self.lines.append(f"{name} = L.data({name!r}, [1], dtype='int64')")
            outs.append(self.lookup(name, height, width, how))
        if len(outs) == 1:
            return outs[0], width
        return self.say(f"L.concat([{', '.join(outs)}], axis=1)"), width * len(outs)

    def words(self) -> tuple[str, int]:
        """Sequences of ids: pooled, with batches that have none at all, or through a recurrent net."""
        height, width = self.height()
        is_pooled = self.chance(0.7)
        name = self.fresh("words")
        self.feeds[name] = {"kind": "words", "high": height, "least": 0 if is_pooled else 1, "most": 4, "empty": 0.4}
        self.lines.append(f"{name} = L.data({name!r}, [1], dtype='int64', lod_level=1)")
        rows = self.lookup(name, height, width, self.how(height))
        if is_pooled:
            return self.say(f"L.sequence_pool({rows}, {self.rng.choice(['sum', 'average', 'sqrt'])!r})"), width
        inner, rnn = self.width(), self.fresh("rnn")
        self.lines += [
            f"{rnn} = L.DynamicRNN()",
            f"with {rnn}.block():",
            f"    word = {rnn}.step_input({rows})",
            f"    before = {rnn}.memory(shape=[{inner}], value=0.0)",
            f"    weights = [{self.attr()}, {self.attr()}]",
            f"    now = L.fc([word, before], {inner}, act='tanh', param_attr=weights, bias_attr={self.bias()})",
            f"    {rnn}.update_memory(before, now)",
            f"    {rnn}.output(now)",
        ]
        return self.say(f"L.sequence_last_step({rnn}())"), inner

    # ---- between inputs and losses ----

    def fc(self, x: str, size: int) -> str:
        act = self.rng.choice(["None", "'tanh'", "'sigmoid'", "'tanh'", "'softsign'"])
        return self.say(f"L.fc({x}, {size}, act={act}, param_attr={self.attr()}, bias_attr={self.bias()})")

    def wide(self, x: str, width: int) -> tuple[str, int]:
        """Parameters that are cut into slices."""
        size = self.rng.choice([130, 301])
        out = self.fc(self.fc(x, size), self.rng.choice([130, 65]))
        return out, int(self.lines[-1].split("L.fc(")[1].split(", ")[1])

    def shared(self, x: str, width: int) -> tuple[str, int]:
        attr = self.attr(name=self.fresh("both"))
        first = self.say(f"L.fc({x}, {width}, act='tanh', param_attr={attr}, bias_attr=False)")
        return self.say(f"L.fc({first}, {width}, act='tanh', param_attr={attr}, bias_attr=False)"), width

    def norm(self, x: str, width: int) -> tuple[str, int]:
        if width < 3:
            return x, width
        if self.chance(0.5):
            both = f"param_attr={self.attr('Constant(1.0)')}, bias_attr={self.attr('Constant(0.1)')}"
            return self.say(f"L.layer_norm({x}, {both})"), width
        alone = self.is_alone and self.may_keep
        self.need_rows = 4 if alone else self.need_rows
        return self.say(f"L.batch_norm({x}, use_global_stats={not alone})"), width

    def branch(self, x: str, width: int) -> tuple[str, int]:
        flag, name = self.fresh("flag"), self.fresh("b")
        self.feeds[flag] = {"kind": "same", "dtype": "float32", "values": [self.rng.choice([0.0, 1.0]) for _ in range(5)]}
        other = f"L.fc({x}, {width}, act='sigmoid', param_attr={self.attr()}, bias_attr=False)" if self.chance(0.5) else \
            f"L.scale({x}, 0.5)"
        self.lines += [
            f"{flag} = L.data({flag!r}, [1], dtype='float32', append_batch_size=False)",
            f"def yes_{name}():",
            f"    return L.fc({x}, {width}, act='tanh', param_attr={self.attr()}, bias_attr={self.bias()})",
            f"def no_{name}():",
            f"    return {other}",
        ]
        return self.say(f"L.cond(L.less_than({flag}, L.fill_constant([1], 'float32', 0.5)), yes_{name}, no_{name})"), width

    def loop(self, x: str, width: int) -> tuple[str, int]:
        turns, name = self.fresh("turns"), self.fresh("l")
        self.feeds[turns] = {"kind": "same", "dtype": "int64", "values": [self.rng.choice([1, 1, 2, 3]) for _ in range(5)]}
        self.lines += [
            f"{turns} = L.data({turns!r}, [1], dtype='int64', append_batch_size=False)",
            f"def turn_{name}(i, h):",
            f"    return [i + 1, L.fc(h, {width}, act='tanh', param_attr={self.attr(name=self.fresh('inner'))}, bias_attr=False)]",
        ]
        found = self.say(f"L.while_loop(lambda i, h: i < {turns}, turn_{name}, [L.fill_constant([1], 'int64', 0), {x}])")
        return f"{found}[1]", width

    # ---- losses ----

    def tied_head(self, x: str) -> str:
        """The rows of a table are the weights of classes."""
        name, height, width = self.tied.pop()
        label = self.fresh("label")
        self.feeds[label] = {"kind": "ids", "dims": [1], "high": height}
        self.lines.append(f"{label} = L.data({label!r}, [1], dtype='int64')")
        weights = f"fluid.default_main_program().global_block().var({name!r})"
        out = self.say(f"L.matmul({self.fc(x, width)}, {weights}, transpose_y=True)")
        return self.say(f"L.mean(L.softmax_with_cross_entropy({out}, {label}))")

    def head(self, x: str, width: int) -> str:
        rng = self.rng
        if self.tied:
            return self.tied_head(x)
        if self.chance(0.35):
            classes, label = rng.choice([2, 5, 33]), self.fresh("label")
            self.feeds[label] = {"kind": "ids", "dims": [1], "high": classes}
            self.lines.append(f"{label} = L.data({label!r}, [1], dtype='int64')")
            out = self.say(f"L.fc({x}, {classes}, param_attr={self.attr(frozen=False)}, bias_attr={self.bias()})")
            return self.say(f"L.mean(L.softmax_with_cross_entropy({out}, {label}))")
        label, size = self.fresh("y"), rng.choice([1, 1, 3])
        self.feeds[label] = {"kind": "float", "dims": [size]}
        self.lines.append(f"{label} = L.data({label!r}, [{size}])")
        out = self.say(f"L.fc({x}, {size}, param_attr={self.attr(frozen=False)}, bias_attr={self.bias()})")
        return self.say(f"L.mean(L.square_error_cost({out}, {label}))")


def clip(rng: random.Random, names: bool = True) -> str:
    """A clip that bites; `names`: of all kinds."""
    kinds = ["ByValue(0.01)", "ByValue(0.05, -0.02)", "ByNorm(0.05)", "ByNorm(0.3)"]
    if names:
        kinds += ["ByGlobalNorm(0.05)", "ByGlobalNorm(0.3)"]
    return f"fluid.clip.GradientClip{rng.choice(kinds)}"


def make(rng: random.Random, is_alone: bool, may_keep: bool) -> Model:
    """A model up to its loss."""
    model = Model(rng, is_alone, may_keep)
    inputs = [rng.choice([model.dense, model.dense, model.ids, model.words])() for _ in range(rng.choice([1, 1, 2, 3]))]
    x, width = inputs[0]
    if len(inputs) > 1:
        x, width = model.say(f"L.concat([{', '.join(name for name, _ in inputs)}], axis=1)"), sum(size for _, size in inputs)
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        step = rng.choice([None, None, model.wide, model.shared, model.norm, model.branch, model.loop])
        if step is None:
            size = model.width()
            x, width = model.fc(x, size), size
        elif step in (model.shared, model.branch, model.loop) and width > 140:
            continue
        else:
            x, width = step(x, width)
    losses = [model.head(x, width) for _ in range(rng.choice([1, 1, 1, 2]))]
    if model.chance(0.1):
        last = "L.cast(fluid.default_main_program().all_parameters()[-1], 'float32')"
        losses.append(model.say(f"L.scale(L.reduce_sum(L.square({last})), 0.01)"))
    total = f"L.sums([{', '.join(losses)}])" if len(losses) > 1 else losses[0]
    model.lines.append(f"loss = {total}")
    return model
