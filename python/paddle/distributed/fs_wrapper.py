"""The file systems that checkpoints go to: folders of this machine, and HDFS by the command `hadoop`.

fluid.incubate.fleet.utils has clients with more methods: fs.LocalFS and hdfs.HDFSClient.
"""

from __future__ import annotations

import functools
import os
import shutil

from paddle.fluid.incubate.fleet.utils import fs, hdfs

__all__ = ["FS", "LocalFS", "BDFS"]

_TRIED_EVERY_S = 3.0  # by HDFSClient


class FS:
    """What a file system for checkpoints answers. A class of your own fills all of it."""

    def list_dirs(self, fs_path: str) -> list[str]:
        """The names of folders in a folder; none when it is not there.

        Args:
            fs_path: its path.
        """
        raise NotImplementedError

    def ls_dir(self, fs_path: str) -> list[str] | tuple[list[str], list[str]]:
        """What is in a folder.

        Args:
            fs_path: its path.
        """
        raise NotImplementedError

    def stat(self, fs_path: str) -> bool:
        """Is there such a file or folder?

        Args:
            fs_path: its path.
        """
        raise NotImplementedError

    def upload(self, local_path: str, fs_path: str) -> None:
        """Copies a file or a folder to there.

        Args:
            local_path: the path here.
            fs_path: its path.
        """
        raise NotImplementedError

    def download(self, fs_path: str, local_path: str) -> None:
        """Copies a file or a folder to here.

        Args:
            fs_path: its path.
            local_path: the path here.
        """
        raise NotImplementedError

    def mkdir(self, fs_path: str) -> None:
        """Makes a folder, with those above it.

        Args:
            fs_path: its path.
        """
        raise NotImplementedError

    def mv(self, fs_src_path: str, fs_dst_path: str) -> None:
        """Gives a file or a folder another name.

        Args:
            fs_src_path: the name it has.
            fs_dst_path: the new one.
        """
        raise NotImplementedError

    def rmr(self, fs_path: str) -> None:
        """Removes a folder.

        Args:
            fs_path: its path.
        """
        raise NotImplementedError

    def rm(self, fs_path: str) -> None:
        """Removes a file.

        Args:
            fs_path: its path.
        """
        raise NotImplementedError

    def delete(self, fs_path: str) -> None:
        """Removes a file or a folder, if it is there.

        Args:
            fs_path: its path.
        """
        raise NotImplementedError

    def need_upload_download(self) -> bool:
        """Must files be copied to be read here?"""
        raise NotImplementedError


class LocalFS(FS):
    """The file system of this machine.

    >>> from paddle.distributed.fs_wrapper import LocalFS
    >>> fs = LocalFS()
    >>> fs.mkdir("models/0")
    >>> fs.list_dirs("models"), fs.stat("models/1")
    (['0'], False)
    >>> fs.delete("models")
    """

    _files = fs.LocalFS()

    def list_dirs(self, fs_path: str) -> list[str]:
        return self._files.list_dirs(fs_path)

    def ls_dir(self, fs_path: str) -> list[str]:
        """The names in a folder.

        Args:
            fs_path: its path.
        """
        return os.listdir(fs_path)

    def stat(self, fs_path: str) -> bool:
        return self._files.is_exist(fs_path)

    def upload(self, local_path: str, fs_path: str) -> None:
        self._files.upload(local_path, fs_path)

    def download(self, fs_path: str, local_path: str) -> None:
        self._files.download(fs_path, local_path)

    def mkdir(self, fs_path: str) -> None:
        self._files.mkdirs(fs_path)

    def mv(self, fs_src_path: str, fs_dst_path: str) -> None:
        self._files.rename(fs_src_path, fs_dst_path)

    def rmr(self, fs_path: str) -> None:
        shutil.rmtree(fs_path)

    def rm(self, fs_path: str) -> None:
        os.remove(fs_path)

    def delete(self, fs_path: str) -> None:
        self._files.delete(fs_path)

    def need_upload_download(self) -> bool:
        return False


class BDFS(FS):
    """HDFS, by the command `hadoop` of PATH. What fails is tried again every 3 s, and raises in the end.

    Args:
        hdfs_name: fs.default.name.
        hdfs_ugi: hadoop.job.ugi.
        time_out: how many milliseconds a command may take, all tries together; 0: it is tried once, and takes as long as it takes.
        sleep_inter: has no effect.
    """

    def __init__(self, hdfs_name: str, hdfs_ugi: str, time_out: int = 20 * 60 * 1000, sleep_inter: int = 1000):
        self._configs = {"fs.default.name": hdfs_name, "hadoop.job.ugi": hdfs_ugi}
        self._tries = int(time_out / 1000 / _TRIED_EVERY_S)
        self._seconds = time_out / 1000 or None

    @functools.cached_property
    def _client(self) -> hdfs.HDFSClient:
        command = shutil.which("hadoop")
        if command is None:
            raise FileNotFoundError("BDFS runs the command `hadoop`, which is in no folder of PATH.")
        client = hdfs.HDFSClient("", self._configs)
        client.pre_commands[0] = command
        return client

    def _do(self, *words: str) -> None:
        status, _ = self._client._run(list(words), self._tries, seconds=self._seconds)
        if status:
            raise RuntimeError(f"`hadoop fs {' '.join(words)}` ended with {status}; the log has what it said.")

    def list_dirs(self, fs_path: str) -> list[str]:
        return self.ls_dir(fs_path)[0]

    def ls_dir(self, fs_path: str) -> tuple[list[str], list[str]]:
        """The names of folders and of files in a folder; both empty when there is none.

        Args:
            fs_path: its path.
        """
        found = [(rights, os.path.basename(path)) for rights, _, path in self._client._list("-ls", fs_path, self._tries)]
        return ([name for rights, name in found if rights.startswith("d")],
                [name for rights, name in found if not rights.startswith("d")])

    def is_dir(self, fs_path: str) -> bool:
        """Is there such a folder?

        Args:
            fs_path: its path.
        """
        return self._client.is_dir(fs_path)

    def stat(self, fs_path: str) -> bool:
        return self._client.is_exist(fs_path)

    def upload(self, local_path: str, fs_path: str) -> None:
        self._do("-put", local_path, fs_path)

    def download(self, fs_path: str, local_path: str) -> None:
        self._do("-get", fs_path, local_path)

    def mkdir(self, fs_path: str) -> None:
        if not self._client.makedirs(fs_path):
            raise RuntimeError(f"`hadoop fs -mkdir {fs_path}` failed; the log has what it said.")

    def mv(self, fs_src_path: str, fs_dst_path: str) -> None:
        self._do("-mv", fs_src_path, fs_dst_path)

    def rmr(self, fs_path: str) -> None:
        if self.stat(fs_path):
            self._do("-rmr", fs_path)

    def rm(self, fs_path: str) -> None:
        if self.stat(fs_path):
            self._do("-rm", fs_path)

    def delete(self, fs_path: str) -> None:
        if self.is_dir(fs_path):
            self.rmr(fs_path)
        else:
            self.rm(fs_path)

    def need_upload_download(self) -> bool:
        return True
