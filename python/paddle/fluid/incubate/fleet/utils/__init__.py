"""Helpers of Fleet: files here and on HDFS, Programs in files, metrics over all workers."""

from __future__ import annotations

from paddle import absent

_MODULES = frozenset({"fleet_barrier_util", "fleet_util", "fs", "hdfs", "utils"})


def __getattr__(name: str):
    return absent.module_or_refuse(__name__, name, _MODULES)
