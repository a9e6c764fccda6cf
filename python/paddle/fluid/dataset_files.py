"""The files of a data set: patterns, URLs, HDFS and Parquet. Files on this machine are read by the engine; for others it runs a
command whose text comes from a thread here, or from the user's hadoop.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import importlib
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

_HADOOP = ("hdfs:", "afs:")
_PARQUET = (".parquet", ".pq")
_CHUNK = 1 << 20
_LOOK_SECONDS = 0.02


class Source(NamedTuple):
    """A file: its name; the command that writes its text, None: it is read as it is; what it weighs in the progress."""

    name: str
    command: str | None
    bytes: int


def listed(paths: Sequence[str]) -> list[str]:
    """The paths on this machine that patterns stand for; those elsewhere stay as they are until they are read."""
    found: list[str] = []
    for path in map(os.fspath, paths):
        if "\0" in path:
            raise ValueError(f"set_filelist: the path {path!r} has a zero byte; no file has such a name.")
        if is_elsewhere(path) or not glob.has_magic(path) or os.path.exists(path):
            found.append(path)
            continue
        matches = sorted(glob.glob(path))
        if not matches:
            raise ValueError(f"set_filelist: no file is like {path!r}.")
        found += matches
    return found


def is_elsewhere(path: str) -> bool:
    """Is it a URL, or a path of HDFS?"""
    return ("://" in path or path.startswith(_HADOOP)) and not os.path.exists(path)


def need(package: str, why: str) -> Any:
    """The package, or an error that says how to get it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise ImportError(f"{why} needs the package {name}, which is not installed ({error}): pip install {name}, or "
                          "pip install 'cpaddle[data]'.") from None


class Files:
    """The sources of one data set, and the threads that feed those that are not read by the engine itself. `with` or close() ends
    them.
    """

    def __init__(self, dataset: Any):
        self._dataset = dataset
        self._pipe = "" if dataset.pipe_command in ("", "cat") else dataset.pipe_command
        self._folder: str | None = None
        self._is_closed = False
        self._feeds: dict[int, Callable[[], Iterator[bytes]]] = {}
        self._thread: threading.Thread | None = None
        try:
            self.sources = [source for path in dataset.filelist for source in self._sources_of(path)]
        except BaseException:
            self.close()
            raise
        if self._feeds:
            self._thread = threading.Thread(target=self._serve, name="data files", daemon=True)
            self._thread.start()

    def _sources_of(self, path: str) -> list[Source]:
        if not is_elsewhere(path):
            if not path.endswith(_PARQUET):
                return [Source(path, None, 0)]
            self._check_parquet(path)
            size = os.path.getsize(path) if os.path.exists(path) else 0
            return [self._fed(path, size, lambda: parquet_lines(path, self._dataset))]
        if path.startswith("afs:") or self._dataset.download_cmd or (path.startswith("hdfs:") and self._has_hadoop()):
            return [self._by_hadoop(each) for each in self._hadoop_list(path)]
        return self._by_fsspec(path)

    # ---- hadoop ----

    def _has_hadoop(self) -> bool:
        return bool(self._dataset.fs_name) or shutil.which(_hadoop_command()) is not None

    def _hadoop(self) -> list[str]:
        options = {"fs.default.name": self._dataset.fs_name, "hadoop.job.ugi": self._dataset.fs_ugi}
        return [_hadoop_command(), "fs", *(f"-D{key}={value}" for key, value in options.items() if value)]

    def _hadoop_list(self, path: str) -> list[str]:
        if not glob.has_magic(path) or self._dataset.download_cmd:
            return [path]
        command = [*self._hadoop(), "-ls", path]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise FileNotFoundError(f"{path!r} is listed by {command[0]!r}, which cannot be run: {error.strerror}. Install Hadoop, "
                                    "set HADOOP_HOME, or name a command with set_download_cmd.") from None
        found = [words[7] for words in (line.split(None, 7) for line in done.stdout.splitlines()) if len(words) == 8
                 and not words[0].startswith("d")]
        if done.returncode or not found:
            raise ValueError(f"set_filelist: no file is like {path!r}. {command[0]} fs -ls said: {done.stderr.strip()[-500:]}")
        return sorted(found)

    def _by_hadoop(self, path: str) -> Source:
        command = self._dataset.download_cmd or shlex.join([*self._hadoop(), "-cat"])
        text = f"{command} {shlex.quote(path)}"
        if not self._pipe:
            return Source(path, text, 1)
        end = shlex.quote(os.path.join(self._made_folder(), f"{os.urandom(8).hex()}.end"))
        return Source(path, _joined(f"rm -f {end}; {{ {text}\n}} && : > {end}", self._pipe, end, f"{command.split()[0]} failed"), 1)

    # ---- fsspec and Parquet ----

    def _by_fsspec(self, path: str) -> list[Source]:
        without = f" without the command {_hadoop_command()}, which is not there" if path.startswith(_HADOOP) else ""
        fsspec = need("fsspec", f"To read {path!r}{without}, a data set")
        try:
            system, inner = fsspec.core.url_to_fs(path)
            inners = sorted(system.glob(inner)) if glob.has_magic(inner) else [inner]
            sizes = [system.size(each) or 0 for each in inners]
        except (ImportError, ValueError, OSError) as error:
            kind = ImportError if isinstance(error, ImportError) else ValueError if isinstance(error, ValueError) else OSError
            raise kind(f"{path!r} cannot be read through fsspec: {type(error).__name__}: {error}") from None
        if not inners:
            raise ValueError(f"set_filelist: no file is like {path!r}.")
        return [self._fed(system.unstrip_protocol(each), size, self._feed_of(system, each)) for each, size in zip(inners, sizes)]

    def _feed_of(self, system: Any, path: str) -> Callable[[], Iterator[bytes]]:
        if path.endswith(_PARQUET):
            self._check_parquet(path)

        def chunks() -> Iterator[bytes]:
            with system.open(path, "rb") as file:
                if path.endswith(_PARQUET):
                    yield from parquet_lines(file, self._dataset)
                    return
                while chunk := file.read(_CHUNK):
                    yield chunk

        return chunks

    def _check_parquet(self, path: str) -> None:
        need("pyarrow.parquet", f"To read the Parquet file {path!r}, a data set")

    def _fed(self, name: str, size: int, feed: Callable[[], Iterator[bytes]]) -> Source:
        """A command asks for its file by number, and gets its bytes through a pipe of its own."""
        number, folder = len(self._feeds), self._made_folder()
        self._feeds[number] = feed
        base = os.path.join(folder, str(number))
        os.mkfifo(base)
        ask, pipe, end = (shlex.quote(each) for each in (os.path.join(folder, "ask"), base, base + ".end"))
        read = f"rm -f {end} {shlex.quote(base + '.error')}; echo {number} > {ask} && cat {pipe}"
        told = f"cat {shlex.quote(base + '.error')}"
        return Source(name, _joined(read, self._pipe or "cat", end, told=told), max(1, size))

    def _made_folder(self) -> str:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="paddle-data-")
            os.mkfifo(os.path.join(self._folder, "ask"))
        return self._folder

    def _serve(self) -> None:
        """Starts a thread for each file that is asked for."""
        ask = os.open(os.path.join(self._made_folder(), "ask"), os.O_RDWR)  # read and write: never at its end
        try:
            with os.fdopen(ask, "rb", buffering=0) as asked:
                rest = b""
                while not self._is_closed:
                    *lines, rest = (rest + asked.read(4096)).split(b"\n")
                    for line in lines:
                        if line.strip().isdigit():
                            threading.Thread(target=self._feed, args=(int(line),), name="data file", daemon=True).start()
        except OSError:  # the folder is gone
            pass

    def _feed(self, number: int) -> None:
        base = os.path.join(self._made_folder(), str(number))
        with contextlib.suppress(OSError):  # nobody reads any more
            with os.fdopen(self._opened(base), "wb", buffering=0) as pipe:
                try:
                    for chunk in self._feeds[number]():
                        view = memoryview(chunk)
                        while view:
                            view = view[pipe.write(view) :]
                except BrokenPipeError:
                    raise
                except Exception as error:
                    with open(base + ".error", "w") as file:
                        file.write(f"{type(error).__name__}: {error}\n")
                else:
                    open(base + ".end", "w").close()

    def _opened(self, path: str) -> int:
        """For writing, when the command reads."""
        while not self._is_closed:
            try:
                pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                time.sleep(_LOOK_SECONDS)
            else:
                os.set_blocking(pipe, True)
                return pipe
        raise OSError("closed")

    def close(self) -> None:
        """No more is read."""
        self._is_closed = True
        if self._folder is None:
            return
        if self._thread is not None:
            with contextlib.suppress(OSError):
                ask = os.open(os.path.join(self._folder, "ask"), os.O_WRONLY | os.O_NONBLOCK)
                os.write(ask, b"\n")
                os.close(ask)
            self._thread.join(1)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()


def _hadoop_command() -> str:
    home = os.environ.get("HADOOP_HOME", "")
    return os.path.join(home, "bin", "hadoop") if home else "hadoop"


def _joined(read: str, pipe: str, end: str, what: str = "", told: str = "") -> str:
    """`read | pipe` as a shell command that fails when either does: what is read whole leaves the file `end`."""
    return (f"{{ {read}\n}} | {{ {pipe}\n}}\nstatus=$?; [ $status = 0 ] || exit $status; "
            f"[ -e {end} ] || {{ {told or f'echo {shlex.quote(what)}'} >&2; exit 1; }}")


# ---- Parquet ----


def parquet_lines(file: Any, dataset: Any) -> Iterator[bytes]:
    """The rows of a Parquet file as lines: the columns that are named as the variables, in their order."""
    pyarrow, parquet = need("pyarrow", "A Parquet file"), need("pyarrow.parquet", "A Parquet file")
    opened = parquet.ParquetFile(file)
    words = [name for name, wanted in (("ins_id", dataset.parse_ins_id), ("content", dataset.parse_content)) if wanted]
    names = words + [name for name, *_ in dataset._slots()]
    there = opened.schema_arrow.names
    for name in names:
        if name not in there:
            raise ValueError(f"the Parquet file has no column {name!r}, which set_use_var asks for; it has {', '.join(there)}")
    kinds = [None] * len(words) + [is_float for _, is_float, _ in dataset._slots()]
    for rows in opened.iter_batches(columns=names):
        columns = [_column_text(pyarrow, name, rows.column(rows.schema.get_field_index(name)), kind)
                   for name, kind in zip(names, kinds)]
        lines = pyarrow.compute.binary_join_element_wise(*columns, " ")
        whole = pyarrow.ListArray.from_arrays(pyarrow.array([0, len(lines)], pyarrow.int32()), lines)
        if len(lines):
            yield pyarrow.compute.binary_join(whole, "\n")[0].as_buffer().to_pybytes() + b"\n"


def _column_text(pyarrow: Any, name: str, column: Any, is_float: bool | None) -> Any:
    """"<count> <numbers>" of each row. What is null, or an empty list, is a zero."""
    compute, types = importlib.import_module("pyarrow.compute"), pyarrow.types
    if is_float is None:  # an id, or a text
        return compute.binary_join_element_wise("1", compute.fill_null(column.cast(pyarrow.string()), "-"), " ")
    kind = column.type
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    value = kind.value_type if is_list else kind
    is_whole = types.is_integer(value) or types.is_boolean(value)
    if not (is_whole or (is_float and (types.is_floating(value) or types.is_decimal(value)))):
        raise ValueError(f"column {name!r} of the Parquet file is of type {kind}; its variable takes "
                         f"{'numbers' if is_float else 'whole numbers'}, or lists of them")
    number = pyarrow.float32() if is_float else value if types.is_integer(value) else pyarrow.int8()

    def texts(array: Any) -> Any:
        return compute.fill_null(array.cast(number, safe=False).cast(pyarrow.string()), "0")

    if not is_list:
        return compute.binary_join_element_wise("1", texts(column), " ")
    counts = compute.fill_null(compute.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype("int64")
    offsets = pyarrow.array([0, *counts.cumsum().tolist()], pyarrow.int32())
    joined = compute.binary_join(pyarrow.ListArray.from_arrays(offsets, texts(column.flatten())), " ")
    long = compute.binary_join_element_wise(pyarrow.array(counts).cast(pyarrow.string()), joined, " ")
    return compute.if_else(pyarrow.array(counts == 0), "1 0", long)
