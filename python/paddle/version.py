"""Versions: the Paddle whose scripts and files this package follows, and the package's own."""

from __future__ import annotations

from paddle import _core

full_version = _core.paddle_version()
major, minor, patch = full_version.split(".")
rc = "0"
istaged = True
commit = "cpaddle"
with_mkl = "ON" if _core.build_has("onednn") else "OFF"

# Our own version.
cpaddle = _core.version()


def mkl() -> str:
    """Is there a fast library for products? 'ON' or 'OFF'."""
    return with_mkl


def show() -> None:
    """Prints all of it."""
    print(f"full_version: {full_version}")
    print(f"major: {major}")
    print(f"minor: {minor}")
    print(f"patch: {patch}")
    print(f"rc: {rc}")
    print(f"cpaddle: {cpaddle}")
