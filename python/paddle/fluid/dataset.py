"""Data sets of text files, read by the engine itself: fluid.DatasetFactory, QueueDataset, InMemoryDataset.

A line is a sample. For each variable of set_use_var, in that order, it has a count and so many numbers:

    1 17 3 4 4 900 1 0.5

Executor.train_from_dataset and infer_from_dataset run a Program over them. docs/DATA.md is the guide.
"""

from __future__ import annotations

import threading
import warnings
import zlib
from collections.abc import Sequence
from typing import Any

from paddle.fluid import data_passes, dataset_deal
from paddle.fluid.dataset_base import DatasetBase
from paddle.fluid.dataset_page_views import PageViews

__all__ = ["DatasetFactory", "InMemoryDataset", "QueueDataset"]


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

    def __getattr__(self, name: str) -> Any:
        there = not name.startswith("_") and hasattr(InMemoryDataset, name)
        also = ": it reads files while it trains; InMemoryDataset has that" if there else ""
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'{also}", name=name, obj=self)

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
        self._is_dealt = False  # what is here is this worker's part of the samples of all, which may be none
        self._loaded: list = []  # files and pipe commands
        self._shuffles = 0  # of all that has changed the order of what was loaded
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
        self.merge_size = self.dataset.merge_size = int(merge_size)
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
        if not self._begins_to_load():
            return
        try:
            self.dataset.load()
        finally:
            self._close_files()

    def preload_into_memory(self, thread_num: int | None = None) -> None:
        """Begins to read the files, and returns at once.

        Args:
            thread_num: how many threads read; None: as set_thread says.
        """
        self._check_preload("load more")
        if not self._begins_to_load():
            return
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

    def _begins_to_load(self) -> bool:
        """Gives the settings to the engine. False: there is no file."""
        if self._is_left_out("nothing is loaded"):
            self._hand_over_lines()
            return False
        self._is_dealt = False
        self._hand_over()
        self._loaded.append([self.pipe_command, *self._file_facts()])
        return True

    def _check_preload(self, then: str) -> None:
        if self._preload is not None:
            raise RuntimeError("preload_into_memory is reading files into this data set: call wait_preload_done() first, then "
                               f"{then}.")

    def local_shuffle(self) -> None:
        """Puts the samples in memory into a random order."""
        self._check_preload("shuffle it")
        self.dataset.shuffle(self._counted("local_shuffle", self._seed()))

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
            self._is_dealt = False
            dataset_deal.deal(self, fleet, None if self.shuffle_seed is None else self._seed(), by_id)
            self._is_dealt = True
            self._counted("global_shuffle", fleet.worker_num())
        if by_id:
            self.dataset.merge_by_lineid()
        if by_id or fleet is None or fleet.worker_num() == 1:
            self.local_shuffle()

    def _seed(self) -> int:
        return data_passes.draw() if self.shuffle_seed is None else self.shuffle_seed & (2**64 - 1)

    def _counted(self, what: str, seed: int) -> int:
        self._shuffles = zlib.crc32(f"{what} {seed}".encode(), self._shuffles)
        return seed

    def slots_shuffle(self, slots: Sequence[str]) -> None:
        """Gives the numbers of these variables to other samples, at random: what are they worth to a model? After
        set_fea_eval(..., True).

        Args:
            slots: names of variables.
        """
        self._check_preload("shuffle it")
        if self.fea_eval:
            self.dataset.exchange(list(slots), self._counted(f"slots_shuffle {list(slots)}", self._seed()))

    def release_memory(self) -> None:
        """Lets go of the samples in memory. While it is trained on that is refused."""
        self._check_preload("release it")
        self.dataset.drop()
        self._is_dealt = False
        self._loaded, self._shuffles = [], 0

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

    def _has_no_part(self) -> bool:
        if not self._is_dealt or self.dataset.size()[0]:
            return not self.dataset.size()[0] and self._is_left_out("nothing is trained", 3)
        warnings.warn("global_shuffle has dealt no sample to this worker, so nothing is trained here.", stacklevel=4)
        return True

    def _prepare_to_run(self) -> None:
        self.wait_preload_done()
        if self.dataset.size()[0] == 0:
            raise ValueError("The data set has no samples in memory: call load_into_memory() first.")
        if self._lines is not None and self._lines[2] != self._slots():
            names = ", ".join(name for name, *_ in self._lines[2])
            raise ValueError("The variables of set_use_var are no longer those with which the samples were loaded, which are "
                             f"{names}: call release_memory() and load_into_memory() again.")
        self.dataset.set_sizes(self.batch_size, self.thread_num)

    def _facts(self) -> dict:
        return {"the number of samples in memory": self.dataset.size()[0], "the batch size": self.batch_size,
                "the files that were loaded, and their sizes": self._loaded, "what shuffled them (a checksum)": self._shuffles}

    def __repr__(self) -> str:
        samples, size = self.dataset.size()
        return f"{super().__repr__()[:-1]}, {samples} samples in memory, {size / 1e6:.1f} MB)"


class BoxPSDataset(InMemoryDataset):
    """Upstream's data set for BoxPS, a parameter server on GPUs; not there."""

    def __init__(self):
        raise NotImplementedError("BoxPSDataset needs BoxPS, which is not there. Use InMemoryDataset.")
