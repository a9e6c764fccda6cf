"""The `paddle` command as it lies on the PATH after an installation."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PADDLE = Path(sys.executable).parent / "paddle"
FEATURES = ["avx", "gpu", "double", "python", "rdma", "timer"]


def run(*words: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(PADDLE), *words], capture_output=True, text=True, timeout=60, **options)


def test_version_prints_the_block_users_know():
    done = run("version")
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0] == "PaddlePaddle 1.8.5, compiled with"
    assert [line.partition(":")[0] for line in lines[1:-1]] == [f"    with_{name}" for name in FEATURES]
    assert {line.partition(": ")[2] for line in lines[1:-1]} <= {"ON", "OFF"}
    assert lines[-1].startswith("    cpaddle: ")


def test_version_tells_the_truth():
    values = dict(line.strip().split(": ") for line in run("version").stdout.splitlines()[1:])
    assert values["with_python"] == "ON"
    assert values["with_gpu"] == values["with_rdma"] == "OFF"


def test_version_agrees_with_the_package():
    paddle = pytest.importorskip("paddle")
    lines = run("version").stdout.splitlines()
    assert lines[0] == f"PaddlePaddle {paddle.__version__}, compiled with"
    assert lines[-1] == f"    cpaddle: {paddle.version.cpaddle}"


@pytest.mark.parametrize("words", [["help"], ["--help"], ["-h"]])
def test_help_lists_the_commands(words):
    done = run(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: paddle <command>")
    for name in ("help", "launch", "ps", "psbench", "table", "version"):
        assert f"\n    {name} " in done.stdout


def test_help_of_one_command():
    done = run("help", "version")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: paddle version\n")


@pytest.mark.parametrize("name, option", [("help", None), ("ps", "--watch SECONDS"), ("psbench", "--seconds S"),
                                          ("table", "--on-duplicate first|sum|mean"), ("version", None)])
def test_help_and_the_option_help_say_the_same(name, option):
    done = run("help", name)
    assert (done.returncode, done.stderr) == (0, "") and (option or "Show the") in done.stdout
    for words in ([name, "--help"], [name, "-h"], [name, "status", "here", "--help"]):
        again = run(*words)
        assert (again.returncode, again.stderr, again.stdout) == (0, "", done.stdout)


def test_no_command_shows_help_and_fails():
    done = run()
    assert done.returncode == 2
    assert done.stdout == run("help").stdout


def test_version_flag():
    assert run("--version").stdout == run("version").stdout


@pytest.mark.parametrize("typed, meant", [("verison", "version"), ("ver", "version"), ("hepl", "help"),
                                          ("Version", "version")])
def test_unknown_command_suggests_the_nearest(typed, meant):
    done = run(typed)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (f"paddle: there is no command '{typed}'. Did you mean '{meant}'? "
                           "The commands are: help, launch, ps, psbench, table, version.\n")


@pytest.mark.parametrize("typed", ["frobnicate", "x", "", "v" * 5000, "--flag=1"])
def test_unknown_command_that_is_near_to_none(typed):
    done = run(typed)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"paddle: there is no command '{typed}'. The commands are: help, launch, ps, psbench, table, version.\n"


@pytest.mark.parametrize("typed", ["train", "pserver", "merge_model", "dump_config", "make_diagram"])
@pytest.mark.parametrize("words", [[], ["help"]])
def test_a_command_of_upstream_says_that_it_is_not_there_yet(words, typed):
    done = run(*words, typed, *([] if words else ["--config=trainer_config.py", "--use_gpu=0"]))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"paddle: the command '{typed}' is not there yet. In Paddle 0.9 to 1.2 it ")


def test_help_of_an_unknown_command():
    done = run("help", "verison")
    assert done.returncode == 2
    assert "Did you mean 'version'?" in done.stderr


@pytest.mark.parametrize("words, found, usage", [
    (["version", "now"], "now", "paddle version"),
    (["help", "version", "now"], "now", "paddle help [command]"),
])
def test_too_many_arguments(words, found, usage):
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"'{found}' was found" in done.stderr
    assert done.stderr.endswith(f"Usage: {usage}\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_output_that_cannot_be_written():
    with open("/dev/full", "w") as full:
        done = subprocess.run([str(PADDLE), "version"], stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("paddle: the output could not be written")


# ---- options; `ps status` of a port where nobody is ends with 1, so what was understood shows ----

NOBODY = ["ps", "status", "127.0.0.1:1"]


@pytest.mark.parametrize("words", [["--json"], ["-json"], ["--json=1"], ["--json=true"], ["--nojson"],
                                   ["--watch", "0.1"], ["--watch=0.1"],
                                   ["-watch=0.1", "--json=0", "--"]])
def test_options_in_all_their_forms(words):
    done = run(*NOBODY, *words, env=os.environ | {"FLAGS_rpc_deadline": "100"})
    assert (done.returncode, done.stdout) == (1, "") and done.stderr.startswith("paddle: ps status: "), done


@pytest.mark.parametrize("words, said", [
    (["--jsno"], "there is no option '--jsno'. Did you mean '--json'? 'paddle ps --help' lists them."),
    (["--wach=3"], "there is no option '--wach=3'. Did you mean '--watch'? 'paddle ps --help' lists them."),
    (["--nowatch"], "there is no option '--nowatch'. Did you mean '--watch'? 'paddle ps --help' lists them."),
    (["--frobnicate"], "there is no option '--frobnicate'. 'paddle ps --help' lists them."),
    (["--json=maybe"], "--json takes 0 or 1, found 'maybe'. 'paddle ps --help' tells more."),
    (["--watch=soon"], "--watch takes 0.1 to 86400 seconds, found 'soon'. 'paddle ps --help' tells more."),
    (["--watch"], "--watch needs a value. 'paddle ps --help' tells which."),
    (["--watch="], "--watch takes 0.1 to 86400 seconds, found ''. 'paddle ps --help' tells more."),
])
def test_options_that_are_not_understood(words, said):
    done = run(*NOBODY, *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"paddle: ps: {said}\n")


def test_words_behind_two_dashes_are_no_options():
    done = run("version", "--", "--json")
    assert done.returncode == 2 and "'--json' was found" in done.stderr
    assert "there is no option '--json'" in run("version", "--json").stderr
