"""Small programs with every optimizer, clip, decay and initializer, and a way to write them as plain data.

Run with paddlepaddle 1.8.5, `python optimizer_cases.py data/optimizer_programs.json` makes the
file that test_optimizer_programs.py compares with. It runs on Python 3.7 for that reason.
"""

import json
import re
import sys

import numpy as np

import paddle.fluid as fluid

# Attributes that say nothing on what a program computes, or that an engine fills in by itself.
IGNORED = {
    "op_callstack",
    "op_device",
    "use_mkldnn",
    "use_cudnn",
    "x_data_format",
    "y_data_format",
    "str_value",
    "use_quantizer",
    "mkldnn_data_type",
    "skip_eager_deletion_vars",
    "sub_block",
    "is_test",
    "remote_prefetch",
    "entry",
    "entry_config",
    "table_names",
    "epmap",
    "height_sections",
    "trainer_id",
    "grad_inplace",
    "scale_x",
    "scale_y",
    "scale_out",
    "force_fp32_output",
    "shape_tensor",
}


def slots(names, of):
    """Returns {slot: variables}; an output that nobody wants is empty, or holds the name for nothing."""
    filled = {slot: [name for name in of(slot) if name != "@EMPTY@"] for slot in names}
    return {slot: args for slot, args in filled.items() if args}


def describe(program):
    """Returns the ops and persistable variables of a program as lists and dicts."""
    ops = []
    for block in program.blocks:
        for op in block.ops:
            attrs = {}
            for name in op.attr_names:
                if name in IGNORED:
                    continue
                value = op.attr(name)
                if name == "op_namescope":
                    value = re.sub(r"_\d+", "", value)  # the numbers go on over all programs of a process
                if isinstance(value, (list, tuple)):
                    value = [float(v) if isinstance(v, float) else v for v in value]
                if value == [] or value is None or value == "/" or (name == "op_role" and value == 0):
                    continue
                attrs[name] = value if isinstance(value, (bool, str, list, int)) else float(value)
            inputs, outputs = slots(op.input_names, op.input), slots(op.output_names, op.output)
            if op.type == "conditional_block":
                # What a block reads and writes comes from a set upstream, so its order is by chance.
                for args in list(inputs.values()) + list(outputs.values()):
                    args.sort()
            ops.append(
                {"block": block.idx, "type": op.type, "inputs": inputs, "outputs": outputs, "attrs": attrs}
            )
    variables = {
        v.name: [list(v.shape), int(v.dtype)]
        for v in program.list_vars()
        if v.persistable and v.name != "feed"
    }
    return {"ops": ops, "persistable": variables}


def regression(**fc):
    x = fluid.layers.data("x", [13])
    y = fluid.layers.data("y", [1])
    return fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1, **fc), y))


def embedding(param_attr="table"):
    word = fluid.layers.data("word", [1], dtype="int64")
    y = fluid.layers.data("y", [1])
    emb = fluid.layers.embedding(word, [50, 4], is_sparse=True, param_attr=param_attr)
    return fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(emb, 1), y))


def minimizing(make, loss=regression):
    def build():
        make().minimize(loss())

    return build


def two_rates():
    attr = fluid.ParamAttr(learning_rate=2.0, regularizer=fluid.regularizer.L1Decay(0.02))
    loss = regression(param_attr=attr)
    fluid.optimizer.Momentum(0.1, 0.9, regularization=fluid.regularizer.L2Decay(0.01)).minimize(loss)


def frozen():
    x = fluid.layers.data("x", [13])
    y = fluid.layers.data("y", [1])
    hidden = fluid.layers.fc(x, 4, bias_attr=fluid.ParamAttr(name="still", trainable=False), act="tanh")
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y))
    fluid.optimizer.Adam(0.01, name="opt").minimize(loss)


def clip_all():
    loss = regression()
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(1.0))
    fluid.optimizer.SGD(0.1).minimize(loss)


def clip_by(clip, loss=regression):
    return minimizing(lambda: fluid.optimizer.SGD(0.1, grad_clip=clip), loss)


def decayed():
    loss = regression()
    rate = fluid.layers.exponential_decay(0.1, 100, 0.5, staircase=True)
    fluid.optimizer.Adam(rate).minimize(loss)


def betas():
    loss = regression()
    beta1 = fluid.layers.create_global_var([1], 0.85, "float32", persistable=True, name="beta1")
    fluid.optimizer.Adam(0.1, beta1=beta1).minimize(loss)


def error_clip():
    x = fluid.layers.data("x", [13])
    y = fluid.layers.data("y", [1])
    hidden = fluid.layers.fc(x, 4)
    hidden.error_clip = fluid.clip.ErrorClipByValue(0.5)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y))
    fluid.optimizer.SGD(0.1).minimize(loss)


def model_average():
    fluid.optimizer.Momentum(0.1, 0.9).minimize(regression())
    average = fluid.optimizer.ModelAverage(0.15, min_average_window=10, max_average_window=20)
    return [average.apply_program, average.restore_program]


def moving_average():
    fluid.optimizer.SGD(0.1).minimize(regression())
    average = fluid.optimizer.ExponentialMovingAverage(0.99)
    average.update()
    return [average.apply_program, average.restore_program]


def lookahead():
    fluid.optimizer.LookaheadOptimizer(fluid.optimizer.SGD(0.1), alpha=0.5, k=5).minimize(regression())


def weight_norm(dim):
    def build():
        fluid.optimizer.SGD(0.1).minimize(
            regression(param_attr=fluid.WeightNormParamAttr(dim=dim, name="wn"))
        )

    return build


def initializers():
    init = fluid.initializer
    each = {
        "constant": ([3, 4], init.Constant(0.5)),
        "uniform": ([4, 4], init.Uniform(-0.1, 0.2, seed=7)),
        "diagonal": ([4, 4], init.Uniform(-0.1, 0.2, diag_num=4, diag_step=4, diag_val=2.0)),
        "normal": ([3, 4], init.Normal(0.1, 0.2, seed=3)),
        "truncated": ([3, 4], init.TruncatedNormal(0.1, 0.2)),
        "xavier": ([3, 4], init.Xavier()),
        "xavier_normal": ([8, 4, 3, 3], init.Xavier(uniform=False, fan_in=12)),
        "msra": ([8, 4, 3, 3], init.MSRA()),
        "msra_normal": ([8, 4, 3, 3], init.MSRA(uniform=False)),
        "array": ([2, 3], init.NumpyArrayInitializer(np.arange(6, dtype="float32").reshape(2, 3))),
    }
    for name, (shape, rule) in each.items():
        fluid.layers.create_parameter(shape, "float32", name=name, default_initializer=rule)


def _opt(name, *args, **kwargs):
    return minimizing(lambda: getattr(fluid.optimizer, name)(*args, **kwargs))


CASES = {
    "sgd": _opt("SGD", 0.1),
    "sgd_l2": _opt("SGD", 0.1, regularization=fluid.regularizer.L2Decay(0.1)),
    "momentum": _opt("Momentum", 0.1, 0.9, use_nesterov=True),
    "lars": _opt("LarsMomentum", 0.1, 0.9),
    "adagrad": _opt("Adagrad", 0.1, initial_accumulator_value=0.1),
    "adam": _opt("Adam", 0.1),
    "adamax": _opt("Adamax", 0.1),
    "dpsgd": _opt("Dpsgd", 0.1, clip=10.0, batch_size=16.0, sigma=1.0),
    "decayed_adagrad": _opt("DecayedAdagrad", 0.1),
    "adadelta": _opt("Adadelta", 0.1),
    "rmsprop": _opt("RMSPropOptimizer", 0.1, centered=True, momentum=0.5),
    "ftrl": _opt("Ftrl", 0.1, l1=0.1, l2=0.2),
    "lamb": _opt("LambOptimizer", 0.1, exclude_from_weight_decay_fn=lambda p: p.name.endswith(".b_0")),
    "two_rates": two_rates,
    "frozen": frozen,
    "clip_all": clip_all,
    "clip_value": clip_by(fluid.clip.GradientClipByValue(1.0)),
    "clip_norm": clip_by(fluid.clip.GradientClipByNorm(1.0)),
    "clip_global_norm": clip_by(fluid.clip.GradientClipByGlobalNorm(1.0)),
    "clip_some": clip_by(fluid.clip.GradientClipByValue(1.0, need_clip=lambda p: p.name.endswith(".w_0"))),
    "decayed": decayed,
    "betas": betas,
    "error_clip": error_clip,
    "sparse_lazy_adam": minimizing(lambda: fluid.optimizer.Adam(0.1, lazy_mode=True), embedding),
    "sparse_clip": clip_by(fluid.clip.GradientClipByGlobalNorm(1.0), embedding),
    "sparse_l2": minimizing(
        lambda: fluid.optimizer.Adagrad(0.1, regularization=fluid.regularizer.L2Decay(0.1)), embedding
    ),
    "model_average": model_average,
    "moving_average": moving_average,
    "lookahead": lookahead,
    "weight_norm_all": weight_norm(None),
    "weight_norm_0": weight_norm(0),
    "weight_norm_1": weight_norm(1),
    "initializers": initializers,
}


def build(name):
    """Builds one case; returns the descriptions of its programs: main, startup, and what the case returns."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        more = CASES[name]() or []
    return [describe(program) for program in [main, startup] + more]


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        lines = [
            "%s:%s" % (json.dumps(n), json.dumps(build(n), separators=(",", ":"), sort_keys=True))
            for n in CASES
        ]
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
