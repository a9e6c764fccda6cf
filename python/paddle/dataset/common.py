"""Files of the data sets: where they lie, how they get there, and helpers to cut data into files.

download() is the one door: a file in the cache folder, else the stand-in if it was asked for, else the
network.
"""

from __future__ import annotations

import glob
import hashlib
import importlib
import os
import pickle
import sys
import warnings
from typing import Any, Callable, Iterable, Iterator, Sequence

__all__ = ["DATA_HOME", "download", "md5file", "split", "cluster_files_reader", "convert"]

Reader = Callable[[], Iterable[Any]]

DATA_HOME = os.path.expanduser(os.environ.get("PADDLE_DATASET_HOME") or "~/.cache/paddle/dataset")

TRIES = 3
TIMEOUT_S = 10.0

_md5_seen: dict[tuple[str, int, int], str] = {}
_said: set[str] = set()


def must_mkdirs(path: str) -> None:
    """Make a folder and those above it, if they are not there."""
    os.makedirs(path, exist_ok=True)


def md5file(fname: str) -> str:
    """Return the md5 of a file in hex."""
    digest = hashlib.md5()
    with open(fname, "rb") as data:
        while chunk := data.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _md5_once(path: str) -> str:
    """md5file, but once for each state of a file: some files are gigabytes and are asked for often."""
    state = os.stat(path)
    key = (path, state.st_size, state.st_mtime_ns)
    if key not in _md5_seen:
        _md5_seen[key] = md5file(path)
    return _md5_seen[key]


def _file_name(url: str, save_name: str | None) -> str:
    return save_name or url.split("/")[-1]


def _cached(url: str, module_name: str, md5sum: str | None, save_name: str | None) -> str | None:
    """Find a file in the cache folder under its old name or the later one with %2F, the right md5 first."""
    name = _file_name(url, save_name)
    prefix = f"{module_name}%2F"
    other = name[len(prefix) :] if name.startswith(prefix) else prefix + name
    names = dict.fromkeys((name, other, _file_name(url, None)))
    paths = [os.path.join(DATA_HOME, module_name, each) for each in names]
    paths = [path for path in paths if os.path.isfile(path)]
    if not paths or not md5sum:
        return paths[0] if paths else None
    found = [_md5_once(path) for path in paths]
    if md5sum in found:
        return paths[found.index(md5sum)]
    if paths[0] not in _said:
        _said.add(paths[0])
        warnings.warn(
            f"paddle.dataset: {paths[0]} has md5 {found[0]}, expected is {md5sum}. It is used as it is.",
            stacklevel=3,
        )
    return paths[0]


def _stand_in(module_name: str, name: str) -> str | None:
    """Make the stand-in of a file, or None where there is none. Says so once for each file."""
    from paddle.dataset import synthetic

    path = synthetic.file_for(os.path.join(DATA_HOME, "synthetic"), module_name, name)
    real = os.path.join(DATA_HOME, module_name, name)
    if path is not None and real not in _said:
        _said.add(real)
        print(f"paddle.dataset: synthetic data are used instead of {real}", file=sys.stderr)
    return path


def _synthetic_wanted() -> bool:
    return os.environ.get("PADDLE_DATASET_SYNTHETIC", "").lower() not in ("", "0", "false", "off", "no")


def _load(url: str, path: str, md5sum: str | None) -> str | None:
    """Download once, aside, and rename. Returns what went wrong, or None."""
    import http.client
    import shutil
    import urllib.request

    part = f"{path}.part{os.getpid()}"
    try:
        must_mkdirs(os.path.dirname(path))
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer, open(part, "wb") as out:
            shutil.copyfileobj(answer, out)
        got = md5file(part)
        if md5sum and got != md5sum:
            return f"what came has md5 {got}"
        os.replace(part, path)
        return None
    except (OSError, ValueError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    finally:
        if os.path.exists(part):
            os.remove(part)


def download(url: str, module_name: str, md5sum: str | None, save_name: str | None = None) -> str:
    """Return the path of a data file; fetch it if it is not in the cache folder.

    A cached file with another md5 is used, with a warning. RuntimeError says what to put where when the
    file cannot be had.
    """
    path = _cached(url, module_name, md5sum, save_name)
    name = _file_name(url, save_name)
    if path is None and _synthetic_wanted():
        path = _stand_in(module_name, name)
    if path is not None:
        return path

    path = os.path.join(DATA_HOME, module_name, name)
    print(f"paddle.dataset: {path} is not there, downloading {url}", file=sys.stderr)
    for _ in range(TRIES):
        wrong = _load(url, path, md5sum)
        if wrong is None:
            return path
    from paddle.dataset import synthetic

    hint = ""
    if synthetic.has(module_name, name):
        hint = " Or set PADDLE_DATASET_SYNTHETIC=1 to work with a small made-up stand-in of the same layout."
    raise RuntimeError(
        f"paddle.dataset: cannot download {url} ({TRIES} tries, the last: {wrong}). "
        f"Put that file (md5 {md5sum}) at {path}.{hint}"
    )


def download_set(module_name: str, files: Sequence[tuple[str, str]]) -> list[str]:
    """Return the paths of files (URL, md5) that belong together: all real, or all stand-ins."""
    if _synthetic_wanted() and not all(_cached(url, module_name, md5, None) for url, md5 in files):
        made = [_stand_in(module_name, _file_name(url, None)) for url, _ in files]
        if all(made):
            return [path for path in made if path]
    return [download(url, module_name, md5) for url, md5 in files]


def fetch_all() -> None:
    """Fetch the files of every data set."""
    package = importlib.import_module("paddle.dataset")
    for name in package.__all__:
        module = importlib.import_module(f"paddle.dataset.{name}")
        if hasattr(module, "fetch"):
            module.fetch()


def fetch_all_recordio(path: str) -> None:
    """RecordIO files cannot be written; raises the error of `convert`."""
    convert(path, None, 1, "paddle.dataset")


def split(
    reader: Reader,
    line_count: int,
    suffix: str = "%05d.pickle",
    dumper: Callable[[Any, Any], Any] = pickle.dump,
) -> None:
    """Write a reader's samples to files of `line_count` samples.

    `suffix % number` names a file; `dumper(samples, file)` writes it.
    """
    from paddle.batch import batch

    if not callable(dumper):
        raise TypeError(f"common.split: dumper must be a function, got {type(dumper).__name__}.")
    for number, samples in enumerate(batch(reader, line_count)()):
        _with_file(suffix % number, "w", lambda out, samples=samples: dumper(samples, out))


def cluster_files_reader(
    files_pattern: str,
    trainer_count: int,
    trainer_id: int,
    loader: Callable[[Any], Iterable[Any]] = pickle.load,
) -> Reader:
    """Read this trainer's share of the files that `split` wrote: every `trainer_count`-th of them."""
    if not callable(loader):
        raise TypeError(
            f"common.cluster_files_reader: loader must be a function, got {type(loader).__name__}."
        )

    def reader() -> Iterator[Any]:
        for path in sorted(glob.glob(files_pattern))[trainer_id::trainer_count]:
            yield from _with_file(path, "r", loader)

    return reader


def _with_file(path: str, mode: str, work: Callable[[Any], Any]) -> Any:
    """Call `work` with an open file: bytes, or text if it cannot do with bytes.

    Functions given by users come from Python 2, where a file took both.
    """
    try:
        with open(path, f"{mode}b") as binary:
            return work(binary)
    except TypeError:
        with open(path, mode) as text:
            return work(text)


def convert(output_path: str, reader: Any, line_count: int, name_prefix: str) -> None:
    """RecordIO files cannot be written; this raises an error that says what to use."""
    raise RuntimeError(
        f"paddle.dataset: cannot write RecordIO files {os.path.join(str(output_path), name_prefix)}-*: "
        "the format is not in this build. "
        "Use paddle.dataset.common.split, and cluster_files_reader to read its files."
    )
