"""Data sets of text files, read by the engine itself: fluid.DatasetFactory, QueueDataset, InMemoryDataset.

A line is a sample. For each variable of set_use_var, in that order, it has a count and so many numbers:

    1 17 3 4 4 900 1 0.5

Executor.train_from_dataset and infer_from_dataset run a Program over them. docs/DATA.md is the guide.
"""

from __future__ import annotations

import os
import random
import threading
import warnings
from collections.abc import Sequence
from typing import Any

from paddle import _core
from paddle.fluid import core, dataset_deal, dataset_files
from paddle.fluid.data_feeder import convert_dtype
from paddle.fluid.dataset_page_views import PageViews
from paddle.fluid.framework import Variable

__all__ = ["DatasetFactory", "InMemoryDataset", "QueueDataset"]

_KINDS = {core.VarDesc.VarType.FP32: "float", core.VarDesc.VarType.INT64: "uint64"}


class DatasetFactory:
    """Makes a data set by the name of its class.

    Examples:
        .. code-block:: python

            import paddle.fluid as fluid

            dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    """

    def create_dataset(self, datafeed_class: str = "QueueDataset") -> DatasetBase:
        """A new data set.

        Args:
            datafeed_class: "QueueDataset", which reads files while it trains; "InMemoryDataset", which loads them first;
                "FileInstantDataset", the same as the first here.
        """
        classes = {each.__name__: each for each in (QueueDataset, InMemoryDataset, FileInstantDataset, BoxPSDataset)}
        if datafeed_class not in classes:
            raise ValueError(f"datafeed class {datafeed_class} does not exist; there are {', '.join(classes)}")
        return classes[datafeed_class]()


class DatasetBase:
    """What all data sets have: files, variables, batches."""

    _in_memory = False
    _feed = "MultiSlotDataFeed"

    def __init__(self):
        self.pipe_command = "cat"
        self.batch_size = 32
        self.thread_num = 1
        self.filelist: list[str] = []
        self._has_filelist = False
        self.use_var: list[Variable] = []
        self.rank_offset: str | None = None
        self.pv_batch_size: int | None = None
        self.download_cmd = ""
        self.fs_name = self.fs_ugi = ""
        self.parse_ins_id = self.parse_content = False
        self.dataset = _core.Dataset(self._in_memory)
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
        if batch_size < 1:
            raise ValueError(f"set_batch_size({batch_size}): a batch has 1 sample or more.")
        self.batch_size = int(batch_size)

    def set_thread(self, thread_num: int) -> None:
        """How many threads read, and train where train_from_dataset is not told otherwise.

        Args:
            thread_num: 1 or more.
        """
        if thread_num < 1:
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
        self.filelist, self._has_filelist = dataset_files.listed(filelist), True

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

    def _close_files(self) -> None:
        if self._files is not None:
            self._files.close()
        self._files = None

    def _prepare_to_run(self) -> None:
        self._hand_over()

    def _finish_to_run(self) -> None:
        self._close_files()

    def _threads(self, thread: int) -> int:
        """How many train; when it is prepared to run."""
        return thread if thread > 0 else self.thread_num

    def __repr__(self) -> str:
        return (f"{type(self).__name__}({len(self.filelist)} files, {len(self.use_var)} variables, "
                f"batch size {self.batch_size}, {self.thread_num} threads)")


class QueueDataset(DatasetBase):
    """Reads files while it trains: each thread takes the next file that nobody has begun.

    Examples:
        .. code-block:: python

            import paddle.fluid as fluid

            dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    """

    def local_shuffle(self) -> None:
        """Raises: samples that come straight from files have no order to shuffle."""
        raise NotImplementedError("QueueDataset does not support local shuffle, please use InMemoryDataset for local_shuffle")

    def global_shuffle(self, fleet: Any = None) -> None:
        """Raises: samples that come straight from files have no order to shuffle.

        Args:
            fleet: not used.
        """
        raise NotImplementedError("QueueDataset does not support global shuffle, please use InMemoryDataset for global_shuffle")

    def _threads(self, thread: int) -> int:
        files = len(self._files.sources) if self._files is not None else len(self.filelist)
        return min(super()._threads(thread), max(1, files))  # a file is read by one thread


class FileInstantDataset(QueueDataset):
    """The same as QueueDataset; upstream read these files in another way."""

    _feed = "MultiSlotFileInstantDataFeed"


class InMemoryDataset(PageViews, DatasetBase):
    """Loads files into memory, shuffles them and trains on them, as often as is wanted.

    As in 1.8.5 the zeros of variables that are not dense are left out when samples are loaded; one of nothing but zeros keeps
    one.

    Examples:
        .. code-block:: python

            import paddle.fluid as fluid

            dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    """

    _in_memory = True
    _feed = "MultiSlotInMemoryDataFeed"

    def __init__(self):
        super().__init__()
        self.fea_eval = False
        self.merge_size = -1
        self.queue_num: int | None = None
        self.shuffle_seed: int | None = None
        self._preload: threading.Thread | None = None
        self._preload_error: BaseException | None = None

    # ---- settings ----

    def set_feed_type(self, data_feed_type: str) -> None:
        """The name of the format; there is one.

        Args:
            data_feed_type: "MultiSlotInMemoryDataFeed".
        """
        if data_feed_type != self._feed:
            raise NotImplementedError(f"set_feed_type({data_feed_type!r}): lines are read as {self._feed} only.")

    def set_queue_num(self, queue_num: int) -> None:
        """Upstream's number of queues between samples and threads; threads share one order here.

        Args:
            queue_num: how many.
        """
        self.queue_num = queue_num

    def set_parse_ins_id(self, parse_ins_id: bool) -> None:
        """Lines begin with ``1 <id>``.

        Args:
            parse_ins_id: whether they do.
        """
        self.parse_ins_id = bool(parse_ins_id)

    def set_parse_content(self, parse_content: bool) -> None:
        """Lines begin with ``1 <text>``, behind the id where there is one.

        Args:
            parse_content: whether they do.
        """
        self.parse_content = bool(parse_content)

    def set_shuffle_seed(self, seed: int | None) -> None:
        """The next shuffles are a function of this seed and the samples, whatever the number of threads. (Not in 1.8.5.)

        Args:
            seed: a number; None draws one for each shuffle.
        """
        self.shuffle_seed = seed

    def set_fleet_send_batch_size(self, fleet_send_batch_size: int = 1024) -> None:
        """How many samples upstream sent at a time in global_shuffle; not needed here.

        Args:
            fleet_send_batch_size: how many.
        """
        self.fleet_send_batch_size = fleet_send_batch_size

    def set_fleet_send_sleep_seconds(self, fleet_send_sleep_seconds: int = 0) -> None:
        """How long upstream waited between two of them; not needed here.

        Args:
            fleet_send_sleep_seconds: seconds.
        """
        self.fleet_send_sleep_seconds = fleet_send_sleep_seconds

    def set_merge_by_lineid(self, merge_size: int = 2) -> None:
        """Samples of one id become one when they are shuffled globally. It sets parse_ins_id.

        Args:
            merge_size: ids that do not have so many samples are left out; 0: none is.
        """
        self.merge_size = int(merge_size)
        self.parse_ins_id = True

    # ---- samples ----

    def load_into_memory(self) -> None:
        """Reads the files, by several threads, and adds their samples to those in memory. Their order is that of the files, however
        many threads there are.

        Examples:
            .. code-block:: python

                import paddle.fluid as fluid

                with open("samples.txt", "w") as file:
                    file.write("1 3\\n2 4 5\\n")
                words = fluid.layers.data("words", [1], dtype="int64", lod_level=1)
                dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
                dataset.set_use_var([words])
                dataset.set_filelist(["samples.txt"])
                dataset.load_into_memory()
                print(dataset.get_memory_data_size())    # 2
        """
        self._check_preload("load it")
        if self._is_left_out():
            return
        self._hand_over()
        try:
            self.dataset.load()
        finally:
            self._close_files()

    def _is_left_out(self) -> bool:
        """A worker whose part of the files is none has nothing to load; it gets samples when they are shuffled globally."""
        if self._has_filelist and not self.filelist:
            warnings.warn("load_into_memory: the list of files is empty, so nothing is loaded here.", stacklevel=3)
            self._hand_over_lines()
        return self._has_filelist and not self.filelist

    def preload_into_memory(self, thread_num: int | None = None) -> None:
        """Begins to read the files, and returns at once.

        Args:
            thread_num: how many threads read; None: as set_thread says.
        """
        self._check_preload("load more")
        if self._is_left_out():
            return
        self._hand_over()
        if thread_num:
            self.dataset.set_sizes(self.batch_size, thread_num)

        def read() -> None:
            try:
                self.dataset.load()
            except BaseException as error:
                self._preload_error = error
            finally:
                self._close_files()

        self._preload = threading.Thread(target=read, name="preload_into_memory", daemon=True)
        self._preload.start()

    def wait_preload_done(self) -> None:
        """Waits for what preload_into_memory has begun, and raises what went wrong."""
        preload = self._preload
        if preload is None:
            return
        preload.join()
        self._preload = None
        error, self._preload_error = self._preload_error, None
        if error is not None:
            raise error

    def _check_preload(self, then: str) -> None:
        if self._preload is not None:
            raise RuntimeError("preload_into_memory is reading files into this data set: call wait_preload_done() first, then "
                               f"{then}.")

    def local_shuffle(self) -> None:
        """Puts the samples in memory into a random order."""
        self._check_preload("shuffle it")
        self.dataset.shuffle(self._seed())

    def global_shuffle(self, fleet: Any = None, thread_num: int = 12) -> None:
        """Deals out the samples of all workers among all of them, at random; all workers call it. Each gets as many as the others.
        Without a fleet, or with one worker, these are the samples here.

        Samples go straight from worker to worker (docs/FLEET.md). A worker may come with none.

        Args:
            fleet: the fleet; None: this process alone.
            thread_num: not used.
        """
        self._check_preload("shuffle it")
        by_id = self.merge_size >= 0
        if fleet is not None and fleet.worker_num() > 1:
            self._hand_over_lines()
            dataset_deal.deal(self, fleet, None if self.shuffle_seed is None else self._seed(), by_id)
        if by_id:
            left_out = self.dataset.merge(self.merge_size)
            if left_out:
                warnings.warn(f"{left_out} samples were left out: their ids do not have {self.merge_size} samples.", stacklevel=2)
        if by_id or fleet is None or fleet.worker_num() == 1:
            self.local_shuffle()

    def _seed(self) -> int:
        return random.SystemRandom().getrandbits(64) if self.shuffle_seed is None else self.shuffle_seed & (2**64 - 1)

    def slots_shuffle(self, slots: Sequence[str]) -> None:
        """Gives the numbers of these variables to other samples, at random: what are they worth to a model? After
        set_fea_eval(..., True).

        Args:
            slots: names of variables.
        """
        self._check_preload("shuffle it")
        if self.fea_eval:
            self.dataset.exchange(list(slots), self._seed())

    def release_memory(self) -> None:
        """Lets go of the samples in memory. While it is trained on that is refused."""
        self._check_preload("release it")
        self.dataset.drop()

    def get_memory_data_size(self, fleet: Any = None) -> int:
        """Samples in memory.

        Args:
            fleet: with one, those of all workers.
        """
        return self._over_workers(fleet)

    def get_shuffle_data_size(self, fleet: Any = None) -> int:
        """Samples in memory after shuffling: as many as before.

        Args:
            fleet: with one, those of all workers.
        """
        return self._over_workers(fleet)

    def _over_workers(self, fleet: Any) -> int:
        size = self.dataset.size()[0]
        if fleet is None or fleet.worker_num() == 1:
            return size
        import numpy as np

        total = np.zeros(1, "int64")
        fleet._role_maker.all_reduce_worker(np.array([size], "int64"), total)
        return int(total[0])

    def _prepare_to_run(self) -> None:
        self.wait_preload_done()
        if self.dataset.size()[0] == 0:
            raise ValueError("The data set has no samples in memory: call load_into_memory() first.")
        if self._lines is not None and self._lines[2] != self._slots():
            names = ", ".join(name for name, *_ in self._lines[2])
            raise ValueError("The variables of set_use_var are no longer those with which the samples were loaded, which are "
                             f"{names}: call release_memory() and load_into_memory() again.")
        self.dataset.set_sizes(self.batch_size, self.thread_num)

    def __repr__(self) -> str:
        samples, size = self.dataset.size()
        return f"{super().__repr__()[:-1]}, {samples} samples in memory, {size / 1e6:.1f} MB)"


class BoxPSDataset(InMemoryDataset):
    """Upstream's data set for BoxPS, a parameter server on GPUs; not there."""

    def __init__(self):
        raise NotImplementedError("BoxPSDataset needs BoxPS, which is not there. Use InMemoryDataset.")
