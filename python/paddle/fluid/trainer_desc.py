"""TrainerDesc and its kinds: how upstream's engine was told to train from a data set. Executor.train_from_dataset makes no use of
them here; scripts that look at them, or set what they say, find what they know.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from paddle.fluid.data_feed_desc import DataFeedMessage
from paddle.fluid.proto import table_message
from paddle.fluid.proto.table_message import Field

__all__ = ["TrainerDesc", "MultiTrainer", "DistMultiTrainer", "PipelineTrainer"]


class FetchConfigMessage(table_message.Message):
    """What is printed."""

    fields = {"fetch_var_names": Field(1, "string", repeated=True), "fetch_var_str_format": Field(2, "string", repeated=True),
              "print_period": Field(3, "int32", 100), "method": Field(4, "int32")}


class TableDependencyMessage(table_message.Message):
    """Tables that depend on one."""

    fields = {"key": Field(1, "int32"), "values": Field(2, "int32", repeated=True)}


class CopyTableMessage(table_message.Message):
    """Tables that are copied while training."""

    fields = {"need_copy": Field(1, "bool"), "batch_num": Field(2, "int32", 100),
              "src_sparse_tables": Field(3, "int32", repeated=True), "dest_sparse_tables": Field(4, "int32", repeated=True),
              "src_dense_tables": Field(5, "int32", repeated=True), "dest_dense_tables": Field(6, "int32", repeated=True),
              "src_var_list": Field(7, "string", repeated=True), "dest_var_list": Field(8, "string", repeated=True),
              "dense_pull_after_copy": Field(9, "bool"), "sparse_copy_by_feasign": Field(10, "bool", True),
              "enable_dependency": Field(11, "bool"),
              "table_denpendency_map": Field(12, TableDependencyMessage, repeated=True)}


class AdjustInsWeightMessage(table_message.Message):
    """Samples that count more."""

    fields = {"need_adjust": Field(1, "bool"), "nid_slot": Field(2, "string"), "nid_adjw_threshold": Field(3, "float"),
              "nid_adjw_ratio": Field(4, "float"), "ins_weight_slot": Field(5, "string")}


class HogwildMessage(table_message.Message):
    """Of threads that share parameters."""

    fields = {"skip_ops": Field(1, "string", repeated=True)}


class TrainerMessage(table_message.Message):
    """The description as a whole."""

    fields = {"class_name": Field(1, "string"), "device_worker_name": Field(2, "string"), "thread_num": Field(3, "int32"),
              "binding_cpu": Field(4, "bool"), "filelist": Field(5, "string", repeated=True), "debug": Field(6, "bool"),
              "fetch_config": Field(7, FetchConfigMessage), "use_cvm": Field(8, "bool"), "dump_slot": Field(9, "bool"),
              "scale_datanorm": Field(10, "float", -1.0), "mpi_rank": Field(11, "int32", -1),
              "dump_fields_path": Field(12, "string"), "dump_fields": Field(13, "string", repeated=True),
              "dump_converter": Field(14, "string"), "dump_param": Field(15, "string", repeated=True),
              "mpi_size": Field(16, "int32", -1), "dump_file_num": Field(17, "int32", 16),
              "check_nan_var_names": Field(18, "string", repeated=True), "copy_table_config": Field(19, CopyTableMessage),
              "adjust_ins_weight_config": Field(20, AdjustInsWeightMessage), "no_cvm": Field(21, "bool"),
              "thread_barrier": Field(22, "bool"), "loss_names": Field(23, "string", repeated=True),
              "hogwild_param": Field(101, HogwildMessage), "data_desc": Field(201, DataFeedMessage)}


class TrainerDesc:
    """How to train from a data set, in upstream's words.

    Examples:
        .. code-block:: python

            import paddle.fluid as fluid

            trainer = fluid.trainer_factory.TrainerFactory()._create_trainer()
            trainer._set_thread(4)
            print(trainer.proto_desc.thread_num)    # 4
    """

    def __init__(self):
        self.proto_desc = TrainerMessage(thread_num=os.cpu_count() or 1)
        self._fleet_desc = self._device_worker = self._program = self._infer = None

    def __str__(self) -> str:
        return str(self.proto_desc)

    def _set_fetch_var_and_info(self, fetch_vars: Sequence, fetch_info: Sequence[str], print_period: int) -> None:
        config = self.proto_desc.fetch_config
        for var, info in zip(fetch_vars, fetch_info):
            config.fetch_var_names.append(var.name)
            config.fetch_var_str_format.append(info)
        config.print_period = print_period

    def _set_debug(self, debug: bool) -> None:
        self.proto_desc.debug = debug

    def _set_thread(self, thread_num: int) -> None:
        self.proto_desc.thread_num = thread_num

    def _set_device_worker(self, device_worker: Any) -> None:
        self._device_worker = device_worker

    def _set_infer(self, infer: bool) -> None:
        self._infer = infer

    def _set_fleet_desc(self, fleet_desc: Any) -> None:
        self._fleet_desc = fleet_desc

    def _set_program(self, program: Any) -> None:
        self._program = program

    def _set_use_cvm(self, use_cvm: bool = False) -> None:
        self.proto_desc.use_cvm = use_cvm

    def _set_no_cvm(self, no_cvm: bool = False) -> None:
        self.proto_desc.no_cvm = no_cvm

    def _set_scale_datanorm(self, scale_datanorm: float = -1) -> None:
        self.proto_desc.scale_datanorm = scale_datanorm

    def _set_dump_slot(self, dump_slot: bool) -> None:
        self.proto_desc.dump_slot = dump_slot

    def _set_mpi_rank(self, mpi_rank: int) -> None:
        self.proto_desc.mpi_rank = mpi_rank

    def _set_mpi_size(self, mpi_size: int) -> None:
        self.proto_desc.mpi_size = mpi_size

    def _set_dump_fields(self, dump_fields: Sequence[str]) -> None:
        self.proto_desc.dump_fields.extend(dump_fields)

    def _set_dump_fields_path(self, path: str) -> None:
        self.proto_desc.dump_fields_path = path

    def _set_dump_file_num(self, dump_file_num: int) -> None:
        self.proto_desc.dump_file_num = dump_file_num

    def _set_dump_converter(self, converter: str) -> None:
        self.proto_desc.dump_converter = converter

    def _set_dump_param(self, dump_param: Sequence[str]) -> None:
        self.proto_desc.dump_param.extend(dump_param)

    def _set_thread_barrier(self, thread_barrier: bool) -> None:
        self.proto_desc.thread_barrier = thread_barrier

    def _set_check_nan_var_names(self, check_nan_var_names: Sequence[str]) -> None:
        self.proto_desc.check_nan_var_names.extend(check_nan_var_names)

    def _set_loss_names(self, loss_names: Sequence[str]) -> None:
        self.proto_desc.loss_names.extend(loss_names)

    def _set_adjust_ins_weight(self, config_dict: dict) -> None:
        config = self.proto_desc.adjust_ins_weight_config
        for name, default in {"need_adjust": False, "nid_slot": "", "nid_adjw_threshold": 0.0, "nid_adjw_ratio": 0.0,
                              "ins_weight_slot": ""}.items():
            setattr(config, name, config_dict.get(name, default))

    def _set_copy_table_config(self, config_dict: dict) -> None:
        config = self.proto_desc.copy_table_config
        for name, default in {"need_copy": False, "batch_num": 100, "dense_pull_after_copy": True, "enable_dependency": False,
                              "sparse_copy_by_feasign": True}.items():
            setattr(config, name, config_dict.get(name, default))
        for kind in ("sparse_tables", "dense_tables", "var_list"):
            source, dest = (config_dict.get(f"{side}_{kind}", []) for side in ("src", "dest"))
            source, dest = ([each] if isinstance(each, int | str) else list(each) for each in (source, dest))
            if len(source) != len(dest):
                raise ValueError(f"copy_table: src_{kind} has {len(source)} entries and dest_{kind} {len(dest)}; give as many.")
            getattr(config, f"src_{kind}").extend(source)
            getattr(config, f"dest_{kind}").extend(dest)
        for key, values in config_dict.get("table_denpendency_map", {}).items():
            config.table_denpendency_map.add(key=key, values=[values] if isinstance(values, int) else values)

    def _gen_trainer_desc(self) -> None:
        """Only the kinds of trainers say more."""

    def _desc(self) -> bytes:
        return self.proto_desc.SerializeToString()


class _Named(TrainerDesc):
    """One that says which it is, and has its worker say the rest."""

    def _set_program(self, program: Any) -> None:
        super()._set_program(program)

    def _gen_trainer_desc(self) -> None:
        super()._gen_trainer_desc()
        self.proto_desc.class_name = type(self).__name__
        if self._device_worker is not None:
            self._device_worker._set_infer(self._infer)
            self._device_worker._set_program(self._program)
            self._device_worker._gen_worker_desc(self.proto_desc)


class MultiTrainer(_Named):
    """Threads of one process, Hogwild."""


class DistMultiTrainer(_Named):
    """The same with servers."""


class PipelineTrainer(_Named):
    """A Program in sections, each with threads of its own."""
