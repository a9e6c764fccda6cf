"""Pascal VOC 2012, the part with segmentations.

A sample is (uint8[height, width, 3] image, uint8[height, width] class of each pixel).
"""

from __future__ import annotations

import tarfile
from typing import Callable, Iterator

from paddle.dataset import common
from paddle.dataset.image import decode

__all__ = ["train", "test", "val"]

VOC_URL = "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar"
VOC_MD5 = "6cd6e144f989b92b3379bac3b3de84fd"
SET_FILE = "VOCdevkit/VOC2012/ImageSets/Segmentation/{}.txt"
DATA_FILE = "VOCdevkit/VOC2012/JPEGImages/{}.jpg"
LABEL_FILE = "VOCdevkit/VOC2012/SegmentationClass/{}.png"

CACHE_DIR = "voc2012"


def reader_creator(filename: str, sub_name: str) -> Callable[[], Iterator[tuple]]:
    """Return a reader of the images named in one list of the archive."""

    def reader() -> Iterator[tuple]:
        with tarfile.open(filename) as tar:
            for name in tar.extractfile(SET_FILE.format(sub_name)).read().decode().split():
                image = tar.extractfile(DATA_FILE.format(name)).read()
                label = tar.extractfile(LABEL_FILE.format(name)).read()
                yield decode(image), decode(label)

    return reader


def train() -> Callable[[], Iterator[tuple]]:
    """Return a reader of the list `trainval`, 2913 images."""
    return reader_creator(common.download(VOC_URL, CACHE_DIR, VOC_MD5), "trainval")


def test() -> Callable[[], Iterator[tuple]]:
    """Return a reader of the list `train`, 1464 images."""
    return reader_creator(common.download(VOC_URL, CACHE_DIR, VOC_MD5), "train")


def val() -> Callable[[], Iterator[tuple]]:
    """Return a reader of the list `val`, 1449 images."""
    return reader_creator(common.download(VOC_URL, CACHE_DIR, VOC_MD5), "val")


def fetch() -> None:
    """Get the file."""
    common.download(VOC_URL, CACHE_DIR, VOC_MD5)
