"""The folder that a distributed table is saved into is used again and again, by other numbers of servers and by one process. What
is loaded is of the last save, or is refused by name (jobs/tables.py: the table counts the steps)."""

import ast
import os
import re
import shutil
import struct
import sys
from pathlib import Path

import pytest
from cluster import JOBS, Job, Process

from paddle import fluid
from paddle.fluid import io_table_parts

sys.path.insert(0, str(JOBS))
from tables import ROWS  # noqa: E402

PARTS = "__lookup_table__"


def run(servers: int, *options: str, status: int = 0, trainers: int = 1) -> tuple[list[float], str]:
    """What the table was at the start, and what was said; without servers one process."""
    with Job(max(servers, 1), trainers, "tables.py") as job:
        if not servers:
            job.processes.append(Process("single", [sys.executable, job.script, "single", *options]))
        else:
            job.start_all(*options)
        if not status:
            job.end(60)
        else:
            first = job.processes[0]
            assert first.end(60) == status, first.output()
        said = "".join(job.clear())
    found = re.search(r"begins (\[.*\])", said)
    return ast.literal_eval(found[1]) if found else [], said


def all_of(steps: int) -> list[float]:
    return [float(steps)] * ROWS


def files(folder: Path) -> list[str]:
    return sorted(os.listdir(folder / PARTS))


@pytest.mark.parametrize("first, second", [(3, 2), (2, 3)])
def test_another_number_of_servers_saves_into_the_same_folder(tmp_path, first, second):
    model = str(tmp_path / "model")
    run(first, "--steps", "4", "--save", model)
    run(second, "--load", model, "--steps", "3", "--save", model)
    assert files(tmp_path / "model") == [f"emb_{i}" for i in range(second)]
    for servers in (0, 1, 3):
        assert run(servers, "--load", model)[0] == all_of(7), servers


def test_a_whole_table_takes_the_place_of_parts_and_the_other_way_round(tmp_path):
    model = str(tmp_path / "model")
    run(2, "--steps", "4", "--save", model)
    run(0, "--load", model, "--steps", "3", "--save", model)
    assert files(tmp_path / "model") == [] and (tmp_path / "model" / "emb").exists()
    assert run(2, "--load", model)[0] == all_of(7)
    run(2, "--load", model, "--steps", "1", "--save", model)
    assert files(tmp_path / "model") == ["emb_0", "emb_1"] and not (tmp_path / "model" / "emb").exists()
    assert run(0, "--load", model)[0] == run(3, "--load", model)[0] == all_of(8)
    run(2, "--load", model, "--steps", "1", "--save-params", model)
    assert run(0, "--load", model)[0] == run(2, "--load", model)[0] == all_of(9)


def test_parts_of_different_saves_are_refused(tmp_path):
    """As a server leaves them that was killed while it saved, or who copies files together."""
    model, mixed = tmp_path / "model", tmp_path / "mixed"
    run(2, "--steps", "4", "--save", str(model))
    shutil.copytree(model, mixed)
    run(2, "--load", str(model), "--steps", "3", "--save", str(model))
    shutil.copy(model / PARTS / "emb_0", mixed / PARTS / "emb_0")
    for servers in (0, 1, 2):
        _, said = run(servers, "--load", str(mixed), status=1)
        assert "are of different saves" in said and "emb_0'" in said and "emb_1'" in said, said
    os.remove(mixed / PARTS / "emb_1")
    for servers in (0, 1):
        _, said = run(servers, "--load", str(mixed), status=1)
        assert "(of 2 parts number 1)" in said, said


def test_a_whole_table_beside_other_parts_is_refused(tmp_path):
    model = tmp_path / "model"
    run(0, "--steps", "2", "--save", str(model))
    shutil.copy(model / "emb", tmp_path / "emb")
    run(2, "--steps", "4", "--save", str(model))
    run(2, "--steps", "2", "--save", str(tmp_path / "same"))
    for folder, status in (model, 1), (tmp_path / "same", 0):
        shutil.copy(tmp_path / "emb", folder / "emb")
        for servers in (0, 2, 3):
            found, said = run(servers, "--load", str(folder), status=status)
            assert found == all_of(2) if not status else "is there twice" in said and str(folder / "emb") in said, said


def test_several_trainers_save_at_the_same_time(tmp_path):
    """All parts are of one of the saves in the end, whichever server hears of which first."""
    model = str(tmp_path / "model")
    for steps in (2, 3):
        run(3, "--steps", str(steps), "--save", model, trainers=4)
        parts = io_table_parts.table_parts(model, "emb")
        assert [part.index for part in parts] == [0, 1, 2] and len({part.save for part in parts}) == 1, parts
        assert run(2, "--load", model)[0] == all_of(steps)


def test_a_save_while_the_table_is_loaded(tmp_path, monkeypatch):
    """What takes the places of files between two looks at them is not mixed with what was there."""
    for steps in (2, 3):
        run(2, "--steps", str(steps), "--save", str(tmp_path / str(steps)))
    model = tmp_path / "2"
    read, calls = io_table_parts._read_rows, []

    def read_rows(executor, table, shape, part):
        if not calls:
            for name in files(model):
                shutil.copy(tmp_path / "3" / PARTS / name, model / PARTS / name)
        calls.append(part)
        return read(executor, table, shape, part)

    monkeypatch.setattr(io_table_parts, "_read_rows", read_rows)
    exe = fluid.Executor(fluid.CPUPlace())
    whole = io_table_parts.read_table(exe, str(model), "emb", (ROWS, 2))
    assert (whole == -3).all() and len(calls) == 4


def test_files_that_are_replaced_all_the_time(tmp_path, monkeypatch):
    run(2, "--steps", "1", "--save", str(tmp_path))
    looks = iter(range(1000))
    found = io_table_parts.table_parts
    monkeypatch.setattr(io_table_parts, "table_parts", lambda *a: [part._replace(save=next(looks)) for part in found(*a)][:1])
    with pytest.raises(fluid.core.FileError, match="replaced while they are read, 20 times"):
        io_table_parts.read_table(fluid.Executor(fluid.CPUPlace()), str(tmp_path), "emb", (ROWS, 2))


def test_parts_that_do_not_say_what_they_are(tmp_path):
    """Upstream's have no such end: they are loaded where their rows fit. Beside others they are refused."""
    model = tmp_path / "model"
    run(2, "--steps", "4", "--save", str(model))
    for name in files(model):
        path = model / PARTS / name
        path.write_bytes(path.read_bytes()[:-24])
    for servers in (0, 1, 2):
        assert run(servers, "--load", str(model))[0] == all_of(4)
    run(3, "--steps", "2", "--save", str(tmp_path / "other"))
    shutil.copy(tmp_path / "other" / PARTS / "emb_2", model / PARTS / "emb_2")
    assert "do not say of which" in run(1, "--load", str(model), status=1)[1]
    path = model / PARTS / "emb_2"
    path.write_bytes(path.read_bytes()[:-24])
    assert "and so has another of its files" in run(1, "--load", str(model), status=1)[1]


def test_a_variable_with_the_name_of_a_part_is_left_alone(tmp_path):
    """`emb_0` may be a parameter of its own, in the folder of `emb`."""
    run(2, "--steps", "4", "--save", str(tmp_path))
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        fluid.layers.create_parameter([3], "float32", name="emb_0")
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        fluid.io.save_params(exe, str(tmp_path), main)
    run(1, "--load", str(tmp_path), "--steps", "1", "--save", str(tmp_path))
    assert (tmp_path / "emb_0").exists() and files(tmp_path) == ["emb_0"]
    assert run(3, "--load", str(tmp_path))[0] == all_of(5)


def test_the_end_of_a_part(tmp_path):
    """As docs/SERVER_FILES.md tells it."""
    run(2, "--steps", "1", "--save", str(tmp_path))
    ends = [struct.unpack("<8sIIQ", (tmp_path / PARTS / name).read_bytes()[-24:]) for name in files(tmp_path)]
    assert [end[:3] for end in ends] == [(b"CPDLPART", i, 2) for i in range(2)] and ends[0][3] == ends[1][3] != 0


def test_a_save_that_fails_on_one_server_harms_no_earlier_one(tmp_path):
    """Files take the places of older ones when all servers have written. What is left of it goes with the next save."""
    model = str(tmp_path / "model")
    run(2, "--steps", "4", "--save", model)
    with Job(2, 1, "tables.py") as job:
        options = ["--steps", "1", "--save", model]
        job.start("server", 0, *options)
        job.start("server", 1, *options, env={"FLAGS_ps_save_root": str(tmp_path / "elsewhere")})
        trainer = job.start("trainer", 0, *options)
        assert trainer.end(60) == 1 and "FLAGS_ps_save_root" in trainer.output(), trainer.output()
    left = [name for name in files(tmp_path / "model") if name not in ("emb_0", "emb_1")]
    assert len(left) == 1 and left[0].startswith("emb_0.save-"), left
    for servers in (0, 2, 3):
        assert run(servers, "--load", model)[0] == all_of(4)
    run(2, "--load", model, "--steps", "3", "--save", model)
    assert files(tmp_path / "model") == ["emb_0", "emb_1"]
    assert run(1, "--load", model)[0] == all_of(7)
