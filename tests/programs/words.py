"""What the lines of a recipe may call beside fluid itself. Runs under Python 3.7 too, for paddlepaddle 1.8.5.

A printed script has this file's text in it.
"""

import paddle.fluid as fluid

L = fluid.layers
FROZEN = []  # (variable, its copy) for each call of stop(), in order
FIXED = False  # stop() reads its value from a feed, so that finite differences hold it
APART = False  # no op writes what it reads: it writes a variable of its own, and that is assigned


def op(kind, ins, outs, **attrs):
    """An op by its type; an output may be one of the inputs."""
    block = fluid.default_main_program().current_block()
    later = []
    for slot in outs if APART else ():
        if any(outs[slot] is x for xs in ins.values() for x in (xs if isinstance(xs, list) else [xs])):
            own = var(outs[slot].dtype)
            later.append((own, outs[slot]))
            outs = dict(outs, **{slot: own})
    block.append_op(type=kind, inputs=ins, outputs=outs, attrs=attrs)
    for own, out in later:
        L.assign(own, output=out)


def add_up(xs, out):
    """The sum of several in a variable that may be one of them."""
    if APART:
        L.assign(L.sums(xs), output=out)
    else:
        L.sums(xs, out=out)


def inplace(layer, x, *words, **more):
    """A layer that has the argument `inplace`."""
    if APART:
        L.assign(layer(x, *words, **more), output=x)
    else:
        layer(x, *words, inplace=True, **more)


def stop(x):
    """The value of x, with no gradient behind it."""
    if FIXED:
        out = fluid.data("frozen_%d" % len(FROZEN), x.shape, x.dtype)
    else:
        out = L.assign(x)
    out.stop_gradient = True
    FROZEN.append(out.name)
    return out


def var(dtype):
    """A variable for an op to write."""
    return fluid.default_main_program().current_block().create_var(dtype=dtype)


def total(parts):
    """A loss of several variables."""
    terms = [L.reduce_sum(L.scale(x, 0.5 + 0.1 * i)) for i, x in enumerate(parts)]
    terms += [L.reduce_sum(L.square(L.tanh(x))) for x in parts]
    return L.sums(terms) if len(terms) > 1 else terms[0]
