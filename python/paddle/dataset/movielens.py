"""MovieLens 1M: what users think of films.

A sample is [user id, 0 man / 1 woman, index into age_table, job id, film id, [category ids],
[title word ids], [rating * 2 - 5]].
"""

from __future__ import annotations

import functools
import os
import re
import zipfile
from typing import Any, Callable, Iterator

import numpy as np

from paddle.dataset import common

__all__ = [
    "train",
    "test",
    "get_movie_title_dict",
    "max_movie_id",
    "max_user_id",
    "age_table",
    "movie_categories",
    "max_job_id",
    "user_info",
    "movie_info",
    "convert",
]

age_table = [1, 18, 25, 35, 45, 50, 56]

URL = "https://dataset.bj.bcebos.com/movielens%2Fml-1m.zip"
MD5 = "c4d9eecfca2ab87c1945afe126590906"

MOVIE_INFO: dict[int, MovieInfo] | None = None
MOVIE_TITLE_DICT: dict[str, int] | None = None
CATEGORIES_DICT: dict[str, int] | None = None
USER_INFO: dict[int, UserInfo] | None = None
_loaded: tuple | None = None


class MovieInfo:
    """A film: index, categories (names) and title (without the year)."""

    def __init__(self, index: Any, categories: list[str], title: str) -> None:
        self.index = int(index)
        self.categories = categories
        self.title = title

    def value(self) -> list:
        """Return [film id, [category ids], [title word ids]]."""
        return [
            self.index,
            [CATEGORIES_DICT[name] for name in self.categories],
            [MOVIE_TITLE_DICT[word.lower()] for word in self.title.split()],
        ]

    def __repr__(self) -> str:
        return f"<MovieInfo id({self.index}), title({self.title}), categories({self.categories})>"


class UserInfo:
    """A user: index, is_male, age (index into age_table) and job_id."""

    def __init__(self, index: Any, gender: str, age: Any, job_id: Any) -> None:
        self.index = int(index)
        self.is_male = gender == "M"
        self.age = age_table.index(int(age))
        self.job_id = int(job_id)

    def value(self) -> list:
        """Return [user id, 0 man / 1 woman, age index, job id]."""
        return [self.index, 0 if self.is_male else 1, self.age, self.job_id]

    def __repr__(self) -> str:
        gender = "M" if self.is_male else "F"
        age = age_table[self.age]
        return f"<UserInfo id({self.index}), gender({gender}), age({age}), job({self.job_id})>"


def _rows(package: zipfile.ZipFile, member: str) -> list[list[str]]:
    return [line.split("::") for line in package.read(member).decode("latin-1").splitlines() if line]


def _load() -> str:
    """Read films and users, once for each state of the file. Returns the file's path."""
    global MOVIE_INFO, MOVIE_TITLE_DICT, CATEGORIES_DICT, USER_INFO, _loaded
    path = common.download(URL, "movielens", MD5)
    state = (path, os.stat(path).st_mtime_ns)
    if state == _loaded:
        return path
    with zipfile.ZipFile(path) as package:
        films, users = _rows(package, "ml-1m/movies.dat"), _rows(package, "ml-1m/users.dat")
    MOVIE_INFO = {}
    for number, title, categories in films:
        year = re.match(r"(.*)\(\d+\)$", title)
        MOVIE_INFO[int(number)] = MovieInfo(number, categories.split("|"), year.group(1) if year else title)
    # Sorted, so that ids are the same in every run.
    names = sorted({name for film in MOVIE_INFO.values() for name in film.categories})
    words = sorted({word.lower() for film in MOVIE_INFO.values() for word in film.title.split()})
    CATEGORIES_DICT = {name: number for number, name in enumerate(names)}
    MOVIE_TITLE_DICT = {word: number for number, word in enumerate(words)}
    USER_INFO = {int(row[0]): UserInfo(*row[:4]) for row in users}
    _loaded = state
    return path


def _reader(rand_seed: int = 0, test_ratio: float = 0.1, is_test: bool = False) -> Iterator[list]:
    path = _load()
    users, films = USER_INFO, {}
    with zipfile.ZipFile(path) as package:
        lines = package.read("ml-1m/ratings.dat").decode("latin-1").splitlines()
    # One draw for each line decides its side, so train and test never share a line.
    chosen = (np.random.RandomState(rand_seed).random_sample(len(lines)) < test_ratio) == is_test
    for place in np.flatnonzero(chosen):
        user, film, rating, _ = lines[place].split("::")
        if film not in films:
            films[film] = MOVIE_INFO[int(film)].value()
        index, categories, title = films[film]
        yield [*users[int(user)].value(), index, list(categories), list(title), [float(rating) * 2 - 5.0]]


def _reader_creator(**options: Any) -> Callable[[], Iterator[list]]:
    return functools.partial(_reader, **options)


train = functools.partial(_reader_creator, is_test=False)
test = functools.partial(_reader_creator, is_test=True)


def get_movie_title_dict() -> dict[str, int]:
    """Return title word -> id."""
    _load()
    return MOVIE_TITLE_DICT


def max_movie_id() -> int:
    """Return the largest film id."""
    _load()
    return max(MOVIE_INFO)


def max_user_id() -> int:
    """Return the largest user id."""
    _load()
    return max(USER_INFO)


def max_job_id() -> int:
    """Return the largest job id."""
    _load()
    return max(user.job_id for user in USER_INFO.values())


def movie_categories() -> dict[str, int]:
    """Return category name -> id."""
    _load()
    return CATEGORIES_DICT


def user_info() -> dict[int, UserInfo]:
    """Return user id -> UserInfo."""
    _load()
    return USER_INFO


def movie_info() -> dict[int, MovieInfo]:
    """Return film id -> MovieInfo."""
    _load()
    return MOVIE_INFO


def fetch() -> None:
    """Get the file."""
    common.download(URL, "movielens", MD5)


def convert(path: str) -> None:
    """RecordIO files cannot be written; raises the error of common.convert."""
    common.convert(path, None, 1000, "movielens_train")
