"""LocalFS: files of this machine by the names that clients of other file systems have."""

from __future__ import annotations

import os
import shutil

__all__ = ["LocalFS"]


class LocalFS:
    """The file system of this machine.

    >>> from paddle.fluid.incubate.fleet.utils.fs import LocalFS
    >>> fs = LocalFS()
    >>> fs.mkdirs("models/0")
    >>> fs.touch("models/0/done")
    >>> fs.ls_dir("models/0")
    ([], ['done'])
    >>> fs.delete("models")
    """

    def ls_dir(self, fs_path: str) -> tuple[list[str], list[str]]:
        """The names of folders and of files in a folder; both empty when there is none.

        Args:
            fs_path: its path.
        """
        if not self.is_exist(fs_path):
            return [], []
        names = sorted(os.listdir(fs_path))
        folders = [name for name in names if os.path.isdir(os.path.join(fs_path, name))]
        return folders, [name for name in names if name not in folders]

    def list_dirs(self, fs_path: str) -> list[str]:
        """The names of folders in a folder.

        Args:
            fs_path: its path.
        """
        return self.ls_dir(fs_path)[0]

    def mkdirs(self, fs_path: str) -> None:
        """Makes a folder, with those above it.

        Args:
            fs_path: its path.
        """
        os.makedirs(fs_path, exist_ok=True)

    def is_exist(self, fs_path: str) -> bool:
        """Is there such a file or folder?

        Args:
            fs_path: its path.
        """
        return os.path.exists(fs_path)

    def is_dir(self, fs_path: str) -> bool:
        """Is there such a folder?

        Args:
            fs_path: its path.
        """
        return os.path.isdir(fs_path)

    def is_file(self, fs_path: str) -> bool:
        """Is there such a file?

        Args:
            fs_path: its path.
        """
        return os.path.isfile(fs_path)

    def delete(self, fs_path: str) -> None:
        """Removes a file or a folder, if it is there.

        Args:
            fs_path: its path.
        """
        if os.path.isdir(fs_path) and not os.path.islink(fs_path):
            shutil.rmtree(fs_path)
        elif os.path.lexists(fs_path):
            os.remove(fs_path)

    def touch(self, fs_path: str, exist_ok: bool = True) -> None:
        """Makes an empty file.

        Args:
            fs_path: its path.
            exist_ok: it may be there already.
        """
        with open(fs_path, "a" if exist_ok else "x"):
            pass

    def rename(self, fs_src_path: str, fs_dst_path: str) -> None:
        """Gives a file or a folder another name.

        Args:
            fs_src_path: the name it has.
            fs_dst_path: the new one.
        """
        os.rename(fs_src_path, fs_dst_path)

    def mv(self, src_path: str, dst_path: str, overwrite: bool = False) -> None:
        """The same; what has that name already is an error, or is removed.

        Args:
            src_path: the name it has.
            dst_path: the new one.
            overwrite: remove what has that name.
        """
        if not self.is_exist(src_path):
            raise FileNotFoundError(f"mv: there is no {src_path!r}.")
        if self.is_exist(dst_path):
            if not overwrite:
                raise FileExistsError(f"mv: {dst_path!r} is there already; overwrite=True removes it.")
            self.delete(dst_path)
        self.rename(src_path, dst_path)

    def upload(self, local_path: str, fs_path: str) -> None:
        """Copies a file or a folder to there.

        Args:
            local_path: the path here.
            fs_path: its path.
        """
        copy = shutil.copytree if os.path.isdir(local_path) else shutil.copy2
        copy(local_path, fs_path)

    def download(self, fs_path: str, local_path: str) -> None:
        """Copies a file or a folder to here.

        Args:
            fs_path: its path.
            local_path: the path here.
        """
        self.upload(fs_path, local_path)

    def need_upload_download(self) -> bool:
        """Must files be copied to be read here?"""
        return False
