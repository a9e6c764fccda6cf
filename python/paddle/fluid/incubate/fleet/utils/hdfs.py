"""HDFSClient: files on HDFS, by the hadoop command of the user's installation.

Commands are lists of words and no shell reads them, so that any path is just a path. What failed is logged with the command and
what it said. Where a method answers yes or no, that is the answer; copies and lists that are not whole are errors.
"""

from __future__ import annotations

import logging
import os
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from paddle.fluid.incubate.fleet.base.fleet_base import share_of
from paddle.fluid.log_helper import get_logger

__all__ = ["HDFSClient"]

_PAUSE_SECONDS = 3.0  # between two tries
_logger = get_logger(__name__, logging.WARNING, fmt="%(asctime)s-%(levelname)s: %(message)s")


class HDFSClient:
    """Files on HDFS.

    Args:
        hadoop_home: the folder of the installation: `<hadoop_home>/bin/hadoop` is run.
        configs: settings, such as fs.default.name and hadoop.job.ugi.

    >>> from paddle.fluid.incubate.fleet.utils.hdfs import HDFSClient
    >>> client = HDFSClient("hadoop", {"fs.default.name": "hdfs://name:54310", "hadoop.job.ugi": "me,secret"})
    >>> client.pre_commands[:2]             # client.ls("/user/me") runs this with -ls /user/me
    ['hadoop/bin/hadoop', 'fs']
    """

    def __init__(self, hadoop_home: str, configs: dict[str, str]):
        self.pre_commands = [f"{hadoop_home}/bin/hadoop", "fs", *(f"-D{name}={value}" for name, value in configs.items())]

    def _run(self, words: list[str], retry_times: int = 5, quiet: bool = False, seconds: float | None = None) -> tuple[int, str]:
        """(exit status, output) of a command, which is tried again when it fails; `quiet`: to fail is an answer; `seconds`: it is
        ended after so many, all tries together.
        """
        command = [*self.pre_commands, *words]
        end = None if seconds is None else time.monotonic() + seconds
        for left in range(retry_times, -1, -1):
            try:
                done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
                                      timeout=None if end is None else max(end - time.monotonic(), 0.001))
            except subprocess.TimeoutExpired:
                done, left = subprocess.CompletedProcess(command, 124, "", f"It was ended after {seconds:g} s."), 0
            except OSError as error:
                raise FileNotFoundError(f"HDFSClient runs {command[0]!r}, which cannot be run: {error.strerror}. Is hadoop_home "
                                        "right?") from None
            if done.returncode == 0 or quiet:
                break
            secret = [word.partition("=")[0] + "=..." if word.startswith("-Dhadoop.job.ugi=") else word for word in command]
            _logger.warning("%s ended with %d: %s%s", " ".join(secret), done.returncode, done.stderr.strip()[-500:],
                            f" It is tried again in {_PAUSE_SECONDS:g} s." if left else "")
            if not left:
                break
            time.sleep(_PAUSE_SECONDS)
        return done.returncode, done.stdout

    def _test(self, what: str, path: str) -> bool:
        return self._run(["-test", what, path], 0, quiet=True)[0] == 0

    def cat(self, hdfs_path: str | None = None) -> str:
        """The text of a file, without blanks around it; empty when there is none.

        Args:
            hdfs_path: the file.
        """
        if not self.is_file(hdfs_path):
            return ""
        status, output = self._run(["-cat", hdfs_path], 1)
        return "" if status else output.strip()

    def is_exist(self, hdfs_path: str | None = None) -> bool:
        """Is there such a file or folder?

        Args:
            hdfs_path: its path.
        """
        return self._test("-e", hdfs_path)

    def is_dir(self, hdfs_path: str | None = None) -> bool:
        """Is there such a folder?

        Args:
            hdfs_path: its path.
        """
        return self._test("-d", hdfs_path)

    def is_file(self, hdfs_path: str | None = None) -> bool:
        """Is there such a file?

        Args:
            hdfs_path: its path.
        """
        return self.is_exist(hdfs_path) and not self.is_dir(hdfs_path)

    def delete(self, hdfs_path: str) -> bool:
        """Removes a file or a folder. True: it is not there any more.

        Args:
            hdfs_path: its path.
        """
        if not self.is_exist(hdfs_path):
            return True
        return self._run(["-rmr" if self.is_dir(hdfs_path) else "-rm", hdfs_path], 0)[0] == 0

    def rename(self, hdfs_src_path: str, hdfs_dst_path: str, overwrite: bool = False) -> bool:
        """Moves a file or a folder. False: it was not moved.

        Args:
            hdfs_src_path: from where.
            hdfs_dst_path: to where.
            overwrite: remove what is there.
        """
        if not self.is_exist(hdfs_src_path):
            _logger.error("HDFS path do not exist: %s", hdfs_src_path)
            return False
        if self.is_exist(hdfs_dst_path):
            if not overwrite:
                _logger.error("HDFS path is exist: %s and overwrite=False", hdfs_dst_path)
                return False
            self.delete(hdfs_dst_path)
        return self._run(["-mv", hdfs_src_path, hdfs_dst_path], 1)[0] == 0

    @staticmethod
    def make_local_dirs(local_path: str) -> None:
        """Makes a folder on this machine, with those above it.

        Args:
            local_path: its path.
        """
        os.makedirs(local_path, exist_ok=True)

    def makedirs(self, hdfs_path: str) -> bool:
        """Makes a folder, with those above it. True: it is there.

        Args:
            hdfs_path: its path.
        """
        if self.is_dir(hdfs_path):
            return True
        # Hadoop 1 makes the folders above by itself and knows no -p.
        return self._run(["-mkdir", "-p", hdfs_path], 0)[0] == 0 or self._run(["-mkdir", hdfs_path], 1)[0] == 0

    def ls(self, hdfs_path: str) -> list[str]:
        """The paths in a folder.

        Args:
            hdfs_path: the folder.
        """
        return [path for _, _, path in self._list("-ls", hdfs_path, 10)]

    def lsr(self, hdfs_path: str, excludes: list[str] | tuple = ()) -> list[str]:
        """The paths of all files in a folder and those below.

        Args:
            hdfs_path: the folder.
            excludes: paths to leave out.
        """
        found = self._list("-lsr", hdfs_path, 1)
        return [path for rights, _, path in found if not rights.startswith("d") and path not in excludes]

    def _list(self, command: str, path: str, retry_times: int) -> list[tuple[str, str, str]]:
        """(rights, time, path) of each line; a path may have blanks in it."""
        if not self.is_exist(path):
            return []
        status, output = self._run([command, path], retry_times)
        if status:
            raise RuntimeError(f"HDFS: {path!r} cannot be listed: `hadoop fs {command}` ended with {status}; the log has what it "
                               "said.")
        lines = [line.split(None, 7) for line in output.splitlines()]
        return [(words[0], f"{words[5]} {words[6]}", words[7]) for words in lines if len(words) == 8]

    @staticmethod
    def split_files(files: list, trainer_id: int, trainers: int) -> list:
        """The part of a list that one of several trainers reads.

        Args:
            files: the list.
            trainer_id: its number.
            trainers: how many there are.
        """
        return share_of(files, trainer_id, trainers)

    def download(self, hdfs_path: str, local_path: str, multi_processes: int = 5, overwrite: bool = False,
                 retry_times: int = 5) -> list[str]:
        """Copies the files of a folder here, several at a time. Returns the paths of all files in the local folder; an error names
        those that could not be copied.

        Args:
            hdfs_path: the folder on HDFS.
            local_path: the folder here.
            multi_processes: how many at a time.
            overwrite: also those that are here already.
            retry_times: how often to try again.
        """
        self.make_local_dirs(local_path)

        def get(path: str) -> bool:
            target = os.path.join(local_path, os.path.basename(path))
            if os.path.exists(target):
                if not overwrite:
                    return True
                os.remove(target)
            return self._run(["-get", path, local_path], retry_times)[0] == 0

        _copy_all("download", get, self.ls(hdfs_path), multi_processes)
        return [os.path.join(folder, name) for folder, _, names in os.walk(local_path) for name in names]

    def upload(self, hdfs_path: str, local_path: str, multi_processes: int = 5, overwrite: bool = False,
               retry_times: int = 5) -> None:
        """Copies a file, or the files of a folder, to HDFS, several at a time. An error names those that could not be copied.

        Args:
            hdfs_path: the folder on HDFS.
            local_path: the file or the folder here.
            multi_processes: how many at a time.
            overwrite: remove what is at hdfs_path first.
            retry_times: how often to try again.
        """
        if os.path.isdir(local_path):
            files = [os.path.join(local_path, name) for name in sorted(os.listdir(local_path))]
        else:
            files = [local_path] if os.path.exists(local_path) else []
        if not files:
            return
        if overwrite and self.is_exist(hdfs_path):
            self.delete(hdfs_path)
            self.makedirs(hdfs_path)
        _copy_all("upload", lambda path: self._run(["-put", path, hdfs_path], retry_times)[0] == 0, files, multi_processes)

    def upload_dir(self, dest_dir: str, local_dir: str, overwrite: bool = False) -> bool:
        """Copies a folder into another one on HDFS. False: it was not copied.

        Args:
            dest_dir: the folder on HDFS.
            local_dir: the folder here.
            overwrite: remove one of the same name first.
        """
        local_dir, dest_dir = local_dir.rstrip("/"), dest_dir.rstrip("/")
        target = f"{dest_dir}/{os.path.basename(local_dir)}"
        if overwrite and self.is_exist(target):
            self.delete(target)
        if not self.is_exist(dest_dir):
            self.makedirs(dest_dir)
        return self._run(["-put", local_dir, dest_dir])[0] == 0


def _copy_all(what: str, copy: Callable[[str], bool], paths: list[str], processes: int) -> None:
    with ThreadPoolExecutor(max(processes, 1)) as pool:
        check_copied(f"HDFSClient.{what}", [path for path, done in zip(paths, pool.map(copy, paths)) if not done], len(paths))


def check_copied(what: str, failed: list[str], n: int) -> None:
    """An error names files that were not copied."""
    if failed:
        few = ", ".join(failed[:5]) + (", ..." if len(failed) > 5 else "")
        raise RuntimeError(f"{what}: {len(failed)} of {n} files could not be copied: {few}. The log has what hadoop said.")
