"""Archives in memory, the same bytes every time: no dates, no owners."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from typing import Iterable


def gz(data: bytes) -> bytes:
    """Return gzipped bytes."""
    return gzip.compress(data, compresslevel=1, mtime=0)


def tar(members: Iterable[tuple[str, bytes]]) -> bytes:
    """Return a tar file of (name, data)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(members: Iterable[tuple[str, bytes]]) -> bytes:
    """Return a zip file of (name, data)."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def lines(rows: Iterable[str]) -> bytes:
    """Return the rows as lines of text."""
    return "".join(f"{row}\n" for row in rows).encode()
