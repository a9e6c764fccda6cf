"""Names, text, pictures and sizes of programs, compiled programs, ParallelExecutor, profiler, install check."""

import numpy as np
import optimizer_cases
import pytest

import paddle.fluid as fluid
from paddle.fluid import debugger, graphviz, unique_name

pytestmark = pytest.mark.usefixtures("fresh")


def feed(rows=4):
    return {"x": np.ones((rows, 13), "float32"), "y": np.ones((rows, 1), "float32")}


def test_unique_names():
    with unique_name.guard():
        assert [unique_name.generate("fc"), unique_name.generate("fc"), unique_name.generate("a")] == [
            "fc_0",
            "fc_1",
            "a_0",
        ]
        with unique_name.guard("in/"):
            assert unique_name.generate("fc") == "in/fc_0"
        with unique_name.guard(b"bytes/"):
            assert unique_name.generate("fc") == "bytes/fc_0"
        old = unique_name.switch()
        assert unique_name.generate("fc") == "fc_0"
        unique_name.switch(*old)
        assert unique_name.generate("fc") == "fc_2"


def test_names_go_on_after_an_error_in_a_guard():
    unique_name.generate("key")
    with pytest.raises(KeyError):
        with unique_name.guard():
            raise KeyError("x")
    assert unique_name.generate("key") == "key_1"


def test_text_and_picture_of_a_program(tmp_path):
    fluid.optimizer.SGD(0.1).minimize(optimizer_cases.regression())
    main = fluid.default_main_program()
    text = debugger.pprint_program_codes(main)
    assert fluid.debuger.pprint_program_codes is debugger.pprint_program_codes  # its name in v0.12
    assert "Tensor fc_0.w_0 (tensor(type=float32, shape=[13, 1]))" in text
    assert "fc_0.tmp_0 = mul(X=x, Y=fc_0.w_0)" in text
    assert "@GRAD" not in text
    assert "mul_grad" in debugger.pprint_block_codes(main.global_block(), show_backward=True)
    path = tmp_path / "net.dot"
    debugger.draw_block_graphviz(main.global_block(), highlights=["fc_0.w"], path=str(path))
    dot = path.read_text()
    assert dot.startswith("digraph G {") and "fc_0.w_0" in dot and "orange" in dot and "->" in dot


def test_graph_text():
    graph = graphviz.Graph("title", rankdir="LR")
    rank = graph.rank_group("same", 1)
    a, b = graph.node("a", "n", rank=rank), graph.node("b", "n")
    graph.edge(a, b, color="red")
    text = graph.code()
    assert 'rankdir="LR";' in text and f'{a.name} -> {b.name} [color="red"]' in text and "rank=same" in text


def test_compiled_program_gives_the_same_losses():
    loss = optimizer_cases.regression(param_attr=fluid.initializer.Constant(0.1))
    fluid.optimizer.SGD(0.01).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    results = []
    build = fluid.BuildStrategy()
    build.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
    build.memory_optimize = True
    threads = fluid.ExecutionStrategy()
    threads.num_threads = 2
    main = fluid.default_main_program()
    compiled = fluid.CompiledProgram(main).with_data_parallel(
        loss_name=loss.name, build_strategy=build, exec_strategy=threads
    )
    for program in (main, compiled):
        exe.run(fluid.default_startup_program())
        results.append(
            [float(np.ravel(exe.run(program, feed=feed(), fetch_list=[loss])[0])[0]) for _ in range(3)]
        )
    assert results[0] == pytest.approx(results[1])
    assert results[0][2] < results[0][0]


def test_compiled_program_errors():
    loss = optimizer_cases.regression()
    fluid.optimizer.SGD(0.01).minimize(loss)
    main = fluid.default_main_program()
    with pytest.raises(TypeError, match="takes a Program"):
        fluid.CompiledProgram(3)
    with pytest.raises(ValueError, match="loss_name"):
        fluid.CompiledProgram(main).with_data_parallel()
    with pytest.raises(ValueError, match="before"):
        fluid.CompiledProgram(main).with_data_parallel(loss.name).with_data_parallel(loss.name)
    with pytest.raises(AttributeError, match="no option 'foo'"):
        fluid.BuildStrategy().foo = 1


def test_memory_usage():
    """The numbers of 1.8.5."""
    x, y = fluid.layers.data("x", [784]), fluid.layers.data("y", [1], dtype="int64")
    hidden = fluid.layers.dropout(fluid.layers.fc(x, 200, act="tanh"), 0.5)
    loss = fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.fc(hidden, 10, act="softmax"), y))
    main, startup = fluid.default_main_program(), fluid.default_startup_program()
    for size, lower, upper in ((1, 3.6216796875, 3.794140625), (32, 115.7666015625, 121.279296875)):
        assert fluid.contrib.memory_usage(main, size) == (pytest.approx(lower), pytest.approx(upper), "KB")
    fluid.optimizer.Adam(0.1).minimize(loss)
    assert fluid.contrib.memory_usage(main, batch_size=32) == (pytest.approx(2.76721687), pytest.approx(2.89898911), "MB")
    assert fluid.contrib.memory_usage(startup, 7) == (pytest.approx(1.91074734), pytest.approx(2.00173531), "MB")
    from paddle.fluid.contrib.memory_usage_calc import memory_usage

    assert memory_usage(fluid.Program(), 1) == (0.0, 0.0, "B")
    with pytest.raises(TypeError, match="memory_usage takes a Program, found the Variable"):
        memory_usage(loss, 1)
    with pytest.raises(ValueError, match="batch_size must be 1 or more, found 0"):
        memory_usage(main, 0)
    odd = fluid.layers.scale(fluid.data("odd", [None, None, 3]), 2.0)
    with pytest.raises(ValueError, match=rf"{odd.name} has shape \[-1, -1, 3\]; a batch size settles one"):
        memory_usage(main, 4)


def test_parallel_executor_takes_lists_of_feeds():
    loss = optimizer_cases.regression(param_attr=fluid.initializer.Constant(0.1))
    fluid.optimizer.SGD(0.01).minimize(loss)
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    runner = fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name)
    assert runner.device_count == 1
    first = runner.run(fetch_list=[loss.name], feed=feed())[0]
    second = runner.run(fetch_list=[loss.name], feed=[feed(2), feed(2)])[0]
    assert float(np.ravel(second)[0]) < float(np.ravel(first)[0])
    with pytest.raises(RuntimeError, match="no CUDA"):
        fluid.ParallelExecutor(use_cuda=True)


def test_feeds_of_sequences_are_joined():
    from paddle.fluid.compiler import merge_feeds

    def sequence(*lengths):
        return fluid.create_lod_tensor(np.ones((sum(lengths), 1), "int64"), [list(lengths)], fluid.CPUPlace())

    joined = merge_feeds([{"w": sequence(1, 2)}, {"w": sequence(3)}])["w"]
    assert joined.recursive_sequence_lengths() == [[1, 2, 3]]
    with pytest.raises(ValueError, match="differ"):
        merge_feeds([{"w": 1}, {"v": 1}])


def test_profiler_prints_a_table(tmp_path, capsys):
    loss = optimizer_cases.regression()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    path = tmp_path / "profile"
    with fluid.profiler.profiler("CPU", "total", str(path)):
        exe.run(feed=feed(), fetch_list=[loss])
    assert "mul" in capsys.readouterr().out
    assert "mul" in path.read_text()
    with pytest.raises(ValueError, match="state"):
        fluid.profiler.start_profiler("TPU")
    with pytest.raises(RuntimeError, match="CUDA"):
        with fluid.profiler.cuda_profiler("out"):
            pass


def test_install_check(capsys):
    fluid.install_check.run_check()
    assert "works" in capsys.readouterr().out


def test_local_scopes():
    from paddle.fluid import default_scope_funcs as scopes

    scopes.var("outer")

    def inside():
        scopes.var("inner")
        assert scopes.find_var("inner") is not None
        assert scopes.find_var("outer") is not None

    scopes.scoped_function(inside)
    assert scopes.find_var("inner") is None


def test_names_of_core_that_upstreams_own_tests_ask_for():
    core = fluid.core
    place = core.Place()
    place.set_place(fluid.CPUPlace())
    assert place._equals(fluid.CPUPlace()) and fluid.CPUPlace()._equals(place) and place._equals(place)
    assert core.is_compiled_with_ngraph() is False
    assert core.has_grad_op_maker("mul") and not core.has_grad_op_maker("sgd")
    assert core.has_infer_inplace("relu") is False
    with pytest.raises(core.NotFoundError, match="There is no op 'rleu'"):
        core.has_infer_inplace("rleu")
    core._set_eager_deletion_mode(0.0, 1.0, True)
    passes = fluid.BuildStrategy()._finalize_strategy_and_create_passes()
    passes.append_pass("a")
    passes.insert_pass(0, "b")
    passes.remove_pass(1)
    assert [each.type() for each in passes.all_passes()] == ["b"]


@pytest.mark.parametrize("name, instead",
                         [("multi_batch_merge_pass", "num_repeats times as large"), ("is_test_pass", "for_test=True"),
                          ("sync_batch_norm_pass", "one place")])
def test_a_pass_that_would_change_the_training_is_refused(name, instead):
    passes = fluid.BuildStrategy()._finalize_strategy_and_create_passes()
    for add in (passes.append_pass, lambda name: passes.insert_pass(0, name)):
        with pytest.raises(NotImplementedError, match=f"'{name}' is not there yet, and training without it .*{instead}"):
            add(name)
    assert passes.all_passes() == []
