"""What scripts and launchers find beside the transpiler: fluid.transpiler.details, and a server's file with its port."""

import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time

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


def test_one_process_in_two_jobs_is_the_chief_of_one(monkeypatch):
    """Trainer 0 of the process's first job is not trainer 0 of a Program with an id of its own."""
    monkeypatch.setattr(io_distributed._core, "job_id", lambda: 0)
    chiefs = {}
    for number in (0, 1, -1):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data(name="x", shape=[4], dtype="float32"), size=2))
            fluid.optimizer.SGD(0.1).minimize(loss)
        t = fluid.DistributeTranspiler()
        t.transpile(number, program=main, startup_program=startup, pservers="127.0.0.1:6174", trainers=2)
        chiefs[number] = io_distributed.is_chief(t.get_trainer_program().clone(for_test=True))
    assert chiefs == {0: True, 1: False, -1: True}


def test_vars_distributed_from_a_script():
    found = details.VarsDistributed()
    var = layers().program.all_parameters()[0]
    found.add_distributed_var(var, var, vtype="Param", endpoint="a:1")
    (only,) = found.get_distributed_vars_by_ep("a:1")
    assert not only.is_slice and only.origin.shape == (4, 2) and only.offset == 0


def test_waits_for_servers_and_names_them(capsys):
    (port,) = free_ports(1)
    waiting = threading.Thread(target=details.wait_server_ready, args=([f"127.0.0.1:{port}"], 0.05), daemon=True)
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive() and f"127.0.0.1:{port}" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", port)):
        waiting.join(5)
    assert not waiting.is_alive()


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
