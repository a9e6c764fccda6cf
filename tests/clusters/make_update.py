"""Random updates: optimizers, rates and schedules, clips, decays, averages. Rules that divide by the size of a gradient have an
epsilon against which the rounding of a gradient is nothing, and small rates: otherwise it would decide where one is near 0."""

from __future__ import annotations

from .make_model import Model, clip

# Expression and rate. {more} is where regularization and clips go.
RULES = (
    ("SGD({rate}{more})", 0.03),
    ("SGD({rate}{more})", 0.03),
    ("Momentum({rate}, 0.9{more})", 0.01),
    ("Momentum({rate}, 0.5, use_nesterov=True{more})", 0.02),
    ("Adagrad({rate}, epsilon=0.1{more})", 0.01),
    ("Adagrad({rate}, epsilon=0.1, initial_accumulator_value=0.1{more})", 0.01),
    ("Adam({rate}, epsilon=0.05{more})", 0.005),
    ("Adam({rate}, beta1=0.8, beta2=0.95, epsilon=0.05, lazy_mode=True{more})", 0.005),
    ("Adamax({rate}, epsilon=0.05{more})", 0.005),
    ("DecayedAdagrad({rate}, epsilon=0.1{more})", 0.01),
    ("Ftrl({rate}, l1=0.001, l2=0.5{more})", 0.05),
    ("LambOptimizer({rate}, epsilon=0.05{more})", 0.005),
    ("Adadelta(0.01, epsilon=0.01{more})", 0.01),  # it does not read its rate: a schedule would be the trainers' own
    ("RMSPropOptimizer({rate}, epsilon=0.1{more})", 0.005),
    ("RMSPropOptimizer({rate}, epsilon=0.1, momentum=0.5, centered=True{more})", 0.005),
    ("LarsMomentum({rate}, 0.9, lars_coeff=0.1, lars_weight_decay=0.05{more})", 0.02),
    ("Dpsgd({rate}, clip=0.5, batch_size=8.0, sigma=0.0)", 0.02),
)


def schedule(model: Model, rate: float, is_second: bool) -> str:
    """A rate: a number, mostly, or lines that make one."""
    rng = model.rng
    if model.chance(0.5):
        return str(rate)
    made = rng.choice([
        f"L.exponential_decay({rate}, 2, 0.8)",
        f"L.exponential_decay({rate}, 3, 0.7, staircase=True)",
        f"L.natural_exp_decay({rate}, 3, 0.3)",
        f"L.inverse_time_decay({rate}, 2, 0.5)",
        f"L.polynomial_decay({rate}, 5, {rate / 10}, power=2.0)",
        f"L.polynomial_decay({rate}, 3, {rate / 10}, cycle=True)",
        f"L.piecewise_decay([2, 4, 9], [{rate}, {rate / 2}, {rate / 3}, {rate / 4}])",
        f"L.noam_decay({int(1 / rate ** 2)}, 4)",
        f"L.cosine_decay({rate}, 2, 300)",
        f"L.linear_lr_warmup({rate}, 4, {rate / 10}, {rate})",
        f"L.linear_lr_warmup(L.exponential_decay({rate}, 2, 0.8), 3, {rate / 10}, {rate})",
        "own",
        "changed",
    ])
    if "noam" in made and is_second:
        made = f"L.exponential_decay({rate}, 2, 0.8)"  # schedules share a counter: from 0 on noam's begins with an infinity
    if made == "own":  # the script's own layers
        step = model.say("L.cast(L.autoincreased_step_counter(begin=1, step=1), 'float32')", "step")
        made = f"L.elementwise_div(L.fill_constant([1], 'float32', {rate}), L.sqrt({step}))"
    if made == "changed":
        made = f"L.create_global_var([1], {rate}, 'float32', persistable=True, name='{model.fresh('mine')}')"
        found = model.say(made, "rate")
        model.after.append(f"L.assign(L.scale({found}, 0.9), {found})")
        return found
    return model.say(made, "rate")


def more(model: Model) -> str:
    """A decay and a clip."""
    rng, words = model.rng, ""
    if model.chance(0.25):
        words += f", regularization=fluid.regularizer.{rng.choice(['L1Decay(0.01)', 'L2Decay(0.05)', 'L2Decay(0.001)'])}"
    if model.chance(0.2):
        words += f", grad_clip={clip(rng)}"
    return words


def rule(model: Model, name: str, only: str = "") -> None:
    rules = [each for each in RULES if each[0].startswith(only)]
    text, rate = model.rng.choice(rules)
    made = schedule(model, rate, name == "other") if "{rate}" in text else ""
    text = text.format(rate=made, more=more(model) if not only else "")
    model.lines.append(f"{name} = fluid.optimizer.{text}")


def two(model: Model) -> None:
    """A second optimizer for the rest of the parameters, where there is a rest: a schedule that no update reads would be the
    trainers' own."""
    rng = model.rng
    pick = rng.choice(["p[0].name[-1] < 'n'", "len(p[0].shape) == 1"])
    if model.table:  # which has plain SGD
        pick = f"p[0].name == {model.table!r}"
    model.lines += ["pairs = opt.backward(loss)",
                    f"mine = [p for p in pairs if {pick}] or pairs[:1]",
                    "names = [p[0].name for p in mine]",
                    "rest = [p for p in pairs if p[0].name not in names]",
                    "opt.apply_gradients(mine)",
                    "if rest:"]
    lines, after, model.lines, model.after = model.lines, model.after, [], []
    rule(model, "other")
    inner = [*model.lines, "other.apply_gradients(rest)", *model.after]
    model.lines, model.after = [*lines, *(f"    {line}" for line in inner)], after


def make(model: Model) -> None:
    """Adds the lines behind the loss."""
    rng = model.rng
    model.after: list[str] = []
    if model.chance(0.2) and not model.table:
        some = rng.choice(["", ", param_list=[p.name for p in fluid.default_main_program().all_parameters()][:2]"])
        model.lines.append(f"fluid.clip.set_gradient_clip({clip(rng)}{some})")
    rule(model, "opt", "SGD" if model.table else "")
    if model.chance(0.2):
        two(model)
    else:
        model.lines.append("opt.minimize(loss)")
    model.lines += model.after
    if model.may_keep and model.chance(0.06):
        model.lines += ["ema = fluid.optimizer.ExponentialMovingAverage(0.9)", "ema.update()"]
    if model.chance(0.3):
        model.lines.append("fetches = [opt._global_learning_rate()]")
    if model.chance(0.2):
        model.lines.append("fetches += [p for p in fluid.default_main_program().all_parameters() if np.prod(p.shape) <= 40][:2]")
