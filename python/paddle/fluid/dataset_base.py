"""DatasetBase: what all data sets of text files have, files, variables and batches."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Sequence
from typing import Any

from paddle.fluid import core, dataset_files
from paddle.fluid.core_dataset import Dataset
from paddle.fluid.data_feeder import convert_dtype
from paddle.fluid.framework import Variable

_KINDS = {core.VarDesc.VarType.FP32: "float", core.VarDesc.VarType.INT64: "uint64"}


class DatasetBase:
    """What all data sets have: files, variables, batches."""

    _in_memory = False
    _feed = "MultiSlotDataFeed"

    def __init__(self):
        self.pipe_command = "cat"
        self.batch_size = 32
        self.thread_num = 1
        self.filelist: list[str] = []
        self.use_var: list[Variable] = []
        self.rank_offset: str | None = None
        self.pv_batch_size: int | None = None
        self.download_cmd = ""
        self.fs_name = self.fs_ugi = ""
        self.parse_ins_id = self.parse_content = False
        self.dataset = Dataset(self._in_memory)
        self._lines: tuple | None = None  # what the engine knows of them
        self._files: dataset_files.Files | None = None  # those that are read now
        self._handing = threading.Lock()  # settings go to the engine as one

    # ---- settings ----

    def set_pipe_command(self, pipe_command: str) -> None:
        """A shell command through which each file goes before its lines are read, for example ``"zcat"`` or
        ``"python my_data_generator.py"``. One that fails ends the run, with what it said.

        Args:
            pipe_command: the command; "cat" reads the files themselves.
        """
        self.pipe_command = pipe_command

    def set_batch_size(self, batch_size: int) -> None:
        """Samples of a batch. The last batch of a pass may have fewer.

        Args:
            batch_size: 1 or more; 32 where it is not set.
        """
        if _number(batch_size, "set_batch_size") < 1:
            raise ValueError(f"set_batch_size({batch_size}): a batch has 1 sample or more.")
        self.batch_size = int(batch_size)

    def set_thread(self, thread_num: int) -> None:
        """How many threads read, and train where train_from_dataset is not told otherwise.

        Args:
            thread_num: 1 or more.
        """
        if _number(thread_num, "set_thread") < 1:
            raise ValueError(f"set_thread({thread_num}): give 1 thread or more.")
        self.thread_num = int(thread_num)

    def set_filelist(self, filelist: Sequence[str]) -> None:
        """The files, each a path or a pattern such as ``"train/part-*"``; also URLs (``"s3://bucket/part-*"``: where fsspec is
        installed), paths of HDFS (by the hadoop command) and Parquet files (where pyarrow is). docs/DATA.md tells more.

        Args:
            filelist: a list of them.
        """
        if isinstance(filelist, str | os.PathLike):
            raise TypeError(f"set_filelist wants a list of paths, found {filelist!r}; write [{str(filelist)!r}].")
        self.filelist = dataset_files.listed(filelist)

    def set_use_var(self, var_list: Sequence[Variable]) -> None:
        """The variables that lines fill, in their order on a line. A variable with ``lod_level=0`` is dense: its shape says how
        many numbers it has.

        Args:
            var_list: variables of type float32 or int64.
        """
        for var in var_list:
            if not isinstance(var, Variable):
                raise TypeError(f"set_use_var wants Variables, found {var!r}.")
            if var.dtype not in _KINDS:
                raise ValueError("Currently, fluid.dataset only supports dtype=float32 and dtype=int64; "
                                 f"{var.name} is {convert_dtype(var.dtype)}")
        self.use_var = list(var_list)

    def set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:
        """Where files lie whose paths begin with ``hdfs:`` or ``afs:``; they are read by ``hadoop fs -cat``.

        Args:
            fs_name: its name, "hdfs://host:port".
            fs_ugi: user and password, "me,secret".
        """
        self.fs_name, self.fs_ugi = fs_name, fs_ugi

    def set_download_cmd(self, download_cmd: str) -> None:
        """A command that writes a file whose path begins with ``hdfs:`` or ``afs:``; it gets the path as its last word.

        Args:
            download_cmd: the command.
        """
        self.download_cmd = download_cmd

    def set_rank_offset(self, rank_offset: str) -> None:
        """The name of the variable that has the ranks of page views.

        Args:
            rank_offset: its name.
        """
        self.rank_offset = rank_offset

    def set_pv_batch_size(self, pv_batch_size: int) -> None:
        """Page views of a batch, where samples are merged by page view.

        Args:
            pv_batch_size: how many.
        """
        self.pv_batch_size = int(pv_batch_size)

    def set_fea_eval(self, record_candidate_size: int, fea_eval: bool = True) -> None:
        """Allows slots_shuffle.

        Args:
            record_candidate_size: how many samples upstream kept to choose from; all are chosen from here.
            fea_eval: whether.
        """
        self.fea_eval = fea_eval

    def slots_shuffle(self, slots: Sequence[str]) -> None:
        """Gives the numbers of these variables to other samples, at random: what are they worth to a model?

        Args:
            slots: names of variables.
        """
        raise NotImplementedError("slots_shuffle needs samples in memory: use InMemoryDataset.")

    def desc(self) -> str:
        """The settings as upstream's DataFeedDesc, in text.

        Examples:
            .. code-block:: python

                import paddle.fluid as fluid

                print(fluid.DatasetFactory().create_dataset().desc())
        """
        lines = [f'name: "{self._feed}"', f"batch_size: {self.batch_size}"]
        if self.use_var:
            lines.append("multi_slot_desc {")
            for var in self.use_var:
                lines += ["  slots {", f'    name: "{var.name}"', f'    type: "{_KINDS[var.dtype]}"']
                if var.lod_level == 0:
                    lines.append("    is_dense: true")
                lines.append("    is_used: true")
                if var.lod_level == 0:
                    lines += [f"    shape: {size}" for size in var.shape]
                lines.append("  }")
            lines.append("}")
        lines.append(f'pipe_command: "{self.pipe_command}"')
        lines.append(f"thread_num: {self.thread_num}")
        if self.rank_offset is not None:
            lines.append(f'rank_offset: "{self.rank_offset}"')
        if self.pv_batch_size is not None:
            lines.append(f"pv_batch_size: {self.pv_batch_size}")
        return "\n".join(lines) + "\n"

    # ---- for the Executor ----

    def _hand_over(self) -> None:
        """Gives the settings to the engine, which refuses them while the data set is in use."""
        self._check_vars()
        with self._handing:
            self.dataset.use_command(self.pipe_command)
            self._open_files()
            self.dataset.set_sizes(self.batch_size, self.thread_num)
        self._hand_over_lines()

    def _check_vars(self) -> None:
        if not self.use_var:
            raise ValueError("The data set has no variables to fill: name them with set_use_var.")

    def _hand_over_lines(self) -> None:
        self._check_vars()
        with self._handing:
            slots = self._slots()
            lines = (self.parse_ins_id, self.parse_content, slots)
            if lines != self._lines:  # others than those of samples in memory are refused
                self.dataset.use_slots(slots)
                self.dataset.expect(self.parse_ins_id, self.parse_content)
                self._lines = lines
                self.dataset.has_ids = self.parse_ins_id

    def _slots(self) -> list[tuple]:
        return [(var.name, var.dtype == core.VarDesc.VarType.FP32, list(var.shape) if var.lod_level == 0 else None)
                for var in self.use_var]

    def _open_files(self) -> None:
        if not self.filelist:
            raise ValueError("The data set has no files: give some with set_filelist.")
        files = dataset_files.Files(self)
        try:
            self.dataset.use_sources([tuple(source) for source in files.sources])
        except BaseException:  # it is in use, with those of before
            files.close()
            raise
        self._close_files()
        self._files = files

    def _is_left_out(self, then: str, callers: int = 2) -> bool:
        """Has it no files? That is told, and no error, as in 1.8.5: a worker's part of the files may be none. `callers`: how many
        functions of the package the script's line is away."""
        self._check_vars()
        if self.filelist:
            return False
        warnings.warn(f"This data set has no files (set_filelist), so {then} here.", stacklevel=callers + 2)
        return True

    def _has_no_part(self) -> bool:
        """Is there nothing to train on, in a worker that goes on all the same? That is told."""
        return not self.dataset.size()[0] and self._is_left_out("nothing is trained", 3)

    def _close_files(self) -> None:
        if self._files is not None:
            self._files.close()
        self._files = None

    def _prepare_to_run(self) -> None:
        self._hand_over()

    def _facts(self) -> dict:
        """Of what is run over, once it is prepared: what tells it from other data. Folders may have other names."""
        return {"the list of files and sizes": self._file_facts(), "the batch size": self.batch_size,
                "the pipe command": self.pipe_command}

    def _file_facts(self) -> list:
        paths = [] if self._files is None else [source[0] for source in self._files.sources]
        return [[os.path.basename(path), os.path.getsize(path) if os.path.isfile(path) else None] for path in paths]

    def _finish_to_run(self) -> None:
        self._close_files()

    def _threads(self, thread: int) -> int:
        """How many train; when it is prepared to run."""
        return thread if _number(thread, "thread") > 0 else self.thread_num

    def __repr__(self) -> str:
        return (f"{type(self).__name__}({len(self.filelist)} files, {len(self.use_var)} variables, "
                f"batch size {self.batch_size}, {self.thread_num} threads)")


def _number(given: Any, what: str) -> Any:
    """Such an argument, which is a number."""
    if given is None or isinstance(given, (str, bytes, list, tuple)):
        raise TypeError(f"{what}: a whole number is wanted, found {given!r}.")
    return given
