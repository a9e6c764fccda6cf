"""Files between this project's paddle and paddlepaddle 1.8.5, both ways (tests/interop/README.md)."""

import os
import re
import subprocess
import sys

import pytest

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'interop')
REAL = os.environ.get('PADDLE185_PYTHON')

pytestmark = pytest.mark.skipif(
    not REAL,
    reason='set PADDLE185_PYTHON to an interpreter with paddlepaddle 1.8.5 to exchange files with it',
)


def run(python, role, folder, script='ours_to_185.py', returncode=0):
    # the other interpreter must not pick up our packages, nor ours its
    environment = {
        key: value for key, value in os.environ.items() if python == sys.executable or key != 'PYTHONPATH'
    }
    done = subprocess.run(
        [python, os.path.join(FOLDER, script), role, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == returncode, f'{role} by {python}:\n{done.stdout}'
    return done.stdout


def test_ours_to_185(tmp_path):
    run(sys.executable, 'write', tmp_path)
    assert 'FAILED' not in run(REAL, 'read', tmp_path)


def test_185_to_ours(tmp_path):
    assert 'cpaddle' not in run(
        REAL, 'write', tmp_path
    ), 'PADDLE185_PYTHON runs this project, not paddlepaddle 1.8.5'
    assert 'FAILED' not in run(sys.executable, 'read', tmp_path)


# What 1.8.5 says no to in training Programs made here (docs/DIFFERENCES.md).
REFUSED = {'dynamic_rnn', 'while_array', 'cond', 'data_norm', 'data_norm_shift', 'group_norm'}


def test_training_programs_for_185(tmp_path):
    run(sys.executable, 'write', tmp_path, 'training_programs.py')
    told = run(REAL, 'read', tmp_path, 'training_programs.py', returncode=1)
    assert set(re.findall(r'^(\w+) +FAILED$', told, re.M)) == REFUSED, told
    assert 'Not equal to tolerance' not in told
    assert len(re.findall(r'^\w+ +done$', told, re.M)) > 50


def test_training_programs_of_185(tmp_path):
    run(REAL, 'write', tmp_path, 'training_programs.py')
    assert 'FAILED' not in run(sys.executable, 'read', tmp_path, 'training_programs.py')
