"""CIFAR-10 and CIFAR-100: small colour images of 10 or 100 classes.

A sample is (float32[3072] in [0, 1], planes red, green, blue; int label).
"""

from __future__ import annotations

import io
import pickle
import tarfile
from typing import Any, Callable, Iterator

import numpy as np

from paddle.dataset import common

__all__ = ["train100", "test100", "train10", "test10", "convert"]

URL_PREFIX = "https://dataset.bj.bcebos.com/cifar/"
CIFAR10_URL = URL_PREFIX + "cifar-10-python.tar.gz"
CIFAR10_MD5 = "c58f30108f718f92721af3b95e74349a"
CIFAR100_URL = URL_PREFIX + "cifar-100-python.tar.gz"
CIFAR100_MD5 = "eb9058c3a382ffc7106e4002c42a8d85"


class _ArrayUnpickler(pickle.Unpickler):
    """Loads arrays and plain values only, so a foreign file cannot run code; for any numpy's files."""

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy":
            if name == "_reconstruct":
                return np.zeros(0).__reduce__()[0]
            if name in ("ndarray", "dtype"):
                return getattr(np, name)
        if (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(
            f"a CIFAR batch holds arrays and lists; this one asks for {module}.{name}"
        )


def reader_creator(filename: str, sub_name: str, cycle: bool = False) -> Callable[[], Iterator[tuple]]:
    """Return a reader of the members of a tar whose names hold `sub_name`; with `cycle` it never ends."""

    def reader() -> Iterator[tuple]:
        while True:
            with tarfile.open(filename) as tar:
                for member in tar:
                    if member.isfile() and sub_name in member.name:
                        data = tar.extractfile(member).read()
                        yield from _samples(f"{filename}: {member.name}", data)
            if not cycle:
                return

    return reader


def _samples(where: str, data: bytes) -> Iterator[tuple]:
    batch = _ArrayUnpickler(io.BytesIO(data), encoding="bytes").load()
    labels = batch.get(b"labels", batch.get(b"fine_labels"))
    if labels is None:
        raise ValueError(f"{where}: has neither 'labels' nor 'fine_labels'.")
    images = np.asarray(batch[b"data"])
    for start in range(0, len(labels), 100):
        block = (images[start : start + 100] / 255.0).astype(np.float32)
        yield from zip(block, map(int, labels[start : start + 100]))


def train100() -> Callable[[], Iterator[tuple]]:
    """Return a reader of the training images of CIFAR-100."""
    return reader_creator(common.download(CIFAR100_URL, "cifar", CIFAR100_MD5), "train")


def test100() -> Callable[[], Iterator[tuple]]:
    """Return a reader of the test images of CIFAR-100."""
    return reader_creator(common.download(CIFAR100_URL, "cifar", CIFAR100_MD5), "test")


def train10(cycle: bool = False) -> Callable[[], Iterator[tuple]]:
    """Return a reader of the training images of CIFAR-10; with `cycle` it starts again for ever."""
    return reader_creator(common.download(CIFAR10_URL, "cifar", CIFAR10_MD5), "data_batch", cycle)


def test10(cycle: bool = False) -> Callable[[], Iterator[tuple]]:
    """Return a reader of the test images of CIFAR-10; with `cycle` it starts again for ever."""
    return reader_creator(common.download(CIFAR10_URL, "cifar", CIFAR10_MD5), "test_batch", cycle)


def fetch() -> None:
    """Get both files."""
    common.download(CIFAR10_URL, "cifar", CIFAR10_MD5)
    common.download(CIFAR100_URL, "cifar", CIFAR100_MD5)


def convert(path: str) -> None:
    """RecordIO files cannot be written; raises the error of common.convert."""
    common.convert(path, None, 1000, "cifar_train10")
