"""MQ2007 (LETOR 4.0): documents to be ranked for queries, 46 features each, relevance 0, 1 or 2.

A sample depends on the format: plain_txt (query id, relevance, features), pointwise (relevance,
features), pairwise ([1], features of the better, of the worse), listwise (relevances, features).
"""

from __future__ import annotations

import functools
import os
import random
import shutil
import subprocess
import zipfile
from typing import Any, Iterable, Iterator

import numpy as np

from paddle.dataset import common
from paddle.dataset.words import Samples

URL = (
    "http://www.bigdatalab.ac.cn/benchmark/upload/download_source/"
    "7b6dbbe2-842c-11e4-a536-bcaec51b9163_MQ2007.rar"
)
MD5 = "7be1640ae95c6408dab0ae7207bdc706"

_FEATURES = 46


class Query:
    """A document of a query: query_id, relevance_score, feature_vector and description."""

    def __init__(
        self,
        query_id: int = -1,
        relevance_score: int = -1,
        feature_vector: list | None = None,
        description: str = "",
    ) -> None:
        self.query_id = query_id
        self.relevance_score = relevance_score
        self.feature_vector = [] if feature_vector is None else feature_vector
        self.description = description

    def __str__(self) -> str:
        return " ".join(map(str, [self.relevance_score, self.query_id, *self.feature_vector]))

    @classmethod
    def parse(cls, text: str, fill_missing: float = -1) -> Query | None:
        """Read a line, `0 qid:10 1:0.03 2:NULL ... #comment`; None if it is not of that form."""
        line, _, comment = text.partition("#")
        parts = line.split()
        if len(parts) != _FEATURES + 2:
            return None
        values = [part.split(":")[1] for part in parts[1:]]
        features = [fill_missing if value == "NULL" else float(value) for value in values[1:]]
        return cls(int(values[0]), int(parts[0]), features, comment.strip())


class QueryList:
    """The documents of one query."""

    def __init__(self, querylist: Iterable[Query] | None = None) -> None:
        self.query_id = -1
        self.querylist: list[Query] = []
        for query in querylist or []:
            self._add_query(query)

    def __iter__(self) -> Iterator[Query]:
        return iter(self.querylist)

    def __len__(self) -> int:
        return len(self.querylist)

    def __getitem__(self, i: int) -> Query:
        return self.querylist[i]

    def _correct_ranking_(self) -> None:
        self.querylist.sort(key=lambda query: query.relevance_score, reverse=True)

    def _add_query(self, query: Query) -> None:
        if self.query_id == -1:
            self.query_id = query.query_id
        if self.query_id != query.query_id:
            raise ValueError(
                f"QueryList of query {self.query_id}: cannot take one of query {query.query_id}."
            )
        self.querylist.append(query)


def _ranked(querylist: Any) -> QueryList:
    ranked = querylist if isinstance(querylist, QueryList) else QueryList(querylist)
    ranked._correct_ranking_()
    return ranked


def gen_plain_txt(querylist: Any) -> Iterator[tuple]:
    """Yield (query id, relevance, features) of each document, best first."""
    for query in (ranked := _ranked(querylist)):
        yield ranked.query_id, query.relevance_score, np.array(query.feature_vector)


def gen_point(querylist: Any) -> Iterator[tuple]:
    """Yield (relevance, features) of each document, best first."""
    for query in _ranked(querylist):
        yield query.relevance_score, np.array(query.feature_vector)


def gen_pair(querylist: Any, partial_order: str = "full") -> Iterator[tuple]:
    """Yield ([1], features, features) of each pair of a better and a worse document.

    "full" takes all pairs, "neighbour" those that stand side by side in the ranking.
    """
    if partial_order not in ("full", "neighbour"):
        raise ValueError(f"mq2007: partial_order must be 'full' or 'neighbour', got {partial_order!r}.")
    ranked = _ranked(querylist)
    for place, left in enumerate(ranked):
        end = len(ranked) if partial_order == "full" else place + 2
        for right in ranked.querylist[place + 1 : end]:
            if left.relevance_score > right.relevance_score:
                yield np.array([1]), np.array(left.feature_vector), np.array(right.feature_vector)


def gen_list(querylist: Any) -> Iterator[tuple]:
    """Yield (relevances [n, 1], features [n, 46]) of the whole list."""
    ranked = _ranked(querylist)
    yield (
        np.array([[query.relevance_score] for query in ranked]),
        np.array([query.feature_vector for query in ranked]),
    )


def query_filter(querylists: Iterable[QueryList]) -> list[QueryList]:
    """Keep the queries that have at least one relevant document."""
    return [each for each in querylists if sum(query.relevance_score for query in each)]


def _unpacked(filepath: str) -> str:
    """Return the path of a member of the archive, beside the archive; unpack it if it is not there."""
    packed = fetch()
    folder = os.path.dirname(packed)
    path = os.path.join(folder, filepath)
    if os.path.exists(path):
        return path
    if zipfile.is_zipfile(packed):
        with zipfile.ZipFile(packed) as package:
            package.extractall(folder)
    elif shutil.which("unrar") or shutil.which("bsdtar"):
        line = ["unrar", "x", "-y", packed, folder + os.sep] if shutil.which("unrar") else None
        subprocess.run(line or ["bsdtar", "-xf", packed, "-C", folder], check=True, stdout=subprocess.DEVNULL)
    else:
        raise RuntimeError(
            f"mq2007: {packed} is a RAR file, and neither 'unrar' nor 'bsdtar' is there to unpack it. "
            f"Install one of them, or unpack it by hand so that {path} is there."
        )
    if not os.path.exists(path):
        raise ValueError(f"mq2007: {packed} has no member {filepath}.")
    return path


def load_from_text(filepath: str, shuffle: bool = False, fill_missing: float = -1) -> list[QueryList]:
    """Read a file of the archive into lists of documents, one for each query."""
    lists: list[QueryList] = []
    with open(_unpacked(filepath)) as lines:
        for line in lines:
            query = Query.parse(line, fill_missing)
            if query is None:
                continue
            if not lists or lists[-1].query_id != query.query_id:
                lists.append(QueryList())
            lists[-1]._add_query(query)
    if shuffle:
        random.shuffle(lists)
    return lists


def _samples(filepath: str, format: str, shuffle: bool, fill_missing: float) -> Iterator[tuple]:
    for querylist in query_filter(load_from_text(filepath, shuffle, fill_missing)):
        if format == "plain_txt":
            yield next(gen_plain_txt(querylist))
        elif format == "pointwise":
            yield next(gen_point(querylist))
        elif format == "pairwise":
            yield from gen_pair(querylist)
        else:
            yield from gen_list(querylist)


def _reader(
    filepath: str, format: str = "pairwise", shuffle: bool = False, fill_missing: float = -1
) -> Samples:
    if format not in ("plain_txt", "pointwise", "pairwise", "listwise"):
        raise ValueError(
            f"mq2007: format must be 'plain_txt', 'pointwise', 'pairwise' or 'listwise', got {format!r}."
        )
    return Samples(lambda: _samples(filepath, format, shuffle, fill_missing))


train = functools.partial(_reader, filepath="MQ2007/MQ2007/Fold1/train.txt")
test = functools.partial(_reader, filepath="MQ2007/MQ2007/Fold1/test.txt")


def fetch() -> str:
    """Get the file and return its path."""
    return common.download(URL, "MQ2007", MD5)
