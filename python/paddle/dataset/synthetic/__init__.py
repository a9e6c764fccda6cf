"""Small made-up stand-ins for the files of the data sets, for work without the real ones.

A stand-in is a file in the format of the real one, so the same code reads both, and every dictionary and
size that a data set reports fits its samples. All are made from fixed seeds and hold something to learn.
"""

from __future__ import annotations

import importlib
import os

# Part of the folder's name: raise it when a stand-in changes, so that older files are not used.
EDITION = 2

# (cache folder, file) -> the function that returns the file's bytes
_MAKERS = {
    ("uci_housing", "housing.data"): "tables.housing",
    ("MQ2007", "7b6dbbe2-842c-11e4-a536-bcaec51b9163_MQ2007.rar"): "tables.mq2007",
    ("movielens", "ml-1m.zip"): "movies.movielens",
    ("mnist", "train-images-idx3-ubyte.gz"): "images.mnist_train_images",
    ("mnist", "train-labels-idx1-ubyte.gz"): "images.mnist_train_labels",
    ("mnist", "t10k-images-idx3-ubyte.gz"): "images.mnist_test_images",
    ("mnist", "t10k-labels-idx1-ubyte.gz"): "images.mnist_test_labels",
    ("cifar", "cifar-10-python.tar.gz"): "images.cifar10",
    ("cifar", "cifar-100-python.tar.gz"): "images.cifar100",
    ("flowers", "102flowers.tgz"): "images.flowers",
    ("flowers", "imagelabels.mat"): "images.flower_labels",
    ("flowers", "setid.mat"): "images.flower_sets",
    ("voc2012", "VOCtrainval_11-May-2012.tar"): "images.voc2012",
    ("imikolov", "simple-examples.tgz"): "text.imikolov",
    ("imdb", "aclImdb_v1.tar.gz"): "text.imdb",
    ("corpora", "movie_reviews.zip"): "text.movie_reviews",
    ("wmt14", "wmt14.tgz"): "translation.wmt14",
    ("wmt16", "wmt16.tar.gz"): "translation.wmt16",
    ("conll05st", "conll05st-tests.tar.gz"): "roles.corpus",
    ("conll05st", "wordDict.txt"): "roles.word_dict",
    ("conll05st", "verbDict.txt"): "roles.verb_dict",
    ("conll05st", "targetDict.txt"): "roles.label_dict",
    ("conll05st", "emb"): "roles.embedding",
}


def _maker(module_name: str, name: str) -> str | None:
    return _MAKERS.get((module_name, name.removeprefix(f"{module_name}%2F")))


def has(module_name: str, name: str) -> bool:
    """Say whether there is a stand-in for a file."""
    return _maker(module_name, name) is not None


def file_for(root: str, module_name: str, name: str) -> str | None:
    """Return the path of the stand-in for a file, made at first use; None where there is none.

    It lies under `root`, or in the folder for temporary files where `root` cannot be written.
    """
    where = _maker(module_name, name)
    if where is None:
        return None
    folder = os.path.join(f"{root}-{EDITION}", module_name)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        folder = _temporary(module_name)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        file, function = where.split(".")
        data = getattr(importlib.import_module(f"{__name__}.{file}"), function)()
        part = f"{path}.part{os.getpid()}"
        with open(part, "wb") as out:
            out.write(data)
        os.replace(part, path)
    return path


def _temporary(module_name: str) -> str:
    import tempfile

    mine = f"paddle-dataset-synthetic-{EDITION}-{os.getuid()}"
    folder = os.path.join(tempfile.gettempdir(), mine, module_name)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder
