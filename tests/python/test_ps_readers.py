"""A trainer that reads from a reader in its Program, on one place and on two: the same bits as without servers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import free_ports

SCRIPT = Path(__file__).parent / "jobs" / "reading.py"


@pytest.mark.parametrize("places", [1, 2])
def test_losses_are_those_of_one_process(places):
    env = {**os.environ, "CPU_NUM": str(places), "OMP_NUM_THREADS": "1"}

    def start(*words):
        return subprocess.Popen([sys.executable, str(SCRIPT), *words], env=env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    endpoint = f"127.0.0.1:{free_ports(1)[0]}"
    with start("local") as local, start("server", endpoint) as server, start("trainer", endpoint) as trainer:
        outputs = {}
        try:
            for name, process in (("local", local), ("trainer", trainer), ("server", server)):
                outputs[name], errors = process.communicate(timeout=120)
                assert process.returncode == 0, (name, errors)
        finally:
            for process in (local, server, trainer):
                process.kill()
    rows = outputs["local"].splitlines()
    assert len(rows) == 24 // places and all(len(row.split()) == places for row in rows)
    assert outputs["trainer"].splitlines() == rows
