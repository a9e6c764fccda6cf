"""WMT14, a small cut: French and English sentences.

A sample is (source ids from <s> to <e>, target ids after <s>, target ids before <e>).
"""

from __future__ import annotations

import itertools
import tarfile
from typing import Any, Callable, Iterator

from paddle.dataset import common

__all__ = ["train", "test", "get_dict", "convert"]

URL_DEV_TEST = "http://www-lium.univ-lemans.fr/~schwenk/cslm_joint_paper/data/dev+test.tgz"
MD5_DEV_TEST = "7d7897317ddd8ba0ae5c5fa7248d3ff5"
URL_TRAIN = "http://paddlemodels.bj.bcebos.com/wmt/wmt14.tgz"
MD5_TRAIN = "0791583d57d5beb693b9414c5b36798c"
URL_MODEL = "http://paddlemodels.bj.bcebos.com/wmt%2Fwmt14.tgz"
MD5_MODEL = "0cb4a5366189b6acba876491c8724fa3"

START = "<s>"
END = "<e>"
UNK = "<unk>"
UNK_IDX = 2
_LONGEST = 80


def _read_dicts(tar_file: str, dict_size: int) -> tuple[dict[str, int], dict[str, int]]:
    """Number the first `dict_size` words of the source and of the target dictionary."""
    dicts = []
    with tarfile.open(tar_file) as tar:
        for ending in ("src.dict", "trg.dict"):
            names = [name for name in tar.getnames() if name.endswith(ending)]
            if len(names) != 1:
                raise ValueError(f"{tar_file}: wants one member that ends in {ending}, has {len(names)}.")
            lines = itertools.islice(tar.extractfile(names[0]), dict_size)
            dicts.append({line.decode().strip(): number for number, line in enumerate(lines)})
    return dicts[0], dicts[1]


def reader_creator(tar_file: str, file_name: str, dict_size: int) -> Callable[[], Iterator[tuple]]:
    """Return a reader of the members whose names end in `file_name`; pairs longer than 80 are left out."""

    def reader() -> Iterator[tuple]:
        source_ids, target_ids = _read_dicts(tar_file, dict_size)
        with tarfile.open(tar_file) as tar:
            for name in tar.getnames():
                if not name.endswith(file_name):
                    continue
                for line in tar.extractfile(name):
                    pair = line.decode().strip().split("\t")
                    if len(pair) != 2:
                        continue
                    source = [source_ids.get(word, UNK_IDX) for word in (START, *pair[0].split(), END)]
                    target = [target_ids.get(word, UNK_IDX) for word in pair[1].split()]
                    if max(len(source), len(target)) <= _LONGEST:
                        yield source, [target_ids[START], *target], [*target, target_ids[END]]

    return reader


def train(dict_size: int) -> Callable[[], Iterator[tuple]]:
    """Return a reader of the training pairs; words beyond the first `dict_size` are unknown."""
    return reader_creator(common.download(URL_TRAIN, "wmt14", MD5_TRAIN), "train/train", dict_size)


def test(dict_size: int) -> Callable[[], Iterator[tuple]]:
    """Return a reader of the test pairs."""
    return reader_creator(common.download(URL_TRAIN, "wmt14", MD5_TRAIN), "test/test", dict_size)


def gen(dict_size: int) -> Callable[[], Iterator[tuple]]:
    """Return a reader of the pairs to generate from."""
    return reader_creator(common.download(URL_TRAIN, "wmt14", MD5_TRAIN), "gen/gen", dict_size)


def get_dict(dict_size: int, reverse: bool = True) -> tuple[dict, dict]:
    """Return the source and the target dictionary: id -> word, or word -> id with `reverse=False`."""
    dicts = _read_dicts(common.download(URL_TRAIN, "wmt14", MD5_TRAIN), dict_size)
    if reverse:
        return tuple({number: word for word, number in each.items()} for each in dicts)
    return dicts


def model() -> Any:
    """Return the parameters of the trained v2 model."""
    import gzip

    import paddle.v2

    from_tar = paddle.v2.parameters.Parameters.from_tar
    with gzip.open(common.download(URL_MODEL, "wmt14", MD5_MODEL, "wmt14_model.tar.gz")) as packed:
        return from_tar(packed)


def fetch() -> None:
    """Get the file."""
    common.download(URL_TRAIN, "wmt14", MD5_TRAIN)


def convert(path: str) -> None:
    """RecordIO files cannot be written; raises the error of common.convert."""
    common.convert(path, None, 1000, "wmt14_train")
