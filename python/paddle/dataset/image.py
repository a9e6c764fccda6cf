"""Images: reading, scaling, cropping, flipping.

Arrays are height x width x channel, channels blue, green, red, until `to_chw` makes planes of them.
JPEG and PNG need opencv-python or pillow; PPM and PGM need neither. Scaling is done here, with the cubic
kernel of OpenCV.
"""

from __future__ import annotations

import io
import os
import pickle
import re
import tarfile
from typing import Any, Sequence

import numpy as np

__all__ = [
    "load_image_bytes",
    "load_image",
    "resize_short",
    "to_chw",
    "center_crop",
    "random_crop",
    "left_right_flip",
    "simple_transform",
    "load_and_transform",
    "batch_images_from_tar",
]

_PNM = re.compile(rb"P([56])(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+(\d+)\s")
_GRAY = np.array([0.299, 0.587, 0.114], np.float32)


def batch_images_from_tar(
    data_file: str, dataset_name: str, img2label: dict, num_per_batch: int = 1024
) -> str:
    """Pack the images named in `img2label` into pickle files {'label': [...], 'data': [...]}.

    They go to `<data_file>_batch/<dataset_name>/`. Returns the path of the list of these files; a list
    that is there already is kept.
    """
    folder = f"{data_file}_batch"
    out = os.path.join(folder, dataset_name)
    list_file = f"{out}.txt"
    if os.path.exists(list_file):
        return list_file
    os.makedirs(out, exist_ok=True)
    paths: list[str] = []
    batch: dict[str, list] = {"label": [], "data": []}

    def flush() -> None:
        path = os.path.abspath(os.path.join(out, f"batch_{len(paths)}"))
        with open(path, "wb") as file:
            pickle.dump(batch, file, protocol=2)
        paths.append(path)
        batch["label"], batch["data"] = [], []

    with tarfile.open(data_file) as tar:
        for member in tar:
            if member.name in img2label:
                batch["data"].append(tar.extractfile(member).read())
                batch["label"].append(img2label[member.name])
                if len(batch["data"]) == num_per_batch:
                    flush()
    if batch["data"]:
        flush()
    with open(f"{list_file}.part", "w") as file:
        file.writelines(f"{path}\n" for path in paths)
    os.replace(f"{list_file}.part", list_file)
    return list_file


def decode(data: bytes) -> np.ndarray:
    """Return the pixels of an image file as they are: RGB, gray, or indices into its palette."""
    header = _PNM.match(data)
    if header:
        channels = 3 if header[1] == b"6" else 1
        width, height, top = (int(header[group]) for group in (2, 3, 4))
        if top > 255 or len(data) - header.end() < width * height * channels:
            raise ValueError(
                f"a PNM image of {width} x {height}, values to {top}, is cut off or not of bytes."
            )
        pixels = np.frombuffer(data, np.uint8, width * height * channels, header.end())
        return pixels.reshape((height, width, 3) if channels == 3 else (height, width)).copy()
    return np.array(_open_with_pillow(data))


def _open_with_pillow(data: bytes) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise RuntimeError(
            "paddle.dataset.image: cannot read JPEG and PNG images without pillow or opencv-python. "
            "Install one of them: pip install pillow"
        ) from None
    return Image.open(io.BytesIO(data))


def load_image_bytes(bytes: bytes, is_color: bool = True) -> np.ndarray:
    """Return the pixels of an image file: [height, width, 3] in blue, green, red, or [height, width] gray."""
    if not _PNM.match(bytes):
        try:
            import cv2
        except ImportError:
            from_pillow = _open_with_pillow(bytes).convert("RGB" if is_color else "L")
            return np.array(from_pillow)[..., ::-1] if is_color else np.array(from_pillow)
        pixels = cv2.imdecode(np.frombuffer(bytes, np.uint8), 1 if is_color else 0)
        if pixels is None:
            raise ValueError(f"paddle.dataset.image: {len(bytes)} bytes are not an image that can be read.")
        return pixels
    pixels = decode(bytes)
    if is_color:
        return pixels[..., ::-1] if pixels.ndim == 3 else np.repeat(pixels[..., None], 3, axis=2)
    return np.rint(pixels @ _GRAY).astype(np.uint8) if pixels.ndim == 3 else pixels


def load_image(file: str, is_color: bool = True) -> np.ndarray:
    """Read an image file; see load_image_bytes."""
    with open(file, "rb") as data:
        return load_image_bytes(data.read(), is_color)


def _cubic(old: int, new: int) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each of `new` places, four source places and their weights (cubic kernel, a = -0.75)."""
    centre = (np.arange(new) + 0.5) * (old / new) - 0.5
    base = np.floor(centre)
    part = centre - base
    near = np.stack([part, 1 - part])
    far = near + 1
    a = -0.75
    near = ((a + 2) * near - (a + 3)) * near * near + 1
    far = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
    weights = np.stack([far[0], near[0], near[1], far[1]]).astype(np.float32)
    places = np.clip(base + np.arange(-1, 3)[:, None], 0, old - 1).astype(np.intp)
    return places, weights


def _resize(im: np.ndarray, height: int, width: int) -> np.ndarray:
    pixels = im.astype(np.float32)
    for axis, size in enumerate((height, width)):
        if size != im.shape[axis]:
            places, weights = _cubic(im.shape[axis], size)
            shape = [1] * im.ndim
            shape[axis] = size
            pixels = sum(
                np.take(pixels, place, axis=axis) * weight.reshape(shape)
                for place, weight in zip(places, weights)
            )
    if im.dtype.kind in "iu":
        limits = np.iinfo(im.dtype)
        pixels = np.clip(np.rint(pixels), limits.min, limits.max)
    return pixels.astype(im.dtype)


def resize_short(im: np.ndarray, size: int) -> np.ndarray:
    """Scale an image so that its shorter side is `size`."""
    height, width = im.shape[:2]
    if height > width:
        return _resize(im, size * height // width, size)
    return _resize(im, size, size * width // height)


def to_chw(im: np.ndarray, order: Sequence[int] = (2, 0, 1)) -> np.ndarray:
    """Turn height x width x channel into channel x height x width."""
    if im.ndim != len(order):
        raise ValueError(
            f"to_chw: the image has {im.ndim} dimensions, order {tuple(order)} has {len(order)}."
        )
    return im.transpose(order)


def _crop(im: np.ndarray, size: int, top: int, left: int) -> np.ndarray:
    return im[top : top + size, left : left + size]


def center_crop(im: np.ndarray, size: int, is_color: bool = True) -> np.ndarray:
    """Cut a square of `size` from the middle."""
    height, width = im.shape[:2]
    return _crop(im, size, (height - size) // 2, (width - size) // 2)


def random_crop(im: np.ndarray, size: int, is_color: bool = True) -> np.ndarray:
    """Cut a square of `size` from a random place. `numpy.random.seed` makes it repeatable."""
    height, width = im.shape[:2]
    top = np.random.randint(0, height - size + 1)
    left = np.random.randint(0, width - size + 1)
    return _crop(im, size, top, left)


def left_right_flip(im: np.ndarray, is_color: bool = True) -> np.ndarray:
    """Mirror an image: left becomes right."""
    return im[:, ::-1]


def simple_transform(
    im: np.ndarray, resize_size: int, crop_size: int, is_train: bool, is_color: bool = True, mean: Any = None
) -> np.ndarray:
    """Scale, crop, flip and subtract `mean`; return float32 planes.

    Training images are cropped at a random place and flipped at random, others cropped in the middle. The
    mean is one number for each channel, or an array of the result's shape.
    """
    im = resize_short(im, resize_size)
    if is_train:
        im = random_crop(im, crop_size, is_color)
        if np.random.randint(2) == 0:
            im = left_right_flip(im, is_color)
    else:
        im = center_crop(im, crop_size, is_color)
    planes = (to_chw(im) if im.ndim == 3 else im).astype(np.float32)
    if mean is not None:
        mean = np.asarray(mean, np.float32)
        planes -= mean[:, None, None] if mean.ndim == 1 and is_color else mean
    return planes


def load_and_transform(
    filename: str, resize_size: int, crop_size: int, is_train: bool, is_color: bool = True, mean: Any = None
) -> np.ndarray:
    """Read an image file and pass it through simple_transform."""
    return simple_transform(load_image(filename, is_color), resize_size, crop_size, is_train, is_color, mean)
