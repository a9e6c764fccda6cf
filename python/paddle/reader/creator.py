"""Readers made from arrays and files."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator

Reader = Callable[[], Iterable[Any]]

__all__ = ["np_array", "text_file", "recordio", "cloud_reader"]

_INSTEAD = (
    "Write the samples as pickle files with paddle.dataset.common.split and read them with "
    "paddle.dataset.common.cluster_files_reader."
)


def np_array(x: Any) -> Reader:
    """Read the elements of a vector, the rows of a matrix, and so on; a scalar is one sample."""

    def reader() -> Iterator[Any]:
        if x.ndim == 0:
            yield x
        else:
            yield from x

    return reader


def text_file(path: str) -> Reader:
    """Read the lines of a text file, without their line ends."""

    def reader() -> Iterator[str]:
        with open(path) as lines:
            for line in lines:
                yield line.rstrip("\n")

    return reader


def recordio(paths: Any, buf_size: int = 100) -> Reader:
    """RecordIO files cannot be read; this raises an error that says what to use."""
    raise RuntimeError(f"paddle.reader.creator.recordio: cannot read RecordIO files ({paths!r}). {_INSTEAD}")


def cloud_reader(paths: Any, etcd_endpoints: str, timeout_sec: int = 5, buf_size: int = 64) -> Reader:
    """There is no master that hands out RecordIO tasks; this raises an error that says what to use."""
    raise RuntimeError(
        f"paddle.reader.creator.cloud_reader: there is no task master at '{etcd_endpoints}' to be asked for "
        f"{paths!r}: this build has neither the master nor RecordIO. {_INSTEAD}"
    )
