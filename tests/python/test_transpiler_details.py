"""What scripts and launchers find beside the transpiler: fluid.transpiler.details, and a server's file with its port."""

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from cluster import Job, free_ports

import paddle.fluid as fluid
from paddle.fluid import io_distributed
from paddle.fluid.transpiler import details

# A Program without variables that only knows where one lies.
SAVES_BY_HAND = """
import sys
import paddle.fluid as fluid
from paddle.fluid.transpiler.details import VarsDistributed, VarStruct

kind = fluid.core.VarDesc.VarType.LOD_TENSOR
whole = VarStruct(name="fc_1.w_0", shape=[64, 64], dtype="float32", type=kind, lod_level=0, persistable=True)
found = VarsDistributed()
found.add_distributed_var(whole, whole, block_id=0, offset=0, is_slice=False, vtype="RemotePrefetch", endpoint=sys.argv[1])
program = fluid.Program()
program._is_distributed = program._is_chief = True
program._parameters_on_pservers = found
fluid.io.save_persistables(fluid.Executor(fluid.CPUPlace()), sys.argv[2], program)
"""


def layers():
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard():
        x = fluid.layers.data(name="x", shape=[4], dtype="float32")
        fluid.layers.fc(input=fluid.layers.relu(x), size=2)
    return program.global_block()


def test_finds_and_removes_ops():
    block = layers()
    assert details.find_op_by_input_arg(block, "x") == 0
    assert block.ops[details.find_op_by_output_arg(block, block.ops[-1].output("Out")[0], reverse=True)] is block.ops[-1]
    assert details.find_op_by_input_arg(block, "nothing") == details.find_op_by_output_arg(block, "nothing") == -1
    details.delete_ops(block, [op for op in block.ops if op.type == "elementwise_add"])
    assert [op.type for op in block.ops] == ["relu", "mul"]


def test_prints_programs():
    block, out = layers(), io.StringIO()
    details.program_to_code(block.program, fout=out)
    details.block_to_code(block, 0, fout=out)
    assert out.getvalue().count("elementwise_add") >= 2


def test_one_process_in_two_jobs_has_the_number_of_each(monkeypatch):
    """The number in the process's first job is not that of a Program with an id of its own."""
    monkeypatch.setattr(io_distributed._core, "job_id", lambda: 5)
    numbers = {}
    for number in (0, 1, -1):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data(name="x", shape=[4], dtype="float32"), size=2))
            fluid.optimizer.SGD(0.1).minimize(loss)
        t = fluid.DistributeTranspiler()
        t.transpile(number, program=main, startup_program=startup, pservers="127.0.0.1:6174", trainers=2)
        numbers[number] = io_distributed.trainer_id(t.get_trainer_program().clone(for_test=True))
    assert numbers == {0: 0, 1: 1, -1: 5}


def test_modules_of_all_releases():
    """Import paths of v0.11.1 to v1.8 lead to the same things."""
    from paddle.fluid.distribute_transpiler import DistributeTranspiler
    from paddle.fluid.distributed_splitter import hash_name, round_robin
    from paddle.fluid.memory_optimization_transpiler import memory_optimize
    from paddle.fluid.transpiler.details.checkport import wait_server_ready
    from paddle.fluid.transpiler.details.program_utils import delete_ops
    from paddle.fluid.transpiler.details.ufind import UnionFind
    from paddle.fluid.transpiler.details.vars_distributed import VarsDistributed
    from paddle.fluid.transpiler.distribute_transpiler import DistributeTranspilerConfig, slice_variable
    from paddle.fluid.transpiler.memory_optimization_transpiler import release_memory
    from paddle.fluid.transpiler.ps_dispatcher import HashName, PSDispatcher, RoundRobin

    assert fluid.DistributeTranspiler is fluid.transpiler.DistributeTranspiler is DistributeTranspiler
    assert fluid.distribute_transpiler.DistributeTranspiler is DistributeTranspiler
    assert fluid.memory_optimize is memory_optimize and fluid.release_memory is release_memory
    assert fluid.distributed_splitter.round_robin is round_robin
    assert fluid.DistributeTranspilerConfig is DistributeTranspilerConfig and callable(slice_variable)
    assert issubclass(fluid.transpiler.HashName, PSDispatcher) and fluid.transpiler.RoundRobin is RoundRobin
    assert (details.wait_server_ready, details.delete_ops) == (wait_server_ready, delete_ops)
    assert (details.UnionFind, details.VarsDistributed) == (UnionFind, VarsDistributed)
    servers, names = ["a:1", "b:2"], [f"w_{i}" for i in range(8)]
    assert round_robin(names, servers) == RoundRobin(servers).dispatch(names) == servers * 4
    assert hash_name(names, servers) == HashName(servers).dispatch(names) and set(hash_name(names, servers)) == set(servers)


@pytest.mark.parametrize("name, said", [("a b\tc", "has a control character"), ("a\nb", "has a control character"),
                                        ("w" * 600, "servers, which take 511"), ("w" * 500, "servers, which take 511")])
def test_names_that_no_message_carries_are_refused(name, said):
    """500 bytes are too many with what a gradient's name has behind them."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.layers.data("x", [4])
        loss = fluid.layers.mean(fluid.layers.fc(x, 2, param_attr=fluid.ParamAttr(name=name), bias_attr=False))
        fluid.optimizer.SGD(0.1).minimize(loss)
        with pytest.raises(ValueError, match=said) as error:
            fluid.DistributeTranspiler().transpile(0, pservers="127.0.0.1:6174", trainers=2)
        assert repr(name[:40])[:-1] in str(error.value)


@pytest.mark.parametrize("name, whole", [("w.block0", "w"), ("w.block1", "w"), ("w_velocity_0.block0", "w_velocity_0"),
                                         ("w@GRAD.block0", "w@GRAD"),
                                         ("w@GRAD.block0.trainer_1", "w@GRAD.block0"), ("small@GRAD.trainer_0", "small@GRAD"),
                                         ("w.block2", ""), ("w.block01", ""), ("w2.block0", ""),
                                         ("w.block0.block0", ""), ("small.block0", ""), ("net.block0", ""),
                                         ("w.trainer_0", ""), ("w.pserver_0", ""), ("small@GRAD.trainer_2", "")])
def test_a_name_that_a_part_of_another_variable_gets(name, whole):
    """`w` is cut in two, `small` is not. Others may be called so."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        x = fluid.layers.data("x", [96])
        for each, size in ((name, 96), ("w", 192), ("small", 3)):
            x = fluid.layers.fc(x, size, param_attr=fluid.ParamAttr(name=each), bias_attr=False)
        fluid.optimizer.Momentum(0.1, 0.9).minimize(fluid.layers.mean(x))
        transpiler = fluid.DistributeTranspiler()
        if not whole:
            transpiler.transpile(0, pservers="127.0.0.1:6174,127.0.0.1:6175", trainers=2)
            return
        with pytest.raises(ValueError, match="another name in its ParamAttr") as error:
            transpiler.transpile(0, pservers="127.0.0.1:6174,127.0.0.1:6175", trainers=2)
        assert f"the variable {name!r} has the name that a part of {whole!r} gets on its way to servers" in str(error.value)


@pytest.mark.parametrize("role, said", [("PSEVER", "Did you mean 'PSERVER'?"), ("TRANER", "Did you mean 'TRAINER'?"),
                                        ("pserver", ""), ("CLOUD", ""), ("", "")])
@pytest.mark.parametrize("trainer_id", [None, 0])
def test_a_role_with_a_typo(role, said, trainer_id, monkeypatch, capfd):
    from paddle.fluid import log_helper

    monkeypatch.setattr(log_helper, "_told", set())
    monkeypatch.setenv("TRAINING_ROLE", role)
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [4]), 2)))
        fluid.DistributeTranspiler().transpile(trainer_id, pservers="127.0.0.1:6174", trainers=2)
    told = capfd.readouterr().err
    assert (f"TRAINING_ROLE is {role!r}. {said}" in told) if said else "TRAINING_ROLE" not in told


@pytest.mark.parametrize("how, said", [("clip", "op 'clip' of the script"), ("tanh", "op 'tanh' of the script"),
                                       ("scale", ""), ("plain", ""), ("of fluid", "")])
@pytest.mark.parametrize("is_sync, trainers", [(True, 2), (True, 1), (False, 2)])
def test_ops_of_the_script_between_gradients_and_update(how, said, is_sync, trainers, monkeypatch, capfd):
    """They act on each trainer's gradient, which is told where it matters."""
    from paddle.fluid import log_helper

    monkeypatch.setattr(log_helper, "_told", set())
    change = {"clip": lambda g: fluid.layers.clip(g, -0.1, 0.1), "tanh": fluid.layers.tanh,
              "scale": lambda g: fluid.layers.scale(g, 0.5)}.get(how, lambda g: g)
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [4]), 2))
        optimizer = fluid.optimizer.SGD(0.1, grad_clip=fluid.clip.GradientClipByValue(0.1) if how == "of fluid" else None)
        optimizer.apply_gradients([(param, change(grad)) for param, grad in optimizer.backward(loss)])
        fluid.DistributeTranspiler().transpile(0, pservers="127.0.0.1:6174", trainers=trainers, sync_mode=is_sync)
    told = capfd.readouterr().err
    if said and is_sync and trainers > 1:
        assert said in told and told.count("before the average") == 1, told
    else:
        assert "before the average" not in told, told


def test_groups_of_joined_elements():
    groups = details.UnionFind("abcd")
    for pair in ("ab", "cd"):
        groups.union(*pair)
    assert groups.is_connected("a", "b") and groups.find("c") == groups.find("d") and not groups.is_connected("a", "c")
    groups.union("b", "c")
    assert groups.is_connected("a", "d")


def test_vars_distributed_from_a_script():
    found = details.VarsDistributed()
    var = layers().program.all_parameters()[0]
    found.add_distributed_var(var, var, vtype="Param", endpoint="a:1")
    (only,) = found.get_distributed_vars_by_ep("a:1")
    assert not only.is_slice and only.origin.shape == (4, 2) and only.offset == 0


@pytest.fixture
def flags():
    """Sets run-time flags for one test."""
    before = {}

    def set_flags(**new):
        before.update({name: fluid.core.globals()[f"FLAGS_{name}"] for name in new if name not in before})
        fluid.set_flags({f"FLAGS_{name}": value for name, value in new.items()})

    yield set_flags
    set_flags(**before)


def test_waits_for_servers_and_names_them(capsys, flags):
    flags(ps_notice=50)
    (port,) = free_ports(1)
    waiting = threading.Thread(target=details.wait_server_ready, args=([f"127.0.0.1:{port}"],), daemon=True)
    waiting.start()
    end, said = time.monotonic() + 60, ""
    while "refused" not in said and time.monotonic() < end:
        said += capsys.readouterr().err
        time.sleep(0.01)
    assert waiting.is_alive() and f"127.0.0.1:{port}: refused: is the server running?" in said
    with socket.create_server(("127.0.0.1", port)):
        waiting.join(60)
    assert not waiting.is_alive()
    details.checkport.wait_server_ready([])


def test_what_it_says_ends_once(flags):
    flags(rpc_deadline=100)
    (port,) = free_ports(1)
    with pytest.raises(TimeoutError, match=r"refused: is the server running\? FLAGS_rpc_deadline"):
        details.wait_server_ready([f"127.0.0.1:{port}"])


def test_a_look_leaves_its_port_to_servers():
    """The system gave it that port, and keeps it a while after the look. (It may have given it to another process as well.)"""
    free = 0
    for _ in range(10):
        with socket.create_server(("127.0.0.1", 0)) as server:
            details.wait_server_ready([f"127.0.0.1:{server.getsockname()[1]}"])
            seen = server.accept()[0]
            with seen:
                port = seen.getpeername()[1]
                assert seen.recv(1) == b""
            with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):  # with SO_REUSEADDR
                free += 1
    assert free


class Clock:
    """Stands still but for those who sleep."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_waits_for_servers_up_to_the_deadline(capsys, flags, monkeypatch):
    """The error names all that are missing, and nobody else; notices come in between."""
    flags(rpc_deadline=400, ps_notice=100)
    (port, mapped) = free_ports(2)
    clock = Clock()
    monkeypatch.setattr(details.checkport, "time", clock)
    with socket.create_server(("127.0.0.1", 0)) as there:
        missing = [f"127.0.0.1:{port}", f"[::1]:{port}"]
        good = "127.0.0.1:%d" % there.getsockname()[1]
        with pytest.raises(TimeoutError, match="within 0.4 s.*FLAGS_rpc_deadline") as found:
            details.wait_server_ready([*missing, good])
        assert clock.now == pytest.approx(0.4)
        assert all(f"{each}: " in str(found.value) for each in missing) and good not in str(found.value)
        assert "2 of the servers" in str(found.value)
        assert capsys.readouterr().err.count("waiting for servers since") == 3
        os.environ["PADDLE_PS_MAP"] = f"other:{mapped}={good}"
        try:
            details.wait_server_ready([f"other:{mapped}"])
        finally:
            del os.environ["PADDLE_PS_MAP"]


def test_does_not_wait_for_a_name_that_nobody_knows(monkeypatch):
    """Before the deadline, after some tries."""
    tries = []

    def unknown(host, port, **unused):
        tries.append((host, port))
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setattr(details.checkport, "time", Clock())
    with pytest.raises(ConnectionError, match="nobody.invalid:6174.*'nobody.invalid' is not known"):
        details.wait_server_ready(["nobody.invalid:6174"])
    assert tries.count(("nobody.invalid", 6174)) >= 3


def port_file(pid: int) -> str:
    return os.path.join(os.sep, "tmp", f"paddle.{pid}.port")


def test_a_server_tells_its_port_in_a_file():
    """Launchers of old wait for it; it is gone when the server is."""
    with Job(1, 1, "saving.py") as job:
        server = job.start("server", 0)
        server.wait_for("Server listening on")
        path, end = port_file(server.pid), time.monotonic() + 10
        while not (os.path.exists(path) and os.path.getsize(path)) and time.monotonic() < end:
            time.sleep(0.01)
        with open(path) as file:
            assert file.read() == job.endpoints[0].rpartition(":")[2]
        server.signal(signal.SIGTERM)
        assert server.end(10) == 0
        assert not os.path.exists(path)


def test_saves_what_a_script_says_lies_on_servers(tmp_path):
    """Also where the Program itself has no such variable, and element types are given by name."""
    with Job(1, 1, "saving.py") as job:
        job.start("server", 0, "--model", "mlp").wait_for("Server listening on")
        command = [sys.executable, "-c", SAVES_BY_HAND, job.endpoints[0], str(tmp_path / "out")]
        subprocess.run(command, check=True, timeout=60)
        job.end(deadline=10)
    assert list(fluid.load_program_state(str(tmp_path / "out"))) == ["fc_1.w_0"]
    assert fluid.load_program_state(str(tmp_path / "out"))["fc_1.w_0"].shape == (64, 64)
