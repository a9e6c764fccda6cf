"""What trainers tell servers of their Program: another update is another text, what a script may do differently is not."""

import pytest

import paddle.fluid as fluid

NET = """
x = L.data('x', [4])
h = L.fc(x, 8, param_attr=attr('w1'{w1}), bias_attr=attr('b1'{b1}))
o = L.fc(h, 8, param_attr=attr('w2'{w2}), bias_attr=attr('b2'{b2}))
loss = L.mean(o)
{before}
fluid.optimizer.{optimizer}.minimize(loss)
"""
PLAIN = {"w1": "", "b1": "", "w2": "", "b2": "", "before": "", "optimizer": "SGD(0.1)"}
DECAY = ", regularizer=fluid.regularizer.L2Decay(0.1)"
CLIP = ", gradient_clip=fluid.clip.GradientClipByNorm(0.1)"
RATE = "rate = L.create_global_var([1], {}, 'float32', persistable=True, name='{}')"
STEP = "step = L.autoincreased_step_counter(begin={})\nrate = L.cast(step, 'float32') * 0.1"
PAIRS = {
    "a rate": ({}, {"optimizer": "SGD(0.5)"}),
    "a rate in its seventh digit": ({}, {"optimizer": "SGD(0.1000001)"}),
    "a rate of one's own": ({"before": RATE.format(0.1, "a"), "optimizer": "SGD(rate)"},
                            {"before": RATE.format(0.9, "a"), "optimizer": "SGD(rate)"}),
    "where a counter begins": ({"before": STEP.format(1), "optimizer": "SGD(rate)"},
                               {"before": STEP.format(2), "optimizer": "SGD(rate)"}),
    "the start of a state": (
        {"optimizer": "Adagrad(0.1, initial_accumulator_value=0.1)"},
        {"optimizer": "Adagrad(0.1, initial_accumulator_value=3.0)"},
    ),
    "whose decay": ({"w1": DECAY}, {"w2": DECAY}),
    "whose rate": ({"w1": ", learning_rate=3.0"}, {"w2": ", learning_rate=3.0"}),
    "whose clip": ({"w1": CLIP}, {"w2": CLIP}),
    "a schedule": ({"optimizer": "SGD(L.piecewise_decay([2, 4], [0.1, 0.2, 0.3]))"},
                   {"optimizer": "SGD(L.piecewise_decay([2, 4], [0.1, 0.7, 0.3]))"}),
    "inside of a block": (
        {"optimizer": "SGD(L.linear_lr_warmup(L.piecewise_decay([2], [0.1, 0.2]), 3, 0.1, 0.2))"},
        {"optimizer": "SGD(L.linear_lr_warmup(L.piecewise_decay([2], [0.1, 0.2]), 3, 0.1, 0.3))"},
    ),
    "Nesterov's way": ({"optimizer": "Momentum(0.1, 0.9)"}, {"optimizer": "Momentum(0.1, 0.9, use_nesterov=True)"}),
    "powers of beta": ({"optimizer": "Adam(0.1, beta1=0.9)"}, {"optimizer": "Adam(0.1, beta1=0.8)"}),
}


def lines(first="", mode="sync", config="", seed=1, endpoint="127.0.0.1:6000", **changes):
    """The lines of a job with this Program; `first` is what the script does before."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = seed
    names = {"fluid": fluid, "L": fluid.layers, "attr": lambda name, **more: fluid.ParamAttr(name=name, **more)}
    with fluid.unique_name.guard():
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            exec(first, names)
        with fluid.program_guard(main, startup):
            exec(NET.format(**{**PLAIN, **changes}), names)
            names["config"] = fluid.DistributeTranspilerConfig()
            exec(config, names)
            job = fluid.DistributeTranspiler(names["config"])
            job.transpile(0, pservers=f"{endpoint},127.0.0.1:6001", trainers=2, sync_mode=mode == "sync")
    return job._job.lines


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("what", PAIRS)
def test_another_update_is_another_text(what, mode):
    one, other = PAIRS[what]
    assert lines(mode=mode, **one) == lines(mode=mode, **one)
    assert lines(mode=mode, **one) != lines(mode=mode, **other)


def test_the_text_names_what_differs():
    assert "input of the update of w1: Grad the gradient of w1, LearningRate 0.1" in lines()
    assert "update op 0: scale(bias=0, bias_after_scale=True, scale=0.1, X=w2)" in lines(w2=DECAY)
    text = lines(optimizer="Adagrad(0.1, initial_accumulator_value=3.0)")
    assert "input of the update of w1: Grad the gradient of w1, LearningRate 0.1, Moment 3 [4, 8]" in text


def test_who_clips_is_in_the_text():
    clip = {"before": "fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(1.0))"}
    assert lines(**clip) != lines(config="config.clip_on_trainer = True", **clip)
    assert lines() == lines(config="config.clip_on_trainer = True")


def test_what_may_differ_is_not_in_the_text():
    first = "for i in range(3):\n  v = L.fc(L.data('x', [4]), 8)\nfluid.optimizer.Adam(L.noam_decay(8, 8)).minimize(L.mean(v))"
    for optimizer in ("SGD(0.1)", "Adam(L.noam_decay(8, 8))", "Momentum(L.piecewise_decay([2, 4], [0.1, 0.2, 0.3]), 0.9)"):
        for more in ({}, {"w1": DECAY + CLIP}):
            here = lines(optimizer=optimizer, **more)
            assert here == lines(first=first, optimizer=optimizer, **more)  # other made-up names
            assert here == lines(seed=7, optimizer=optimizer, **more)
            assert here == lines(endpoint="127.0.0.1:7000", optimizer=optimizer, **more)
    assert lines() == lines(w1=", initializer=fluid.initializer.Constant(3.0)")
    assert lines(before=RATE.format(0.1, "a"), optimizer="SGD(rate)") == lines(before=RATE.format(0.1, "b"), optimizer="SGD(rate)")
