"""The work that Python does for a Program grows with its layers, not with their square: calls are counted, nothing is timed."""

import sys

import numpy as np
import pytest

import paddle.fluid as fluid

SERVERS = ["127.0.0.1:6174", "127.0.0.1:6175"]


def calls_of(work) -> int:
    """How many functions are called, those in C too."""
    count = 0

    def note(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def build(layers: int):
    x = fluid.layers.data("x", [4])
    for _ in range(layers):
        x = fluid.layers.fc(x, 4, act="tanh")
    return x, fluid.layers.mean(x)


def transpiled(**settings):
    config = fluid.DistributeTranspilerConfig()
    config.wait_port = False
    job = fluid.DistributeTranspiler(config)
    job.transpile(0, pservers=",".join(SERVERS), trainers=2, **settings)
    return job


def costs(layers: int, folder: str) -> dict:
    """Calls by work, for a Program of so many layers."""
    took: dict = {}
    made: dict = {}
    main, startup, exe = fluid.Program(), fluid.Program(), fluid.Executor(fluid.CPUPlace())
    rule, feed = fluid.optimizer.Adam(0.1), {"x": np.ones((2, 4), "float32")}

    def count(name, work):
        took[name] = calls_of(lambda: made.update({name: work()}))
        return made[name]

    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        out, loss = count("layers", lambda: build(layers))
        pairs = count("append_backward", lambda: rule.backward(loss))
        count("optimizer", lambda: rule.apply_gradients(pairs))
        count("clone", lambda: main.clone(for_test=True))
        count("text", lambda: main.to_string(True, True))
        count("bytes", lambda: fluid.Program.parse_from_string(main.desc.serialize_to_string()))
        exe.run(startup)
        count("first run", lambda: exe.run(main, feed=feed, fetch_list=[loss]))
        both = fluid.CompiledProgram(main).with_data_parallel(loss_name=loss.name, places=[fluid.CPUPlace()] * 2)
        count("places", lambda: exe.run(both, feed=feed, fetch_list=[loss]))
        count("one update", lambda: exe.run(main, feed=feed, fetch_list=[loss, main.global_block().ops[-1]], use_prune=True))
        count("save", lambda: fluid.io.save_inference_model(folder, ["x"], [out], exe, main))
        count("load", lambda: fluid.io.load_inference_model(folder, exe))
        job = count("transpile", transpiled)
        count("servers", lambda: [job.get_pserver_programs(each) for each in SERVERS])
    return took


@pytest.fixture(scope="module")
def growth(tmp_path_factory):
    costs(2, str(tmp_path_factory.mktemp("warm")))  # what is done once in a process
    return [costs(layers, str(tmp_path_factory.mktemp("model"))) for layers in (10, 20, 40)]


def test_calls_grow_with_the_layers(growth):
    few, more, most = growth
    steeper = {name: (few[name], more[name], most[name]) for name in few
               if most[name] - more[name] > 2.1 * (more[name] - few[name]) + 20}
    assert not steeper
