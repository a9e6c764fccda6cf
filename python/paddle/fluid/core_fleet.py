"""fluid.core.Fleet: the inside of upstream's pslib, of which only what needs no pslib is here."""

from __future__ import annotations

from typing import Any, NoReturn


class Fleet:
    """A process's part in a job of pslib. Calls that need its servers say what to use."""

    def set_client2client_config(self, request_timeout_ms: int, connect_timeout_ms: int, max_retry: int) -> None:
        """Limits of connections between workers; accepted: FLAGS_rpc_deadline is the one that counts in global_shuffle."""

    def get_cache_threshold(self, table_id: int) -> float:
        """From which score on a row of a table is in the cache: there is no cache, so 0."""
        return 0.0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(name)


class _Absent:
    """A method that is not there."""

    def __init__(self, name: str):
        self._name = name

    def __call__(self, *unused: Any, **unused_too: Any) -> NoReturn:
        from paddle.fluid.incubate.fleet.parameter_server.pslib.not_there import not_there

        raise not_there(f"core.Fleet.{self._name}")
