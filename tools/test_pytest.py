"""Runs pytest as `python -m pytest` does. A script of its own, which a child of a nursery can run (test_task.py)."""

import os
import sys

import pytest

if __name__ == "__main__":  # processes that a test spawns import this file
    sys.path[0] = os.getcwd()
    sys.exit(pytest.main())
