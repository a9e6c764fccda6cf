"""TensorBoard's event files (FLAGS_tensorboard_dir), decoded here by hand: frames, checksums, messages."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from paddle.fluid.event_file import EventFile


def crc32c(data: bytes) -> int:
    """Bit by bit, as the polynomial has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF


def unmasked(masked: int) -> int:
    turned = (masked - 0xA282EAD8) & 0xFFFFFFFF
    return (turned >> 17 | turned << 15) & 0xFFFFFFFF


def fields(message: bytes) -> list[tuple[int, object]]:
    """Of a message of protobuf: (number, value)."""
    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (message[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if not message[at - 1] & 128:
                return value, at

    found, at = [], 0
    while at < len(message):
        key, at = varint(at)
        if key & 7 == 0:
            value, at = varint(at)
        elif key & 7 == 1:
            (value,), at = struct.unpack_from("<d", message, at), at + 8
        elif key & 7 == 5:
            (value,), at = struct.unpack_from("<f", message, at), at + 4
        else:
            assert key & 7 == 2
            n, at = varint(at)
            value, at = message[at:at + n], at + n
            assert len(value) == n
        found.append((key >> 3, value))
    return found


def scalars(path: Path) -> list[tuple[int, str, float]]:
    """(step, tag, value) of each; every frame is whole and has its checksums."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        (n,), (of_n,) = struct.unpack_from("<Q", data, at), struct.unpack_from("<I", data, at + 8)
        event = data[at + 12:at + 12 + n]
        assert len(event) == n and unmasked(of_n) == crc32c(data[at:at + 8])
        assert unmasked(struct.unpack_from("<I", data, at + 12 + n)[0]) == crc32c(event)
        known = dict(fields(event))
        assert abs(known[1] - time.time()) < 600
        if at == 0:
            assert known[3] == b"brain.Event:2"
        else:
            for number, value in fields(known[5]):
                assert number == 1
                tag = dict(fields(value))
                found.append((known[2], tag[1].decode(), tag[2]))
        at += 12 + n + 4
    return found


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    assert re.fullmatch(r"events\.out\.tfevents\.\d{10}\.[\w.-]+\.\d+\.\d+", path.name)
    return path


def run(folder: Path, script: str, **env: str) -> str:
    plain = {name: value for name, value in os.environ.items() if name != "PADDLE_TRAINER_ID"}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=folder, capture_output=True, text=True, timeout=120,
                          env={**plain, "FLAGS_tensorboard_dir": str(folder / "runs"), **env})
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_checksum_is_that_of_the_standard():
    assert crc32c(b"123456789") == 0xE3069283


def test_what_is_added_stands_there(tmp_path):
    file = EventFile(str(tmp_path / "a" / "b"))
    assert scalars(file.path) == []
    file.add(0, {"loss": 0.5})
    file.add(300, {"loss": -1.25, "größe/ß": float("inf"), "x" * 300: 1e39})
    file.add(2**40, {"nan": float("nan")})
    file.flush()
    found = scalars(file.path)
    assert found[:2] == [(0, "loss", 0.5), (300, "loss", -1.25)]
    assert [(step, tag) for step, tag, _ in found[2:]] == [(300, "größe/ß"), (300, "x" * 300), (2**40, "nan")]
    assert all(value > 1e38 for _, _, value in found[2:4]) and found[4][2] != found[4][2]


def test_report_of_a_loop(tmp_path):
    """Also of a process that forks: nothing stands there twice."""
    said = run(tmp_path, """
        import os
        from paddle.fluid import progress
        for step in range(3):
            progress.report(samples=10, loss=1.0 / (step + 1))
        if os.fork() == 0:
            raise SystemExit
        os.wait()
        progress.report(samples=10, step=77, loss=0.125, auc=0.75)
    """)
    assert said == ""
    found = scalars(only_file(tmp_path / "runs"))
    assert found == [
        (1, "loss", 1.0), (2, "loss", 0.5), (3, "loss", pytest.approx(1 / 3)), (77, "loss", 0.125), (77, "auc", 0.75)]


def test_a_data_set_and_a_worker(tmp_path):
    """What fetch_list shows is what stands there; a worker of a job has a folder of its own."""
    (tmp_path / "data").write_text("".join(f"1 {i} 1 {i * 2}\n" for i in range(400)))
    said = run(tmp_path, """
        import paddle.fluid as fluid
        x, y = (fluid.layers.data(name, [1]) for name in "xy")
        loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
        fluid.optimizer.SGD(1e-7).minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        data = fluid.DatasetFactory().create_dataset("QueueDataset")
        data.set_use_var([x, y])
        data.set_batch_size(10)
        data.set_filelist(["data"])
        for epoch in range(2):
            exe.train_from_dataset(dataset=data, fetch_list=[loss, x], fetch_info=["loss", "x"], print_period=10)
    """, PADDLE_TRAINER_ID="3", PADDLE_PROGRESS_FILE=str(tmp_path / "told"))
    shown = [(int(batch), float(value)) for batch, value in re.findall(r"^batch (\d+)\tloss: (\S+)", said, re.MULTILINE)]
    assert len(shown) >= 6
    found = scalars(only_file(tmp_path / "runs" / "worker-3"))
    losses = [(step, value) for step, tag, value in found if tag == "loss"]
    assert [value for _, value in losses] == [pytest.approx(value, rel=1e-4) for _, value in shown]
    steps = [step for step, _ in losses]
    assert steps == sorted(set(steps)) and max(steps) > 40, "the second pass goes on behind the first"
    assert {tag for _, tag, _ in found} == {"loss", "samples_per_second"}
    assert all(value > 0 for _, tag, value in found if tag == "samples_per_second")
    ends = [record for record in map(json.loads, (tmp_path / "told").read_text().splitlines()) if record["over"]]
    assert [(end["batches"], end["samples"], end["part"]) for end in ends] == [(40, 400, 1.0)] * 2
    assert all(end["read_seconds"] > 0 and end["run_seconds"] > 0 and end["samples_per_second"] > 0 for end in ends)
    assert ends[1]["values"] == {"loss": pytest.approx(shown[-1][1], rel=1e-4)}


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "runs").write_text("a file")
    said = run(tmp_path, """
        from paddle.fluid import progress
        for step in range(3):
            progress.report(samples=10, loss=1.0)
        print("went on")
    """)
    assert said.count("nothing is written for TensorBoard") == 1 and "went on" in said
