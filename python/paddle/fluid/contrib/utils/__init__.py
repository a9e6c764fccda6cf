"""fluid.contrib.utils: files on HDFS, by the names and signatures that they had before Fleet."""

from __future__ import annotations

from typing import Any

from paddle import absent
from paddle.fluid.contrib.utils.hdfs_utils import HDFSClient, multi_download, multi_upload

__all__ = ["HDFSClient", "multi_download", "multi_upload"]


def __getattr__(name: str) -> Any:
    absent.refuse(__name__, name)
