"""Names and devices that ops get from the `with` blocks around them."""

from __future__ import annotations

import contextlib
from typing import Iterator


class NameScope:
    """A part of a path such as 'encoder/attention/'; the same part again gets a number."""

    def __init__(self, name: str = "", parent: "NameScope | None" = None):
        self._name = name
        self._parent = parent
        self._count: dict = {}  # how often each part was asked for; the children themselves may go

    def child(self, prefix: str) -> "NameScope":
        before = self._count.get(prefix, 0)
        self._count[prefix] = before + 1
        return NameScope(f"{prefix}_{before}" if before else prefix, self)

    def parent(self) -> "NameScope | None":
        return self._parent

    def name(self) -> str:
        return self._name


_scope = NameScope()
_path = "/"
_device: str | None = None


@contextlib.contextmanager
def name_scope(prefix: str | None = None) -> Iterator[None]:
    """Ops made in the `with` block carry this part in their op_namescope.

    Args:
        prefix: the part of the name.

    >>> x = fluid.data(name='x', shape=[None, 4])
    >>> with fluid.name_scope("encoder"):
    ...     hidden = fluid.layers.fc(x, 10)
    """
    global _scope, _path
    if not prefix:
        raise ValueError("name_scope needs a name that is not empty.")
    before = _scope, _path
    _scope = _scope.child(prefix)
    _path = f"{before[1]}{_scope.name()}/"
    try:
        yield
    finally:
        _scope, _path = before


def full_name_scope() -> str:
    """The path of the name scopes around, e.g. '/encoder/'."""
    return _path


def current_device() -> str | None:
    """What device_guard says; None outside of one."""
    return _device


@contextlib.contextmanager
def device_guard(device: str | None = None) -> Iterator[None]:
    """Ops made in the `with` block run on this device: 'cpu' or None in this build.

    Args:
        device: 'cpu', or None.
    """
    global _device
    index = None
    if device and ":" in device:
        device, index = device.split(":", 1)
        if device == "cpu":
            raise ValueError(f"device_guard: 'cpu' takes no number, found 'cpu:{index}'.")
    if device not in ("cpu", "gpu", "", None):
        raise ValueError(f"device_guard: the device must be 'cpu' or 'gpu', found {device!r}.")
    if device == "gpu":
        raise RuntimeError("device_guard: 'gpu' was asked for, but this build has no GPU. Use 'cpu'.")
    before = _device
    _device = device
    try:
        yield
    finally:
        _device = before
