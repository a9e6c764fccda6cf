"""Executor.run: feeds and fetches in all forms, wrong ones with their messages, signals and threads."""

import concurrent.futures
import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import core


class Line:
    """y = x w in a Program and a scope of its own."""

    def __init__(self):
        self.main, self.startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            self.x = fluid.layers.data(name="x", shape=[4], dtype="float32")
            self.label = fluid.layers.data(name="label", shape=[1], dtype="int64")
            self.y = fluid.layers.fc(self.x, size=3, param_attr=fluid.ParamAttr(name="w"), bias_attr=False)
        self.exe = fluid.Executor(fluid.CPUPlace())
        self.exe.run(self.startup, scope=self.scope)
        self.w = np.array(self.scope.find_var("w").get_tensor())
        self.value = np.random.RandomState(0).rand(5, 4).astype("float32")

    def run(self, feed, fetch=None, **kwargs):
        return self.exe.run(self.main, feed=feed, fetch_list=fetch or [self.y], scope=self.scope, **kwargs)

    def works(self) -> bool:
        return np.allclose(self.run({"x": self.value})[0], self.value @ self.w, atol=1e-6)


@pytest.fixture
def line():
    return Line()


def test_feeds_in_all_forms(line):
    wanted = line.value @ line.w
    tensor = core.LoDTensor()
    tensor.set(line.value, fluid.CPUPlace())
    strided = np.asfortranarray(line.value)
    swapped = line.value.astype(">f4")
    read_only = line.value.copy()
    read_only.flags.writeable = False
    for feed in (line.value, tensor, line.value.tolist(), strided, swapped, read_only, line.value[::1]):
        assert np.allclose(line.run({"x": feed})[0], wanted, atol=1e-6)
    backwards = line.value[::-1]
    assert np.allclose(line.run({"x": backwards})[0], wanted[::-1], atol=1e-6)


def test_fetches_in_all_forms(line):
    feed = {"x": line.value}
    wanted = line.value @ line.w
    for fetch in ([line.y], [line.y.name], (line.y,), line.y, line.y.name, [[line.y]], {line.y}, frozenset([line.y.name])):
        (found,) = line.exe.run(line.main, feed=feed, fetch_list=fetch, scope=line.scope)
        assert np.allclose(found, wanted, atol=1e-6)
    both = line.run(feed, [line.y, "w", line.x])
    assert np.array_equal(both[1], line.w) and np.array_equal(both[2], line.value)
    assert line.exe.run(line.main, feed=feed, scope=line.scope) == []
    assert line.exe.run(line.main, feed=feed, fetch_list=set(), scope=line.scope) == []
    with pytest.raises(TypeError, match="must be a list of Variables or names, found a set of the Variable .* A set has no order"):
        line.run(feed, {line.y, line.x})
    with pytest.raises(TypeError, match="must be a list of Variables or names, found dict_values.* of type dict_values"):
        line.run(feed, {"y": line.y}.values())
    (tensor,) = line.run(feed, return_numpy=False)
    assert isinstance(tensor, core.LoDTensor) and np.allclose(np.array(tensor), wanted, atol=1e-6)


def test_results_are_the_callers(line):
    (first,) = line.run({"x": line.value})
    kept = first.copy()
    line.run({"x": line.value * 2})
    assert np.array_equal(first, kept)
    first[:] = 0
    assert line.works()


def test_shapes_may_change_from_run_to_run(line):
    for rows in (1, 7, 3, 100, 1):
        value = np.ones((rows, 4), "float32")
        assert np.allclose(line.run({"x": value})[0], value @ line.w, atol=1e-6)


def test_program_may_change_between_runs(line):
    assert line.works()
    with fluid.program_guard(line.main, line.startup):
        doubled = fluid.layers.scale(line.y, 2.0)
    assert np.allclose(line.run({"x": line.value}, [doubled])[0], 2 * line.value @ line.w, atol=1e-6)
    line.main.global_block().ops[-1]._set_attr("scale", 3.0)
    assert np.allclose(line.run({"x": line.value}, [doubled])[0], 3 * line.value @ line.w, atol=1e-6)


def test_many_programs_in_one_executor(line):
    others = []
    for i in range(40):
        program = fluid.Program()
        with fluid.program_guard(program):
            others.append((program, fluid.layers.fill_constant([2], "float32", float(i))))
    for _ in range(2):
        for i, (program, var) in enumerate(others):
            assert line.exe.run(program, fetch_list=[var])[0].tolist() == [i, i]
            assert line.works()


def test_default_program_and_scope():
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.scope_guard(scope):
        x = fluid.layers.data(name="x", shape=[2], dtype="float32")
        y = fluid.layers.fc(x, 1)
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        (found,) = exe.run(feed={"x": np.ones((3, 2), "float32")}, fetch_list=[y])
        assert found.shape == (3, 1)
        assert fluid.global_scope() is scope
    assert fluid.global_scope() is not scope
    assert scope.find_var("fc_0.w_0") is not None or scope.local_var_names()


WRONG = {
    "dtype": (lambda line: ({"x": line.value.astype("float64")}, None), "'x'.*float32.*float64.*astype"),
    "shape": (lambda line: ({"x": line.value[:, :3]}, None), r"'x'.*\[5, 3\]"),
    "name": (lambda line: ({"nobody": line.value}, None), "'nobody'"),
    "missing": (lambda line: ({}, None), "'x'"),
    "fetch": (lambda line: ({"x": line.value}, ["nothing"]), "'nothing'"),
    "fetch type": (lambda line: ({"x": line.value}, [3]), "fetch_list.*3"),
    "key": (lambda line: ({1: line.value}, None), "feed.*1"),
    "text": (lambda line: ({"x": "five"}, None), "'x'.*str"),
    "ragged": (lambda line: ({"x": [[1.0, 2.0], [3.0]]}, None), "'x'.*LoDTensor"),
    "objects": (lambda line: ({"x": np.array([None])}, None), "'x'"),
    "complex": (lambda line: ({"x": line.value.astype("complex64")}, None), "'x'.*complex64"),
    "empty tensor": (lambda line: ({"x": core.LoDTensor()}, None), "'x'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_named(line, case):
    make, message = WRONG[case]
    feed, fetch = make(line)
    with pytest.raises((core.EnforceNotMet, TypeError), match=message):
        line.run(feed, fetch)
    assert line.works()


def test_wrong_arguments(line):
    with pytest.raises(TypeError, match="Program"):
        line.exe.run("main")
    with pytest.raises(TypeError, match="feed"):
        line.exe.run(line.main, feed=[1, 2])
    with pytest.raises(TypeError, match="scope"):
        line.exe.run(line.main, scope="scope")
    with pytest.raises(TypeError, match="no argument 'feeds'"):
        line.exe.run(line.main, feeds={})
    with pytest.raises(TypeError, match="twice"):
        line.exe.run(line.main, program=line.main)
    assert line.works()


def test_uninitialized_parameter(line):
    with pytest.raises(core.EnforceNotMet, match="'w'"):
        line.exe.run(line.main, feed={"x": line.value}, fetch_list=[line.y], scope=fluid.Scope())
    assert line.works()


def test_feed_lists_and_compiled_programs(line):
    compiled = fluid.CompiledProgram(line.main)
    half = line.value[:2], line.value[2:]
    (found,) = line.exe.run(
        compiled, feed=[{"x": half[0]}, {"x": half[1]}], fetch_list=[line.y], scope=line.scope
    )
    assert np.allclose(found, line.value @ line.w, atol=1e-6)


def test_use_prune(line):
    with fluid.program_guard(line.main, line.startup):
        fluid.layers.mean(fluid.layers.cast(line.label, "float32"))
    (found,) = line.run({"x": line.value}, use_prune=True)
    assert np.allclose(found, line.value @ line.w, atol=1e-6)


def test_lod_results_need_tensors():
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.layers.data(name="x", shape=[1], dtype="float32", lod_level=1)
        y = fluid.layers.scale(x, 2.0)
    tensor = fluid.create_lod_tensor(np.ones((5, 1), "float32"), [[2, 3]], fluid.CPUPlace())
    exe = fluid.Executor()
    with pytest.raises(RuntimeError, match="return_numpy=False"):
        exe.run(main, feed={"x": tensor}, fetch_list=[y])
    (found,) = exe.run(main, feed={"x": tensor}, fetch_list=[y], return_numpy=False)
    assert found.recursive_sequence_lengths() == [[2, 3]] and np.array(found).sum() == 10


def test_closed_executor(line):
    line.exe.close()
    with pytest.raises(RuntimeError, match="closed"):
        line.run({"x": line.value})
    line.exe.close()


def test_fetch_var(line):
    with fluid.scope_guard(line.scope):
        assert np.array_equal(fluid.executor._fetch_var("w"), line.w)
        with pytest.raises(core.EnforceNotMet, match="'nobody'.*persistable"):
            fluid.executor._fetch_var("nobody")


# A Program that takes seconds, in steps of a few milliseconds.
SLOW = """
import numpy as np
import paddle.fluid as fluid

main = fluid.Program()
with fluid.program_guard(main, fluid.Program()):
    x = fluid.layers.data(name="x", shape=[600, 600], dtype="float32", append_batch_size=False)
    y = x
    for _ in range({count}):
        y = fluid.layers.scale(fluid.layers.mul(y, x), 1 / 600)
exe = fluid.Executor()
feed = {{"x": np.ones((600, 600), "float32")}}
"""


def ended_by_ctrl_c(code):
    """Runs code that prints 'ready' and then runs for ever; what it prints after Ctrl-C."""
    # A test run in the background ignores SIGINT, and its children would too.
    wake = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    child = subprocess.Popen(
        [sys.executable, "-c", wake + code], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    try:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        said, _ = child.communicate(timeout=30)
        assert child.returncode == 0
        return said
    finally:
        child.kill()
        child.wait()


AFTER_CTRL_C = """
except KeyboardInterrupt:
    small = fluid.Program()
    with fluid.program_guard(small):
        one = fluid.layers.fill_constant([1], "float32", 1.0)
    print("interrupted", exe.run(small, fetch_list=[one])[0][0], flush=True)
"""


def test_ctrl_c_ends_a_run_that_would_never_end():
    code = textwrap.dedent("""
        import paddle.fluid as fluid
        i = fluid.layers.fill_constant([1], "int64", 0)
        true = fluid.layers.fill_constant([1], "bool", True)
        with fluid.layers.While(true).block():
            fluid.layers.increment(i, in_place=True)
        exe = fluid.Executor()
        try:
            print("ready", flush=True)
            exe.run()
        """)
    assert ended_by_ctrl_c(code + AFTER_CTRL_C) == "interrupted 1.0\n"


def test_ctrl_c_ends_a_loop_of_runs_with_large_products():
    code = SLOW.format(count=20) + textwrap.dedent("""
        exe.run(main, feed=feed, fetch_list=[y])
        try:
            print("ready", flush=True)
            while True:
                exe.run(main, feed=feed, fetch_list=[y])
        """)
    assert ended_by_ctrl_c(code + AFTER_CTRL_C) == "interrupted 1.0\n"


LONG = """
import numpy as np
import paddle.fluid as fluid
main = fluid.Program()
with fluid.program_guard(main, fluid.Program()):
    i = fluid.layers.fill_constant([1], "int64", 0)
    end = fluid.layers.data("end", [1], dtype="int64", append_batch_size=False)
    holds = fluid.layers.less_than(i, end)
    with fluid.layers.While(holds).block():
        fluid.layers.increment(i, in_place=True)
        fluid.layers.less_than(i, end, cond=holds)
exe = fluid.Executor()
feed = {"end": np.array([2000000], "int64")}
"""


def count_to(space, end):
    """A run of LONG's Program: how far it has counted."""
    count, = space["exe"].run(space["main"], feed={"end": np.array([end], "int64")}, fetch_list=[space["i"]])
    return count[0]


def long_program():
    space: dict = {}
    exec(LONG, space)
    return space


def test_other_threads_work_while_a_run_goes_on():
    """Another thread runs Programs meanwhile, with the same executor."""
    space, over, found = long_program(), threading.Event(), []

    def other():
        while not over.is_set():
            found.append(count_to(space, 7))

    with concurrent.futures.ThreadPoolExecutor() as pool:
        job = pool.submit(other)
        try:
            count = count_to(space, 2000000)
            meanwhile = len(found)
        finally:
            over.set()
        job.result()
    assert count == 2000000 and meanwhile > 1 and set(found) == {7}


def test_more_threads_than_an_executor_keeps_plans_for():
    space, start = long_program(), threading.Barrier(40)

    def job(k):
        start.wait(60)
        return [count_to(space, end) for end in (3000 + k, 2 * k, 3000 - k)]

    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        assert [*pool.map(job, range(40))] == [[3000 + k, 2 * k, 3000 - k] for k in range(40)]
    assert count_to(space, 5) == 5
    space["exe"].close()
    with pytest.raises(RuntimeError, match="^This executor is closed. Make a new one to run more Programs"):
        count_to(space, 5)


def test_an_executor_is_closed_while_another_thread_runs():
    for _ in range(20):  # the other thread may not have begun yet, and then finds it closed
        space = long_program()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            job = pool.submit(count_to, space, 1000000)
            assert [count_to(space, 3) for _ in range(5)] == [3] * 5
            try:
                space["exe"].close()
            except RuntimeError as error:
                assert str(error) == "This executor is running. Close it when the run has ended."
                assert job.result() == 1000000
                space["exe"].close()
                return
    pytest.fail("the other thread has never run")


def test_a_signal_handler_runs_programs_in_the_middle_of_a_run():
    space, found = long_program(), []
    before = signal.signal(signal.SIGALRM, lambda *args: found.append(count_to(space, 9)))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert count_to(space, 2000000) == 2000000
        assert found == [9]
        # One that begins anew before the last has ended.
        signal.signal(signal.SIGALRM, lambda *args: count_to(space, 20000000))
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.05)
        with pytest.raises(RuntimeError, match="^This executor is already running in this thread, 8 times: a signal handler"):
            count_to(space, 20000000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert count_to(space, 4) == 4
    space["exe"].close()


def test_a_child_that_is_forked_while_other_threads_run():
    """It has their executor, and none of their runs."""
    code = LONG + textwrap.dedent("""
        import concurrent.futures, os
        def count_to(end):
            count, = exe.run(main, feed={"end": np.array([end], "int64")}, fetch_list=[i])
            return count[0]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(count_to, 1000000) for _ in range(2)]
            count_to(4)
            child = os.fork()
            if not child:
                found = [count_to(n) for n in (5, 6, 7)]
                exe.close()
                print("child", *found, flush=True)
                os._exit(0)
            print(os.waitpid(child, 0)[1], *(job.result() for job in jobs))
        exe.close()
        """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "child 5 6 7\n0 1000000 1000000\n", done.stderr


@pytest.mark.parametrize("bad", ["x", "w", None])
def test_who_had_what_is_not_finite_before(bad, monkeypatch):
    """The op that made it is named, and of its inputs the one that had it: a feed, a parameter."""
    monkeypatch.setitem(core.globals(), "FLAGS_check_nan_inf", True)
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        weight = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(2.0))
        out = fluid.layers.log(fluid.layers.fc(fluid.data("x", [1, 1]), 1, param_attr=weight, bias_attr=False))
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        if bad == "w":
            fluid.global_scope().find_var("w").get_tensor().set(np.full((1, 1), np.inf, "float32"), fluid.CPUPlace())
        with pytest.raises(core.EnforceNotMet, match="(flag check_nan_inf is on)") as caught:
            exe.run(feed={"x": np.full((1, 1), np.nan if bad == "x" else -1, "float32")}, fetch_list=[out])
    assert ("op 'mul' made NaN or Inf" in str(caught.value)) == bool(bad), caught.value
    assert (f"its input '{bad}' has some already" in str(caught.value)) == bool(bad), caught.value
    assert ("has some already" in str(caught.value)) == bool(bad), caught.value


def test_a_value_that_is_not_finite_is_enforce_not_met_itself():
    """Scripts that look for NaN compare the class."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        out = fluid.layers.log(fluid.data("x", [1]))
        core.globals()["FLAGS_check_nan_inf"] = True
        try:
            with pytest.raises(core.EnforceNotMet, match="op 'log' made NaN or Inf") as caught:
                fluid.Executor().run(feed={"x": np.array([-1], "float32")}, fetch_list=[out])
        finally:
            core.globals()["FLAGS_check_nan_inf"] = False
    assert type(caught.value) is core.EnforceNotMet


def test_a_variable_in_the_place_of_the_program(line, tmp_path):
    """A Variable knows its Program, which is no reason to run or save that."""
    with fluid.scope_guard(line.scope):
        with pytest.raises(TypeError, match=r"found the Variable 'fc_0.tmp_0'. What a run shall return goes into fetch_list."):
            line.exe.run(line.y, feed={"x": line.value})
        for wrong in (line.y, line.main.global_block().ops[0]):
            with pytest.raises(TypeError, match="main_program must be a Program, found"):
                fluid.io.save_params(line.exe, str(tmp_path / "params"), wrong)
    assert not list(tmp_path.iterdir())


def test_what_was_found_is_told_in_a_few_words(line):
    """Not with all elements of an array or all ops of a Program."""
    array = "an array of float32 of shape [5, 4]"
    for arguments, wanted in [
        ({"feed": (line.value, line.value)}, f"found a tuple of {array}, {array}."),
        ({"feed": line.value}, f"found {array}."),
        ({"feed": {"x": line.value}, "fetch_list": [line.value]}, f"found {array}."),
        ({"feed": {"x": line.value}, "fetch_list": line.value}, f"found {array}."),
        ({"program": [line.main], "feed": {"x": line.value}}, "found a list of "),
        ({"program": "main"}, "found 'main' of type str."),
    ]:
        with pytest.raises(TypeError) as caught:
            line.exe.run(**{"program": line.main, **arguments})
        assert wanted in str(caught.value) and len(str(caught.value)) < 250, caught.value


def test_threads_with_an_executor_each_and_one_scope():
    """Their first runs make variables in the same scope at the same time: none is lost, none is damaged."""
    startups, count = [], 150
    for k in range(8):
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            for i in range(count):
                fluid.layers.create_global_var([1], float(i), "float32", persistable=True, name=f"v{k}_{i}")
            startups.append(fluid.default_startup_program())
    for _ in range(12):
        scope, gate = fluid.Scope(), threading.Barrier(len(startups))

        def start(startup, scope=scope, gate=gate):
            exe = fluid.Executor(fluid.CPUPlace())
            gate.wait()
            exe.run(startup, scope=scope)

        threads = [threading.Thread(target=start, args=(each,)) for each in startups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = [[np.array(scope.find_var(f"v{k}_{i}").get_tensor())[0] for i in range(count)] for k in range(len(startups))]
        np.testing.assert_array_equal(found, [range(count)] * len(startups))
