"""Whole numbers that a flag cannot have are refused, from the environment, a script or the command line."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

MOST = 2**31 - 1
RANGES = {  # flag -> (least, most)
    "paddle_num_threads": (0, 8192),
    "rpc_deadline": (1, MOST),
    "rpc_retry_times": (-1, MOST),
    "ps_loops": (0, 64),
    "data_ahead": (-1, 64),
    "ps_spin": (-1, 100000),
    "ps_reconnect": (0, MOST),
    "ps_dead_after": (0, 30000),
    "ps_notice": (1, MOST),
    "ps_wait_trainers": (-1, MOST),
    "ps_snapshot_seconds": (0, MOST),
    "ps_snapshot_steps": (0, MOST),
    "ps_log_mb": (0, MOST),
    "ps_keep": (1, MOST),
    "checkpoint_seconds": (0, MOST),
    "checkpoint_steps": (0, MOST),
    "checkpoint_keep": (1, MOST),
    # Of old scripts, without effect: what 1.8.5 takes.
    "inner_op_parallelism": (-MOST - 1, MOST),
    "initial_cpu_memory_in_mb": (0, 2**64 - 1),
    "max_body_size": (0, 2**64 - 1),
}
MEANINGS = {  # what a special value means is part of the refusal
    "paddle_num_threads": "0: OMP_NUM_THREADS, else the cores",
    "rpc_retry_times": "-1: until rpc_deadline",
    "ps_reconnect": "0: none",
    "ps_dead_after": "0: never",
    "ps_wait_trainers": "0 or -1: for ever",
    "ps_snapshot_seconds": "0: none by time",
    "checkpoint_seconds": "0: none by time",
    "checkpoint_steps": "0: by time",
}
PADDLE = Path(sys.executable).parent / "paddle"
FLAGS_H = Path(__file__).resolve().parents[2] / "src" / "base" / "flags.h"

TRIES = """
import paddle.fluid as fluid
for line in {tries!r}:
    name, _, value = line.partition("=")
    try:
        {how}
    except ValueError as error:
        print(error)
    else:
        print("taken", fluid.get_flags(name)[name])
"""
WAYS = {
    "set_flags": "fluid.set_flags({'FLAGS_' + name: value})",
    "init_gflags": "fluid.core.init_gflags(['--' + line])",
}


def python(lines: str, **flags: str) -> subprocess.CompletedProcess:
    env = {name: value for name, value in os.environ.items() if not name.startswith("FLAGS_")}
    env.update((f"FLAGS_{name}", value) for name, value in flags.items())
    return subprocess.run([sys.executable, "-c", lines], env=env, capture_output=True, text=True, timeout=120)


def outside(name: str) -> list[str]:
    """Values that are too small or too large, by one and by what 32 and 64 bits cut to something that fits, and none at all."""
    least, most = RANGES[name]
    texts = [str(n) for n in (least - 1, most + 1, most + 2**32, 2**64 + max(least, 1), -(2**64) + max(least, 1), -(2**63) - 1)
             if not least <= n <= most]
    return texts + ["", " ", "1x", "1.5", "0x", "soon"]


def refusal(name: str, value: str) -> str:
    return f"FLAGS_{name} cannot be '{value}': give a whole number from {RANGES[name][0]} to {RANGES[name][1]} ("


def test_the_table_has_every_whole_number():
    text = FLAGS_H.read_text(encoding="utf-8")
    assert set(re.findall(r"X\((\w+), (?:INT\(|NATURAL)", text)) == set(RANGES)


@pytest.mark.parametrize("way", WAYS)
def test_values_outside_are_refused(way):
    tries = [f"{name}={value}" for name in RANGES for value in outside(name)]
    done = python(TRIES.format(tries=tries, how=WAYS[way]))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(tries) > 150
    for line, tried in zip(lines, tries, strict=True):
        name, _, value = tried.partition("=")
        assert line.startswith(refusal(name, value)) and line.endswith(")") and MEANINGS.get(name, "") in line


@pytest.mark.parametrize("way", WAYS)
def test_values_at_the_borders_are_taken(way):
    values = [(name, n) for name in RANGES for n in (*RANGES[name], max(RANGES[name][0], 16))]
    tries = [f"{name}={n}" for name, n in values] + ["ps_loops=0x10", "ps_loops= 010"]
    done = python(TRIES.format(tries=tries, how=WAYS[way]))
    assert done.stdout.splitlines() == [f"taken {n}" for _, n in values] + ["taken 16", "taken 10"], done.stderr


@pytest.mark.parametrize("border", [0, 1])
def test_borders_in_the_environment_are_taken(border):
    flags = {name: str(limits[border]) for name, limits in RANGES.items()}
    done = python(f"import paddle.fluid as fluid\nfor name in {list(flags)!r}:\n    print(fluid.get_flags(name)[name])", **flags)
    assert done.returncode == 0 and done.stdout.split() == list(flags.values()) and done.stderr == ""


@pytest.mark.parametrize("name", RANGES)
def test_values_outside_in_the_environment_end_the_start(name):
    for value in (str(RANGES[name][0] - 1), str(RANGES[name][1] + 1)):
        done = python("import paddle.fluid as fluid\nprint('it runs')", **{name: value})
        last = done.stderr.splitlines()[-1]
        assert done.returncode == 1 and not done.stdout and refusal(name, value) in last, done.stderr


def test_other_values_in_the_environment_that_do_not_fit():
    for name, value, wanted in (("rpc_retry_times", "often", "give a whole number from -1 to"),
                                ("check_nan_inf", "2", "give 0 or 1"), ("benchmark", "", "give 0 or 1"),
                                ("eager_delete_tensor_gb", "all", "give a number"),
                                ("log_level", "loud", "error, warning, info or debug")):
        done = python("import paddle", **{name: value})
        assert done.returncode == 1, done.stderr
        assert re.search(f"FLAGS_{name} cannot be '{value}': .*{wanted}", done.stderr.splitlines()[-1]), done.stderr


def test_on_and_off_as_upstream_writes_them():
    words = ["1", "t", "True", "y", "YES", "0", "F", "false", "n", "no"]
    done = python(TRIES.format(tries=[f"benchmark={word}" for word in words], how=WAYS["set_flags"]))
    assert done.stdout.splitlines() == ["taken True"] * 5 + ["taken False"] * 5, done.stderr
    assert python("import paddle.fluid as fluid\nprint(fluid.get_flags('FLAGS_benchmark'))",
                  benchmark="Yes").stdout == "{'FLAGS_benchmark': True}\n"


@pytest.mark.parametrize("command", [["ps", "status", "127.0.0.1:1"], ["psbench", "--seconds", "0.1"]])
def test_the_command_refuses_too(command):
    done = subprocess.run([PADDLE, *command], env=os.environ | {"FLAGS_ps_spin": "-2"}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and refusal("ps_spin", "-2") in done.stderr, done.stderr
