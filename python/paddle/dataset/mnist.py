"""MNIST: images of handwritten digits.

A sample is (float32[784] in [-1, 1], int label).
"""

from __future__ import annotations

import gzip
from typing import Callable, Iterator

import numpy as np

from paddle.dataset import common

__all__ = ["train", "test", "convert"]

URL_PREFIX = "https://dataset.bj.bcebos.com/mnist/"
TEST_IMAGE_URL = URL_PREFIX + "t10k-images-idx3-ubyte.gz"
TEST_IMAGE_MD5 = "9fb629c4189551a2d022fa330f9573f3"
TEST_LABEL_URL = URL_PREFIX + "t10k-labels-idx1-ubyte.gz"
TEST_LABEL_MD5 = "ec29112dd5afa0611ce80d1b7f02629c"
TRAIN_IMAGE_URL = URL_PREFIX + "train-images-idx3-ubyte.gz"
TRAIN_IMAGE_MD5 = "f68b3c2dcbeaaa9fbdd348bbdeb94873"
TRAIN_LABEL_URL = URL_PREFIX + "train-labels-idx1-ubyte.gz"
TRAIN_LABEL_MD5 = "d53e105ee54ea40749a09fcbcd1e9432"

_TRAIN = [(TRAIN_IMAGE_URL, TRAIN_IMAGE_MD5), (TRAIN_LABEL_URL, TRAIN_LABEL_MD5)]
_TEST = [(TEST_IMAGE_URL, TEST_IMAGE_MD5), (TEST_LABEL_URL, TEST_LABEL_MD5)]


def _read_idx(path: str, rank: int) -> np.ndarray:
    """Read a gzipped IDX file of bytes: 0x0800 + rank and `rank` sizes, big-endian, then the data."""
    with gzip.open(path, "rb") as packed:
        data = packed.read()
    head = 4 * (1 + rank)
    header = np.frombuffer(data[:head], dtype=">u4") if len(data) >= head else np.zeros(1, ">u4")
    if header[0] != 0x0800 + rank:
        raise ValueError(f"{path}: not an IDX file of bytes with {rank} dimension(s).")
    shape = [int(size) for size in header[1:]]
    if len(data) - head < np.prod(shape, dtype=np.int64):
        raise ValueError(f"{path}: its header says {shape}, but only {len(data) - head} bytes follow.")
    return np.frombuffer(data, np.uint8, int(np.prod(shape, dtype=np.int64)), head).reshape(shape)


def reader_creator(
    image_filename: str, label_filename: str, buffer_size: int
) -> Callable[[], Iterator[tuple]]:
    """Return a reader of an image file and a label file that converts `buffer_size` images at a time."""

    def reader() -> Iterator[tuple]:
        images = _read_idx(image_filename, 3)
        labels = _read_idx(label_filename, 1).tolist()
        if len(images) != len(labels):
            raise ValueError(
                f"{image_filename} has {len(images)} images, {label_filename} has {len(labels)} labels. "
                "Put two files that belong together there."
            )
        images = images.reshape(len(images), -1)
        for start in range(0, len(images), buffer_size):
            block = images[start : start + buffer_size].astype(np.float32)
            block /= 255.0
            block *= 2.0
            block -= 1.0
            yield from zip(block, labels[start : start + buffer_size])

    return reader


def train() -> Callable[[], Iterator[tuple]]:
    """Return a reader of the training images."""
    return reader_creator(*common.download_set("mnist", _TRAIN), 100)


def test() -> Callable[[], Iterator[tuple]]:
    """Return a reader of the test images."""
    return reader_creator(*common.download_set("mnist", _TEST), 100)


def fetch() -> None:
    """Get the four files."""
    common.download_set("mnist", _TRAIN)
    common.download_set("mnist", _TEST)


def convert(path: str) -> None:
    """RecordIO files cannot be written; raises the error of common.convert."""
    common.convert(path, None, 1000, "minist_train")
