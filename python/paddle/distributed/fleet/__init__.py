"""paddle.distributed.fleet: where Paddle 2 has its Fleet. Here is its launcher, `python -m paddle.distributed.fleet.launch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddle import absent

if TYPE_CHECKING:
    from paddle.distributed.fleet import launch as launch


def __getattr__(name: str) -> Any:
    return absent.module_or_refuse(__name__, name, ("launch",))
