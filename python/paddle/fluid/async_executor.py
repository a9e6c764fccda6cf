"""AsyncExecutor of v1.2 to v1.4: trains from data files with several threads. Executor.train_from_dataset took its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from paddle.fluid import core, executor_dataset
from paddle.fluid.data_feed_desc import DataFeedDesc
from paddle.fluid.dataset import QueueDataset
from paddle.fluid.executor import Executor
from paddle.fluid.framework import Program, Variable, default_main_program

__all__ = ["AsyncExecutor"]

_KINDS = {"uint64": core.VarDesc.VarType.INT64, "float": core.VarDesc.VarType.FP32}
_FLEET = ("AsyncExecutor.{} trained with pslib, which is not there. fluid.incubate.fleet.parameter_server.distribute_transpiler "
          "trains with parameter servers: docs/FLEET.md is the guide.")


class AsyncExecutor:
    """Trains a Program from data files with several threads, each with batches of its own on the same parameters.

    Args:
        place: fluid.CPUPlace(), or None.
        run_mode: not used.

    Examples:
        .. code-block:: python

            import paddle.fluid as fluid

            executor = fluid.AsyncExecutor(fluid.CPUPlace())
    """

    def __init__(self, place: Any = None, run_mode: str = ""):
        if place is None:
            place = core.CPUPlace()
        if not isinstance(place, core.CPUPlace):
            raise ValueError("AsyncExecutor only supports CPU device")
        self.place, self.run_mode = place, run_mode
        self._executor = Executor(place)

    def run(self, program: Program | None, data_feed: DataFeedDesc | None, filelist: Sequence[str] | None, thread_num: int,
            fetch: Sequence[Variable | str] | Variable | str, mode: str = "", debug: bool = False) -> None:
        """One pass over the files.

        Args:
            program: None: the default main Program.
            data_feed: what stands on their lines.
            filelist: the files.
            thread_num: how many threads; no more than files.
            fetch: variables that are printed now and then.
            mode: "mpi" trained with pslib.
            debug: prints where the time goes.
        """
        if mode == "mpi":
            raise NotImplementedError(_FLEET.format("run(mode='mpi')"))
        program = default_main_program() if program is None else program
        if data_feed is None:
            raise ValueError("ValueError: data_feed should be provided")
        if filelist is None:
            raise ValueError("ValueError: filelist should be provided")
        if isinstance(filelist, str):
            filelist = [filelist]
        if not isinstance(thread_num, int):
            raise TypeError("TypeError: thread_num should be a positive number")
        fetches = [fetch] if isinstance(fetch, Variable | str) else list(fetch or ())
        dataset = _Described(data_feed, program)
        dataset.set_filelist(filelist)
        dataset.set_thread(thread_num)
        executor_dataset.run(self._executor, program, dataset, None, thread_num, debug, fetches, None, 100, None)

    def download_data(self, afs_path: str, local_path: str, fs_default_name: str, ugi: str, file_cnt: int,
                      hadoop_home: str = "$HADOOP_HOME", process_num: int = 12) -> NoReturn:
        """Not there: fluid.incubate.fleet.utils.hdfs.HDFSClient brings files, and data sets read them where they are."""
        raise NotImplementedError("AsyncExecutor.download_data is not there: download files with "
                                  "fluid.incubate.fleet.utils.hdfs.HDFSClient, or give the data set their hdfs:// paths.")

    def get_instance(self) -> NoReturn:
        """Not there."""
        raise NotImplementedError(_FLEET.format("get_instance"))

    def config_distributed_nodes(self) -> NoReturn:
        """Not there."""
        raise NotImplementedError(_FLEET.format("config_distributed_nodes"))

    def stop(self) -> NoReturn:
        """Not there."""
        raise NotImplementedError(_FLEET.format("stop"))

    def init_server(self, dist_desc: Any) -> NoReturn:
        """Not there."""
        raise NotImplementedError(_FLEET.format("init_server"))

    def init_worker(self, dist_desc: Any, startup_program: Program) -> NoReturn:
        """Not there."""
        raise NotImplementedError(_FLEET.format("init_worker"))

    def init_model(self) -> NoReturn:
        """Not there."""
        raise NotImplementedError(_FLEET.format("init_model"))

    def save_model(self, save_path: str) -> NoReturn:
        """Not there."""
        raise NotImplementedError(_FLEET.format("save_model"))


class _Described(QueueDataset):
    """The data set of a DataFeedDesc: its used slots fill the Program's variables of their names."""

    def __init__(self, data_feed: DataFeedDesc, program: Program):
        super().__init__()
        desc = data_feed.proto_desc
        block = program.global_block()
        self._described: list[tuple] = []
        for slot in desc.multi_slot_desc.slots:
            if not slot.is_used:
                self._described.append((slot.name, None, None))
                continue
            if slot.type not in _KINDS:
                raise ValueError(f"DataFeedDesc: slot {slot.name!r} is of type {slot.type!r}; there are {', '.join(_KINDS)}.")
            if not block.has_var(slot.name):
                raise ValueError(f"DataFeedDesc: slot {slot.name!r} is used, and the Program has no variable of that name.")
            var = block.var(slot.name)
            if var.dtype != _KINDS[slot.type]:
                raise ValueError(f"DataFeedDesc: slot {slot.name!r} is of type {slot.type!r}, which the Program's variable is not.")
            self.use_var.append(var)
            self._described.append((slot.name, slot.type == "float", list(var.shape) if slot.is_dense else None))
        self.set_batch_size(desc.batch_size)
        self.set_pipe_command(desc.pipe_command)

    def _slots(self) -> list[tuple]:
        return self._described
