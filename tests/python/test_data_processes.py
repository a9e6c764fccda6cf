"""Training from files of samples as a process: its commands, pipes and signals, and what is left when it ends."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from test_data_files import ROWS, Net, fresh, wait_for, wait_until  # noqa: F401 (a fixture)

SCRIPT = """
import sys
import paddle.fluid as fluid
x = fluid.data("x", [None, 1], dtype="float32")
loss = fluid.layers.mean(fluid.layers.fc(x, 1))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
dataset = fluid.DatasetFactory().create_dataset()
dataset.set_use_var([x])
dataset.set_filelist(sys.argv[1:2])
dataset.set_pipe_command(sys.argv[2])
exe.train_from_dataset(dataset=dataset)
print("the end")
"""


def start(tmp_path, command, stderr=subprocess.PIPE, **env):
    path = tmp_path / "numbers"
    path.write_text("1 0.5\n" * 1000)
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(path), command], text=True, stdout=subprocess.PIPE,
                            stderr=stderr, env={**os.environ, **env})


def test_progress_in_json(tmp_path):
    out, err = start(tmp_path, "cat", PADDLE_PROGRESS="json").communicate(timeout=120)
    last = json.loads(err.splitlines()[-1])
    assert out == "the end\n"
    assert last["over"] and last["samples"] == 1000 and last["batches"] == 32 and last["part"] == 1.0
    assert isinstance(last["loss"], float) and abs(last["reading"] + last["computing"] - 1) < 1e-3 and not last["waiting"]
    assert start(tmp_path, "cat").communicate(timeout=120) == ("the end\n", "")


def test_progress_in_lines(tmp_path):
    out, err = start(tmp_path, "cat", PADDLE_PROGRESS="lines").communicate(timeout=120)
    assert re.fullmatch(r"train: batch 32  [\d,]+ samples/s  100%  done in \d+ s  loss -?[\d.]+  reading \d+%, computing \d+%",
                        err.splitlines()[-1])
    out, err = start(tmp_path, "cat", PADDLE_PROGRESS="0").communicate(timeout=120)
    assert (out, err) == ("the end\n", "")


def test_progress_on_a_terminal(tmp_path):
    """One line that is written over, no wider than the terminal."""
    ours, theirs = os.openpty()
    with start(tmp_path, "cat", stderr=theirs, COLUMNS="60") as process:
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):  # its end
            while more := os.read(ours, 1000):
                said += more
    os.close(ours)
    lines = [line for line in said.decode().replace("\n", "\r").split("\r") if line.strip()]
    assert process.returncode == 0 and "100%  done in" in lines[-1] and max(map(len, lines)) < 60


def test_ctrl_c_ends_it_with_its_command(tmp_path):
    mark = tmp_path / "begun"
    process = start(tmp_path, f"{marks(mark)}; sleep 1000 | cat")
    try:
        group = group_of(mark)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in err and "the end" not in out
    wait_until_gone(group)


@pytest.mark.parametrize("command", ["{}; sleep 1000", "cat; exec 1>&-; {}; sleep 1000",
                                     "cat; exec 1>&- 2>&-; {}; sleep 1000", "cat; {}; sleep 1000 & exit 0",
                                     "trap '' INT TERM; {}; sleep 1000"])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_ends_with_its_trainer(tmp_path, command, sent):
    mark = tmp_path / "begun"
    process = start(tmp_path, command.format(marks(mark)))
    try:
        group = group_of(mark)
        process.send_signal(sent)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in err if sent == signal.SIGINT else process.returncode == -sent
    wait_until_gone(group)


@pytest.mark.parametrize("output", ["1>&-", "1>/dev/null 2>&1"])
def test_what_a_command_leaves_behind_is_ended_and_not_waited_for(tmp_path, output):
    net, mark, go_on = Net(tmp_path), tmp_path / "begun", tmp_path / "go on"
    dataset = net.dataset("InMemoryDataset")
    dataset.set_pipe_command(f"cat; (sleep 1000 {output} &); {marks(mark)}; while [ ! -e '{go_on}' ]; do sleep 0.01; done")
    dataset.preload_into_memory()
    group = group_of(mark)
    began = time.monotonic()
    go_on.touch()
    dataset.wait_preload_done()
    assert time.monotonic() - began < 500 and dataset.get_memory_data_size() == ROWS
    wait_until_gone(group)


def test_what_is_left_behind_may_not_hold_the_output_in_silence(tmp_path):
    """Was that all? Nobody knows: no data set without its end."""
    net, mark = Net(tmp_path), tmp_path / "begun"
    dataset = net.dataset("InMemoryDataset")
    dataset.set_pipe_command(f"{marks(mark)}; cat; (sleep 1000 | sleep 1000 &)")
    with pytest.raises(Exception, match="something that it has left running holds its output and has written nothing for 10 s"):
        dataset.load_into_memory()
    wait_until(lambda: not is_there(int(mark.read_text())))


def test_what_is_left_behind_and_writes_is_read_to_its_end(tmp_path):
    net = Net(tmp_path)
    dataset = net.dataset("InMemoryDataset")
    dataset.set_pipe_command("x=$(cat); (for i in 1 2 3; do sleep 0.7; echo \"$x\"; done) &")
    dataset.load_into_memory()
    assert dataset.get_memory_data_size() == 3 * ROWS


@pytest.mark.parametrize("command", ["cat", "cat | cat"])
@pytest.mark.parametrize("has_writer", [False, True])
@pytest.mark.parametrize("in_memory", [False, True])
def test_ctrl_c_ends_the_wait_for_a_named_pipe(tmp_path, command, has_writer, in_memory):
    os.mkfifo(tmp_path / "fifo")
    script = SCRIPT.replace("exe.train", "print('begun', flush=True)\nexe.train")
    if in_memory:
        script = script.replace("create_dataset()", "create_dataset('InMemoryDataset')").replace(
            "exe.train", "dataset.load_into_memory()\nexe.train")
    writer = os.open(tmp_path / "fifo", os.O_RDWR) if has_writer else -1
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "fifo"), command], text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    try:
        assert process.stdout.readline() == "begun\n"
        wait_until(lambda: str(tmp_path / "fifo") in open_files(process.pid))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        if has_writer:
            os.close(writer)
    assert "KeyboardInterrupt" in err and "the end" not in out


@pytest.mark.parametrize("command", ["cat", "cat | cat"])
def test_samples_from_a_named_pipe(tmp_path, command):
    net = Net(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    writer = subprocess.Popen(["sh", "-c", f"(head -n 20; sleep 0.3; cat) < {net.paths[0]} > {tmp_path / 'fifo'}"])
    dataset = net.dataset("InMemoryDataset")
    dataset.set_filelist([str(tmp_path / "fifo")])
    dataset.set_pipe_command(command)
    dataset.load_into_memory()
    assert writer.wait(60) == 0 and dataset.get_memory_data_size() == ROWS


CHILDREN = '''
import os, signal
def reap(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
signal.signal(signal.SIGCHLD, {handler})
import paddle.fluid as fluid
x = fluid.data("x", [None, 1], dtype="float32")
dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
dataset.set_use_var([x])
dataset.set_filelist([{path!r}])
for command in {commands!r}:
    dataset.set_pipe_command(command)
    for turn in range(5):
        try:
            dataset.load_into_memory()
            print("whole")
        except Exception as error:
            print(str(error)[:100].replace(chr(10), " "))
    print("-")
'''


@pytest.mark.parametrize("handler", ["signal.SIG_DFL", "signal.SIG_IGN", "reap"])
def test_a_command_that_fails_is_told_whoever_waits_for_children(tmp_path, handler):
    path = tmp_path / "numbers"
    path.write_text("1 0.5\n" * 100)
    commands = ["head -n 5; exit 3", "head -n 5; (sleep 0.1 1>&-) & exit 4", "head -n 5; kill -9 $$", "head -n 5; kill -9 0",
                "cat | cat"]
    code = CHILDREN.format(handler=handler, path=str(path), commands=commands)
    out = subprocess.run([sys.executable, "-c", code], text=True, check=True, capture_output=True, timeout=120).stdout
    for said, wanted in zip(out.split("-\n"), ["status 3", "status 4", "signal 9", "nobody can tell", "whole"], strict=False):
        assert said.count("\n") == 5 and all(wanted in line for line in said.splitlines()), (wanted, out)


def marks(path) -> str:
    """What a command does to say that it has begun, and in which group."""
    return f"cut -d' ' -f5 /proc/self/stat > {path}.part; mv {path}.part {path}"


def group_of(mark) -> int:
    wait_for(mark)
    group = int(mark.read_text())
    assert is_there(group) and group != os.getpgid(0)
    return group


def wait_until_gone(group: int):
    wait_until(lambda: not is_there(group))


def open_files(pid: int) -> list[str]:
    found = []
    for each in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            found.append(os.readlink(f"/proc/{pid}/fd/{each}"))
    return found


def is_there(group: int) -> bool:
    """Is there a process of this group that still runs?"""
    for each in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{each}/stat") as file:
                state, _, its = file.read().rpartition(")")[2].split()[:3]
            if int(its) == group and state not in "ZX":
                return True
    return False
