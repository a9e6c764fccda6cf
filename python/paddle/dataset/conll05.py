"""CoNLL-2005, the Wall Street Journal test part: who did what to whom, word by word.

A sample is nine lists of one length: word ids, the five words around the verb (two before, itself, two
after), verb id, marks of those five places, label ids.
"""

from __future__ import annotations

import gzip
import tarfile
from typing import Callable, Iterable, Iterator

from paddle.dataset import common

__all__ = ["test", "get_dict", "get_embedding", "convert"]

DATA_URL = "http://paddlemodels.bj.bcebos.com/conll05st/conll05st-tests.tar.gz"
DATA_MD5 = "387719152ae52d60422c016e92a742fc"
WORDDICT_URL = "http://paddlemodels.bj.bcebos.com/conll05st%2FwordDict.txt"
WORDDICT_MD5 = "ea7fb7d4c75cc6254716f0177a506baa"
VERBDICT_URL = "http://paddlemodels.bj.bcebos.com/conll05st%2FverbDict.txt"
VERBDICT_MD5 = "0d2977293bbb6cbefab5b0f97db1e77c"
TRGDICT_URL = "http://paddlemodels.bj.bcebos.com/conll05st%2FtargetDict.txt"
TRGDICT_MD5 = "d8c7f03ceb5fc2e5a0fa7503a4353751"
EMB_URL = "http://paddlemodels.bj.bcebos.com/conll05st%2Femb"
EMB_MD5 = "bf436eb0faa1f6f9103017f8be57cdb7"

UNK_IDX = 0

_WORDS = "conll05st-release/test.wsj/words/test.wsj.words.gz"
_PROPS = "conll05st-release/test.wsj/props/test.wsj.props.gz"


def load_dict(filename: str) -> dict[str, int]:
    """Number the lines of a file."""
    with open(filename, encoding="utf-8") as lines:
        return {line.strip(): number for number, line in enumerate(lines)}


def load_label_dict(filename: str) -> dict[str, int]:
    """Number the labels of a file: B- and I- of each tag side by side, O last."""
    with open(filename, encoding="utf-8") as lines:
        tags = dict.fromkeys(line.strip()[2:] for line in lines if line.startswith(("B-", "I-")))
    labels = [f"{part}-{tag}" for tag in tags for part in "BI"]
    return {label: number for number, label in enumerate([*labels, "O"])}


def _labels(column: Iterable[str]) -> Iterator[str]:
    """Turn brackets, such as `(A0*`, `*`, `*)`, into B-, I- and O."""
    tag, inside = "", False
    for cell in column:
        if cell.startswith("(") and "*" in cell:
            tag, inside = cell[1 : cell.index("*")], not cell.endswith(")")
            yield f"B-{tag}"
        elif cell in ("*", "*)"):
            yield f"I-{tag}" if inside or cell == "*)" else "O"
            inside = inside and cell == "*"
        else:
            raise ValueError(f"conll05: cannot read the label '{cell}'. It should be *, *), (TAG* or (TAG*).")


def corpus_reader(data_path: str, words_name: str, props_name: str) -> Callable[[], Iterator[tuple]]:
    """Return a reader of (words, verb, labels), one for each verb of each sentence."""

    def sentences() -> Iterator[tuple[list[str], list[list[str]]]]:
        words: list[str] = []
        rows: list[list[str]] = []
        with (
            tarfile.open(data_path) as tar,
            gzip.open(tar.extractfile(words_name), "rt", encoding="utf-8") as word_lines,
            gzip.open(tar.extractfile(props_name), "rt", encoding="utf-8") as prop_lines,
        ):
            for word, cells in zip(word_lines, prop_lines):
                if cells.strip():
                    words.append(word.strip())
                    rows.append(cells.split())
                elif rows:
                    yield words, rows
                    words, rows = [], []
        if rows:
            yield words, rows

    def reader() -> Iterator[tuple]:
        for words, rows in sentences():
            lemmas, *columns = zip(*rows)
            verbs = [lemma for lemma in lemmas if lemma != "-"]
            for verb, column in zip(verbs, columns):
                yield words, verb, list(_labels(column))

    return reader


def reader_creator(
    corpus_reader: Callable[[], Iterable[tuple]], word_dict: dict, predicate_dict: dict, label_dict: dict
) -> Callable[[], Iterator[tuple]]:
    """Return a reader that turns (words, verb, labels) into the nine lists of ids."""

    def reader() -> Iterator[tuple]:
        for words, verb, labels in corpus_reader():
            size = len(words)
            if "B-V" not in labels:
                raise ValueError(f"conll05: no verb is marked (V*) in the sentence '{' '.join(words)}'.")
            place = labels.index("B-V")
            marks = [int(abs(each - place) <= 2) for each in range(size)]
            padded = ["bos", "bos", *words, "eos", "eos"]
            around = [[word_dict.get(word, UNK_IDX)] * size for word in padded[place : place + 5]]
            unknown = set(labels) - label_dict.keys()
            if unknown:
                raise ValueError(f"conll05: labels {sorted(unknown)} are not in the label dictionary.")
            yield (
                [word_dict.get(word, UNK_IDX) for word in words],
                *around,
                [predicate_dict.get(verb, UNK_IDX)] * size,
                marks,
                [label_dict[label] for label in labels],
            )

    return reader


def _files() -> list[str]:
    """Paths of the word, verb and label dictionaries, the word vectors and the text: they belong together."""
    return common.download_set(
        "conll05st",
        [
            (WORDDICT_URL, WORDDICT_MD5),
            (VERBDICT_URL, VERBDICT_MD5),
            (TRGDICT_URL, TRGDICT_MD5),
            (DATA_URL, DATA_MD5),
        ],
    )


def get_dict() -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Return the dictionaries of words, verbs and labels."""
    words, verbs, labels, _ = _files()
    return load_dict(words), load_dict(verbs), load_label_dict(labels)


def get_embedding() -> str:
    """Return the path of the word vectors: 16 bytes of header, then float32[words, 32]."""
    return common.download_set("conll05st", [(WORDDICT_URL, WORDDICT_MD5), (EMB_URL, EMB_MD5)])[1]


def test() -> Callable[[], Iterator[tuple]]:
    """Return a reader of the test text. There is no free training text, so models are trained on it."""
    return reader_creator(corpus_reader(_files()[3], _WORDS, _PROPS), *get_dict())


def fetch() -> None:
    """Get the five files."""
    _files()
    get_embedding()


def convert(path: str) -> None:
    """RecordIO files cannot be written; raises the error of common.convert."""
    common.convert(path, None, 1000, "conl105_train")
