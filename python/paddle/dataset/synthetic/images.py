"""Stand-ins made of pictures: mnist, cifar, flowers and voc2012.

Where the real files hold JPEG and PNG, these hold PPM and PGM, which need no library to read.
"""

from __future__ import annotations

import functools
import pickle
import struct

import numpy as np

from paddle.dataset import matfile
from paddle.dataset.synthetic import pack

# Digits on a grid of 5 x 7, one row of five bits after the other.
_GLYPHS = [
    "01110 10001 10001 10001 10001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00110 01000 10000 11111",
    "11110 00001 00001 01110 00001 00001 11110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
]


@functools.lru_cache(maxsize=2)
def _digits(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Digits of 15 x 21 dots, moved by up to two dots, slanted, softened, with noise."""
    rng = np.random.RandomState(seed)
    glyphs = np.array([[[int(bit) for bit in row] for row in glyph.split()] for glyph in _GLYPHS], np.float32)
    big = np.kron(glyphs, np.ones((1, 3, 3), np.float32))
    labels = rng.randint(10, size=count)
    images = np.zeros((count, 28, 28), np.float32)
    tops, lefts = rng.randint(1, 6, count), rng.randint(4, 9, count)
    slants = rng.randint(-1, 2, count)
    for image, label, top, left, slant in zip(images, labels, tops, lefts, slants):
        for part in range(3):
            shift = left + slant * (1 - part)
            image[top + 7 * part : top + 7 * part + 7, shift : shift + 15] = big[label][
                7 * part : 7 * part + 7
            ]
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    images = 0.4 * images + 0.15 * (
        padded[:, :-2, 1:-1] + padded[:, 2:, 1:-1] + padded[:, 1:-1, :-2] + padded[:, 1:-1, 2:]
    )
    images *= rng.uniform(0.7, 1.0, (count, 1, 1))
    images += 0.06 * rng.randn(*images.shape) * (images > 0)
    return np.clip(images * 255, 0, 255).astype(np.uint8), labels.astype(np.uint8)


def _idx(array: np.ndarray) -> bytes:
    header = struct.pack(f">{1 + array.ndim}I", 0x0800 + array.ndim, *array.shape)
    return pack.gz(header + array.tobytes())


def mnist_train_images() -> bytes:
    """4,000 images."""
    return _idx(_digits(28, 4000)[0])


def mnist_train_labels() -> bytes:
    """Their labels."""
    return _idx(_digits(28, 4000)[1])


def mnist_test_images() -> bytes:
    """1,000 images."""
    return _idx(_digits(29, 1000)[0])


def mnist_test_labels() -> bytes:
    """Their labels."""
    return _idx(_digits(29, 1000)[1])


def _textures(rng: np.random.RandomState, labels: np.ndarray, classes: int, side: int) -> np.ndarray:
    """Images [count, 3, side, side]: the class sets colour and direction of stripes; phase and noise vary."""
    style = np.random.RandomState(classes)
    colour = style.uniform(60, 195, (classes, 3, 1, 1))
    other = style.uniform(-60, 60, (classes, 3, 1, 1))
    angle = np.pi * style.permutation(classes) / classes
    pitch = 2 + style.randint(3, size=classes)
    y, x = np.mgrid[:side, :side] / side
    turn, waves = angle[labels][:, None, None], pitch[labels][:, None, None]
    phase = rng.uniform(0, 2 * np.pi, (len(labels), 1, 1))
    stripes = np.sin(2 * np.pi * waves * (x * np.cos(turn) + y * np.sin(turn)) + phase)[:, None]
    images = colour[labels] + other[labels] * stripes + 12 * rng.randn(len(labels), 3, side, side)
    return np.clip(images, 0, 255).astype(np.uint8)


def _cifar_batch(seed: int, count: int, classes: int) -> bytes:
    rng = np.random.RandomState(seed)
    labels = rng.permutation(count) % classes
    images = _textures(rng, labels, classes, 32).reshape(count, -1)
    if classes == 10:
        batch = {b"data": images, b"labels": labels.tolist()}
    else:
        batch = {b"data": images, b"fine_labels": labels.tolist(), b"coarse_labels": (labels // 5).tolist()}
    return pickle.dumps(batch, protocol=4)


def cifar10() -> bytes:
    """cifar-10-python.tar.gz with 5 x 500 training and 500 test images."""
    members = [(f"cifar-10-batches-py/data_batch_{n}", _cifar_batch(n, 500, 10)) for n in range(1, 6)]
    return pack.gz(pack.tar([*members, ("cifar-10-batches-py/test_batch", _cifar_batch(6, 500, 10))]))


def cifar100() -> bytes:
    """cifar-100-python.tar.gz with 3,000 training and 500 test images."""
    members = [("train", _cifar_batch(101, 3000, 100)), ("test", _cifar_batch(102, 500, 100))]
    return pack.gz(pack.tar((f"cifar-100-python/{name}", data) for name, data in members))


def _ppm(image: np.ndarray) -> bytes:
    kind = "P6" if image.ndim == 3 else "P5"
    return f"{kind} {image.shape[1]} {image.shape[0]} 255\n".encode() + image.tobytes()


_FLOWERS = 102
_PER_FLOWER = 6


def flowers() -> bytes:
    """102flowers.tgz with six images of each of the 102 kinds."""
    count = _FLOWERS * _PER_FLOWER
    images = _textures(np.random.RandomState(7), np.arange(count) % _FLOWERS, _FLOWERS, 32)
    rows = images.transpose(0, 2, 3, 1)
    return pack.gz(pack.tar((f"jpg/image_{n + 1:05d}.jpg", _ppm(image)) for n, image in enumerate(rows)))


def flower_labels() -> bytes:
    """imagelabels.mat: the kind, from 1, of each image."""
    labels = np.arange(_FLOWERS * _PER_FLOWER) % _FLOWERS + 1
    return matfile.dump({"labels": labels.astype(np.uint8)[None]})


def flower_sets() -> bytes:
    """setid.mat: four images of each kind to train on (tstid), one to test (trnid), one to validate."""
    numbers = (np.arange(_FLOWERS * _PER_FLOWER) + 1).astype(np.uint16)
    four, five = 4 * _FLOWERS, 5 * _FLOWERS
    sets = {"trnid": numbers[four:five], "valid": numbers[five:], "tstid": numbers[:four]}
    return matfile.dump({name: each[None] for name, each in sets.items()})


def voc2012() -> bytes:
    """VOCtrainval_11-May-2012.tar with 60 + 20 scenes: a box of one of 20 classes on a dark ground.

    The colour of a box tells its class; its border has the label 255, as in the real set.
    """
    rng = np.random.RandomState(2012)
    palette = np.random.RandomState(20).randint(70, 256, (21, 3))
    members = []
    for number in range(80):
        height, width = rng.randint(60, 91), rng.randint(80, 121)
        label = np.zeros((height, width), np.uint8)
        image = rng.randint(0, 50, (height, width, 3))
        kind = 1 + number % 20
        top, left = rng.randint(5, 20), rng.randint(5, 30)
        bottom, right = top + rng.randint(20, 35), left + rng.randint(20, 45)
        label[top - 1 : bottom + 1, left - 1 : right + 1] = 255
        label[top:bottom, left:right] = kind
        image[label > 0] = palette[kind] + rng.randint(-20, 21, (int((label > 0).sum()), 3))
        name = f"2012_{number:06d}"
        members.append((f"JPEGImages/{name}.jpg", _ppm(np.clip(image, 0, 255).astype(np.uint8))))
        members.append((f"SegmentationClass/{name}.png", _ppm(label)))
    everything = [f"2012_{number:06d}" for number in range(80)]
    for name, rows in (("trainval", everything), ("train", everything[:60]), ("val", everything[60:])):
        members.append((f"ImageSets/Segmentation/{name}.txt", pack.lines(rows)))
    return pack.tar((f"VOCdevkit/VOC2012/{name}", data) for name, data in members)
