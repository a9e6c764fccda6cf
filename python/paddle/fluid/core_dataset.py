"""fluid.core.Dataset: the engine's data set, with the names of settings that upstream's has."""

from __future__ import annotations

import warnings

from paddle import _core


class Dataset(_core.Dataset):
    """What `dataset` of a data set of fluid.DatasetFactory is. Settings that are made here and not there are kept, without effect.

    Args:
        kind: "MultiSlotDataset"; or whether samples are in memory.
    """

    def __new__(cls, kind: str | bool = "MultiSlotDataset"):
        if isinstance(kind, str) and kind != "MultiSlotDataset":
            raise ValueError(f"There is no data set {kind!r}; there is MultiSlotDataset.")
        return super().__new__(cls, True if isinstance(kind, str) else kind)

    def __init__(self, kind: str | bool = "MultiSlotDataset"):
        self._thread_num, self._trainer_num = 1, 1
        self._filelist: list[str] = []
        self._hdfs_config, self._download_cmd = ("", ""), ""
        self.has_ids = False  # lines have ids
        self.merge_size = -1  # how many samples of one id become one; -1: they do not

    def set_thread_num(self, thread_num: int) -> None:
        self._thread_num = thread_num

    def get_thread_num(self) -> int:
        return self._thread_num

    def set_trainer_num(self, trainer_num: int) -> None:
        self._trainer_num = trainer_num

    def get_trainer_num(self) -> int:
        return self._trainer_num

    def set_filelist(self, filelist: list[str]) -> None:
        self._filelist = list(filelist)

    def get_filelist(self) -> list[str]:
        return self._filelist

    def set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:
        self._hdfs_config = (fs_name, fs_ugi)

    def get_hdfs_config(self) -> tuple[str, str]:
        return self._hdfs_config

    def set_download_cmd(self, download_cmd: str) -> None:
        self._download_cmd = download_cmd

    def get_download_cmd(self) -> str:
        return self._download_cmd

    def merge_by_lineid(self) -> None:
        """Makes one sample of those with one id, as set_merge_by_lineid of the data set has said; else nothing."""
        if self.merge_size < 0 or not self.has_ids:
            return
        left_out = self.merge(self.merge_size)
        if left_out:
            warnings.warn(f"{left_out} samples were left out: their ids do not have {self.merge_size} samples.", stacklevel=2)
