"""UCI housing: 13 features of a district of Boston and the median price of its houses.

A sample is (float64[13] of scaled features, float64[1] price).
"""

from __future__ import annotations

import os
from typing import Any, Callable, Iterator

import numpy as np

from paddle.dataset import common

__all__ = ["train", "test"]

URL = "http://paddlemodels.bj.bcebos.com/uci_housing/housing.data"
MD5 = "d4accdce7a25600298819f8e28e8d593"
URL_MODEL = "https://github.com/PaddlePaddle/book/raw/develop/01.fit_a_line/fit_a_line.tar"
MD5_MODEL = "52fc3da8ef3937822fcdd87ee05c0c9b"
FLUID_URL_MODEL = "https://github.com/PaddlePaddle/book/raw/develop/01.fit_a_line/fluid/fit_a_line.fluid.tar"
FLUID_MD5_MODEL = "6e6dd637ccd5993961f68bfbde46090b"

feature_names = "CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT".split()

UCI_TRAIN_DATA: Any = None
UCI_TEST_DATA: Any = None
_loaded: tuple | None = None


def feature_range(maximums: Any, minimums: Any) -> None:
    """Plot how far each feature ranges to image/ranges.png. Needs matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6))
    axes = figure.subplots()
    spread = np.asarray(maximums) - np.asarray(minimums)
    axes.bar(range(len(spread)), spread, color="r")
    axes.set_xticks(range(len(spread)), feature_names[: len(spread)])
    axes.set_title("feature scale")
    os.makedirs("image", exist_ok=True)
    figure.savefig("image/ranges.png", dpi=48)


def load_data(filename: str, feature_num: int = 14, ratio: float = 0.8) -> None:
    """Read and scale a file: the first `ratio` of its rows to UCI_TRAIN_DATA, the rest to UCI_TEST_DATA."""
    global UCI_TRAIN_DATA, UCI_TEST_DATA, _loaded
    wanted = (filename, os.stat(filename).st_mtime_ns, feature_num, ratio)
    if wanted == _loaded:
        return
    with open(filename) as text:
        numbers = np.array(text.read().split(), dtype=np.float64)
    if numbers.size == 0 or numbers.size % feature_num:
        raise ValueError(f"{filename}: {numbers.size} numbers do not make rows of {feature_num}.")
    data = numbers.reshape(-1, feature_num)
    features = data[:, :-1]
    means, spread = features.sum(axis=0) / len(data), features.max(axis=0) - features.min(axis=0)
    features[:] = (features - means) / spread
    cut = int(len(data) * ratio)
    UCI_TRAIN_DATA, UCI_TEST_DATA = data[:cut], data[cut:]
    _loaded = wanted


def _reader(rows: Any) -> Callable[[], Iterator[tuple]]:
    def reader() -> Iterator[tuple]:
        for row in rows:
            yield row[:-1], row[-1:]

    return reader


def train() -> Callable[[], Iterator[tuple]]:
    """Return a reader of the first 404 rows."""
    fetch()
    return _reader(UCI_TRAIN_DATA)


def test() -> Callable[[], Iterator[tuple]]:
    """Return a reader of the last 102 rows."""
    fetch()
    return _reader(UCI_TEST_DATA)


def predict_reader() -> tuple:
    """Return the features of the first test row, in a tuple."""
    fetch()
    return (UCI_TEST_DATA[0][:-1],)


def fluid_model() -> str:
    """Unpack the trained Fluid model into a new folder and return its path."""
    import tarfile
    import tempfile

    packed = common.download(FLUID_URL_MODEL, "uci_housing", FLUID_MD5_MODEL, "fit_a_line.fluid.tar")
    folder = tempfile.mkdtemp()
    with tarfile.open(packed) as tar:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(folder, **safely)
    return folder


def model() -> Any:
    """Return the parameters of the trained v2 model."""
    import paddle.v2

    from_tar = paddle.v2.parameters.Parameters.from_tar
    with open(common.download(URL_MODEL, "uci_housing", MD5_MODEL), "rb") as packed:
        return from_tar(packed)


def fetch() -> None:
    """Get the file and read it."""
    load_data(common.download(URL, "uci_housing", MD5))


def convert(path: str) -> None:
    """RecordIO files cannot be written; raises the error of common.convert."""
    common.convert(path, None, 1000, "uci_housing_train")
