"""Small recipes that failed once, each with what was wrong. They are judged like random ones."""


def feed(*dims, rows=None, kind="float", high=0):
    return {"dims": list(dims), "kind": kind, "high": high, "rows": rows, "checked": False}


def recipe(text, loss, feeds, runs=({"B": 3},), optimizer=None):
    """A recipe of plain lines; each feed is declared first."""
    steps = []
    for name, entry in feeds.items():
        shape = [dim if isinstance(dim, int) else -1 for dim in entry["dims"]]
        dtype = "DTYPE" if entry["kind"] == "float" else "'int64'"
        steps.append([f"{name} = L.data('{name}', {shape}, append_batch_size=False, dtype={dtype}, "
                      f"lod_level={1 if entry['rows'] else 0})"])
        if entry["kind"] == "float":
            steps[-1].append(f"{name}.stop_gradient = False")
    steps.append(text.strip().split("\n"))
    return {"seed": 1, "feeds": feeds, "steps": steps, "loss": loss.split(), "optimizer": optimizer, "model": False,
            "runs": [{"fetch": [], "test": False, **run} for run in runs]}


FOUND = {
    # The gradient of a variable that stands twice in a sum counted one part twice.
    "sum of twice the same": recipe("h = L.tanh(x)\nv = L.sums([h, h])", "v", {"x": feed("B", 2)}),
    # One row has no spread: the averages were left as memory was.
    "batch_norm of one row": recipe(
        "h = L.tanh(x)\nv = L.batch_norm(h, moving_mean_name='m', moving_variance_name='s')", "h v", {"x": feed("B", 3)},
        [{"B": 1}, {"B": 4}, {"B": 1}, {"B": 2, "test": True}], "fluid.optimizer.SGD(0.1)"),
    # The gradient comes by an op that knows no sequences, and the array that it goes to needs them.
    "reversed output of a recurrent net": recipe("""
p = L.create_parameter([3, 3], DTYPE, name='p')
rnn = L.DynamicRNN()
with rnn.block():
    word = rnn.step_input(x)
    memory = rnn.memory(shape=[3], value=0.8, dtype=DTYPE)
    h = L.tanh(word + L.matmul(memory, p))
    rnn.update_memory(memory, h)
    rnn.output(h)
h = rnn()
v = L.reverse(h, [0])""", "v", {"x": feed("T0", 3, rows="T0")}, [{"B": 3, "T0": [3, 1, 2]}]),
    # The old value of a variable that a branch overwrites got a gradient, because the branch had read it.
    "a branch reads what it overwrites": recipe("""
a = L.scale(x, 2.0)
v = L.scale(x, 3.0)
c = L.less_than(L.reduce_sum(x), L.fill_constant([1], DTYPE, 100.0))
b = L.control_flow.ConditionalBlock([c], is_scalar_condition=True)
with b.block():
    p, q = L.split(v, 2, dim=1)
    L.assign(L.tanh(a), output=v)""", "v", {"x": feed("B", 4)}),
    # The memory of the copy was that of a value that a branch had written.
    "a copy of what a branch wrote": recipe("""
v = L.scale(x, 2.0)
w = L.scale(x, 3.0)
c = L.less_than(L.reduce_sum(x), L.fill_constant([1], DTYPE, 100.0))
b = L.control_flow.ConditionalBlock([c], is_scalar_condition=True)
with b.block():
    L.assign(L.tanh(x), output=v)
L.assign(v, output=w)""", "w", {"x": feed("B", 2)}),
    # The gradient of the loop had the shape that its input got after the loop.
    "reshaped in place after a loop read it": recipe("""
v = L.scale(x, 2.0)
i = L.fill_constant([1], 'int64', 0)
n = L.fill_constant([1], 'int64', 2)
c = L.less_than(i, n)
w = L.While(c)
with w.block():
    L.assign(L.tanh(x), output=v)
    L.increment(i, 1, in_place=True)
    L.less_than(i, n, cond=c)
inplace(L.reshape, x, [-1, 0, 1])""", "v", {"x": feed("B", 5)}),
    # What a block overwrote with a value that has no gradient kept that of its old value.
    "a loop overwrites with what has no gradient": recipe("""
v = L.scale(x, 2.0)
s = stop(L.scale(x, 3.0))
i = L.fill_constant([1], 'int64', 0)
n = L.fill_constant([1], 'int64', 1)
c = L.less_than(i, n)
w = L.While(c)
with w.block():
    L.assign(L.scale(s, 0.5), output=v)
    L.increment(i, 1, in_place=True)
    L.less_than(i, n, cond=c)""", "v x", {"x": feed("B", 4)}),
    # 1.8.5 reads what it has written already, or counts back what it had counted up.
    "elements move while they are overwritten": recipe("""
v = L.scale(x, 0.5)
w = L.tanh(v)
op('transpose2', {'X': v}, {'Out': v, 'XShape': var(DTYPE)}, axis=[1, 0])
op('gelu', {'X': v}, {'Out': v})
op('sum', {'X': [w, v]}, {'Out': v})
op('slice', {'Input': v}, {'Out': v}, axes=[1], starts=[1], ends=[3])
m = L.mean(v)
L.increment(m, 0.5, in_place=True)""", "v m", {"x": feed(3, 3)}, [{"B": 1, "fetch": ["v", "m"]}]),
    # The gradient that goes past a branch that did not run got another name, to be added to others, and was lost.
    "a branch reads in vain what another overwrites": recipe("""
v = L.scale(x, 1.0)
w = L.scale(v, 3.0)
c = L.less_than(L.reduce_sum(v), L.fill_constant([1], DTYPE, -9.0))
with L.Switch() as s:
    with s.case(c):
        L.squeeze(v, [1])
        L.assign(L.scale(x, 0.0), output=v)
    with s.default():
        op('elementwise_add', {'X': w, 'Y': w}, {'Out': w}, axis=-1)
        L.assign(L.tanh(v), output=v)""", "v", {"x": feed("B", 1)}),
    # The fused op was given the size that its input gets after it.
    "reshaped in place after a sum with an activation": recipe("""
v = L.scale(x, 2.0)
w = L.elementwise_add(L.scale(x, 0.5), v, act='tanh')
inplace(L.reshape, v, [0, 10, 1])""", "v w", {"x": feed("B", 2, 5)}),
    # The gradient of what a branch overwrites had the size that the variable gets after the branch.
    "flattened in place after a branch overwrote it": recipe("""
v = L.scale(x, 1.0)
c = L.less_than(L.reduce_sum(x), L.fill_constant([1], DTYPE, 100.0))
def inner():
    op('elementwise_add', {'X': v, 'Y': v}, {'Out': v}, axis=-1)
    return L.scale(v, -0.3)
def yes():
    op('elementwise_mul', {'X': v, 'Y': v}, {'Out': v}, axis=-1)
    return L.cond(c, inner, lambda: L.scale(v, 0.1))
w = L.cond(c, yes, lambda: L.scale(L.softmax(v), 0.3))
op('flatten2', {'X': v}, {'Out': v, 'XShape': var(DTYPE)}, axis=1)""", "w", {"x": feed("B", 2, 5)}),
    # The mean of nothing was refused. It is no number, and what is trained stays as it is.
    "mean of no rows": recipe("""
p = L.create_parameter([2, 1], DTYPE, name='p')
v = L.mean(L.matmul(x, p))
w = L.reduce_mean(x)""", "v w", {"x": feed("B", 2)}, [{"B": 2}, {"B": 0, "fetch": ["v", "w"]}, {"B": 2}],
     "fluid.optimizer.SGD(0.1)"),
    # A loop that did not run took the gradient of an array whose item it would have overwritten.
    "a loop that would overwrite an item": recipe("""
i = L.fill_constant([1], 'int64', 0)
n = L.fill_constant([1], 'int64', 0)
a = L.array_write(x, i)
c = L.less_than(i, n)
w = L.While(c)
with w.block():
    L.array_write(L.tanh(L.zeros_like(L.array_read(a, i))), i, array=a)
v = L.array_read(a, i)""", "v", {"x": feed("B", 1)}),
    # What is written over a parameter, and has no gradient, is another value: its gradient was added to the parameter's.
    "a parameter that another value takes the place of": recipe("""
p = L.create_parameter([3], DTYPE, name='p')
v = L.elementwise_mul(x, p)
op('sin', {'X': stop(p)}, {'Out': p})""", "v p", {"x": feed("B", 3)}),
}
