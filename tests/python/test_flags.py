"""Flags in the environment: a misspelt name is reported once, with the name that is meant; all others are quiet."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import paddle.fluid as fluid

RUNS = """
import paddle.fluid as fluid
x = fluid.layers.fill_constant([1], "float32", 1.0)
for _ in range(3):
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_main_program(), fetch_list=[x])
"""


def messages(settings: dict | None = None, **flags: str) -> list[str]:
    """What a small script says with these flags."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("FLAGS_")}
    env.update((f"FLAGS_{name}", value) for name, value in flags.items())
    env.update(settings or {})
    done = subprocess.run([sys.executable, "-c", RUNS], env=env, capture_output=True, text=True, timeout=60, check=True)
    return done.stderr.splitlines()


@pytest.mark.parametrize(
    "wrong, right",
    [("rpc_deadlin", "rpc_deadline"), ("chekc_nan_inf", "check_nan_inf"), ("cudnn_exhaustive_serch", "cudnn_exhaustive_search")],
)
def test_a_misspelt_flag_is_reported(wrong, right):
    (line,) = messages(**{wrong: "5"})
    assert "warning" in line and f"FLAGS_{wrong} " in line and f"is FLAGS_{right} meant?" in line


def test_known_and_foreign_names_are_quiet():
    """Flags with an effect, flags of old scripts, GPU flags of launchers, and names of other programs."""
    assert messages(rpc_deadline="5000", benchmark="0", cudnn_deterministic="1", selected_gpus="0", my_own="x") == []


def test_a_misspelt_setting_of_servers_is_reported():
    for wrong, right in (("PADDLE_PS_SECERT", "PADDLE_PS_SECRET"), ("PADDLE_PS_MAPP", "PADDLE_PS_MAP"),
                         ("PADDLE_PS_BINDD", "PADDLE_PS_BIND")):
        (line,) = messages({wrong: "abc"})
        assert "warning" in line and f"{wrong} is not a setting and has no effect; is {right} meant?" in line and "abc" not in line
    (line,) = messages({"PADDLE_PS_QQQQQQQQQQQQ": "abc"})
    assert "PADDLE_PS_QQQQQQQQQQQQ is not a setting and has no effect: docs/DISTRIBUTED.md lists them" in line


def test_every_setting_that_the_engine_reads_is_known():
    sources = Path(__file__).resolve().parents[2].glob("src/net/*.c")
    read = {name for path in sources for name in re.findall(r'"(PADDLE_PS_\w+)"', path.read_text(encoding="utf-8"))}
    assert len(read) >= 9 and messages(dict.fromkeys(read, "1")) == []


def test_misspelt_flags_keep_to_the_level_of_messages():
    assert messages(rpc_deadlin="5", log_level="error") == []


def test_set_flags_names_the_flag_that_is_meant():
    with pytest.raises(ValueError, match="FLAGS_chek_nan_inf"):
        fluid.set_flags({"FLAGS_chek_nan_inf": 1})


def test_flags_that_test_tools_ask_for():
    assert fluid.core.globals()["FLAGS_use_system_allocator"] is False


def test_texts_of_any_length():
    """Folders of clusters have long names: one that is cut, or dropped, would keep nothing."""
    folder = "/" + "d" * 700
    env = {**os.environ, "FLAGS_ps_dir": folder}
    script = ("import paddle.fluid as fluid\n"
              "print(fluid.get_flags('FLAGS_ps_dir')['FLAGS_ps_dir'])\n"
              "fluid.set_flags({'FLAGS_ps_dir': '/e' * 300})\n"
              "print(fluid.get_flags('FLAGS_ps_dir')['FLAGS_ps_dir'])")
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [folder, "/e" * 300] and not done.stderr
