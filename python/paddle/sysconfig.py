"""paddle.sysconfig: where a C program finds this package's header and library."""

from __future__ import annotations

import os

__all__ = ["get_include", "get_lib"]

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def get_include() -> str:
    """The folder for `cc -I`: it holds paddle/paddle.h."""
    return os.path.join(_PACKAGE, "include")


def get_lib() -> str:
    """The folder for `cc -L`: it holds libpaddle.so."""
    return os.path.join(_PACKAGE, "_lib")
