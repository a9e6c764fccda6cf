"""Oxford 102 flowers.

A sample is (float32[3 * 224 * 224], int label): planes blue, green and red, less their means.
"""

from __future__ import annotations

import functools
import os
import tarfile
from typing import Any, Callable, Iterator

from paddle.dataset import common, matfile
from paddle.dataset.image import load_image_bytes, simple_transform
from paddle.reader.decorator import map_readers
from paddle.reader.threaded import xmap_readers

__all__ = ["train", "test", "valid"]

DATA_URL = "http://paddlemodels.bj.bcebos.com/flowers/102flowers.tgz"
LABEL_URL = "http://paddlemodels.bj.bcebos.com/flowers/imagelabels.mat"
SETID_URL = "http://paddlemodels.bj.bcebos.com/flowers/setid.mat"
DATA_MD5 = "52808999861908f626f3c1f4e79d11fa"
LABEL_MD5 = "e0620be6f572b9609742df49c70aed4d"
SETID_MD5 = "a5357ecc9cb78c4bef273ce3793fc85c"

# The set called test in the files is the larger one, so it is the one to train on.
TRAIN_FLAG = "tstid"
TEST_FLAG = "trnid"
VALID_FLAG = "valid"

_FILES = [(DATA_URL, DATA_MD5), (LABEL_URL, LABEL_MD5), (SETID_URL, SETID_MD5)]

Mapper = Callable[[tuple], Any]


def default_mapper(is_train: bool, sample: tuple[bytes, int]) -> tuple:
    """Turn (image file, label) into (pixels in one row, label); training images are cut at random."""
    image, label = sample
    pixels = simple_transform(load_image_bytes(image), 256, 224, is_train, mean=[103.94, 116.78, 123.68])
    return pixels.flatten().astype("float32"), label


train_mapper = functools.partial(default_mapper, True)
test_mapper = functools.partial(default_mapper, False)


def reader_creator(
    data_file: str,
    label_file: str,
    setid_file: str,
    dataset_name: str,
    mapper: Mapper,
    buffered_size: int = 1024,
    use_xmap: bool = True,
    cycle: bool = False,
) -> Callable[[], Iterator[Any]]:
    """Return a reader of one set of images, each passed through `mapper` as (image file, label from 0)."""
    labels = matfile.load(label_file)["labels"].ravel()
    numbers = matfile.load(setid_file)[dataset_name].ravel()
    label_of = {f"jpg/image_{number:05d}.jpg": int(labels[number - 1]) - 1 for number in numbers.tolist()}

    def reader() -> Iterator[tuple[bytes, int]]:
        while True:
            with tarfile.open(data_file, "r|*") as tar:
                for member in tar:
                    if member.name in label_of:
                        yield tar.extractfile(member).read(), label_of[member.name]
            if not cycle:
                return

    if use_xmap:
        return xmap_readers(mapper, reader, min(4, os.cpu_count() or 1), buffered_size)
    return map_readers(mapper, reader)


def train(
    mapper: Mapper = train_mapper, buffered_size: int = 1024, use_xmap: bool = True, cycle: bool = False
) -> Callable[[], Iterator[Any]]:
    """Return a reader of the training images; with `cycle` it starts again for ever."""
    files = common.download_set("flowers", _FILES)
    return reader_creator(*files, TRAIN_FLAG, mapper, buffered_size, use_xmap, cycle)


def test(
    mapper: Mapper = test_mapper, buffered_size: int = 1024, use_xmap: bool = True, cycle: bool = False
) -> Callable[[], Iterator[Any]]:
    """Return a reader of the test images; with `cycle` it starts again for ever."""
    files = common.download_set("flowers", _FILES)
    return reader_creator(*files, TEST_FLAG, mapper, buffered_size, use_xmap, cycle)


def valid(
    mapper: Mapper = test_mapper, buffered_size: int = 1024, use_xmap: bool = True
) -> Callable[[], Iterator[Any]]:
    """Return a reader of the validation images."""
    files = common.download_set("flowers", _FILES)
    return reader_creator(*files, VALID_FLAG, mapper, buffered_size, use_xmap)


def fetch() -> None:
    """Get the three files."""
    common.download_set("flowers", _FILES)
