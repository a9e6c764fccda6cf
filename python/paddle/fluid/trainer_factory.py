"""TrainerFactory: upstream's maker of TrainerDescs. FetchHandlerMonitor: a thread that hands values to a FetchHandler."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from paddle.fluid import device_worker, trainer_desc
from paddle.fluid.executor import FetchHandler
from paddle.fluid.framework import Variable
from paddle.fluid.log_helper import get_logger

__all__ = ["TrainerFactory", "FetchHandler", "FetchHandlerMonitor"]

_logger = get_logger(__name__, 20, fmt="%(asctime)s-%(levelname)s: %(message)s")

# Settings of a dict, and the method that takes each.
_SETTERS = {"dump_slot": "_set_dump_slot", "mpi_rank": "_set_mpi_rank", "mpi_size": "_set_mpi_size",
            "dump_fields": "_set_dump_fields", "dump_fields_path": "_set_dump_fields_path", "dump_file_num": "_set_dump_file_num",
            "dump_converter": "_set_dump_converter", "dump_param": "_set_dump_param"}
_FLEET_SETTERS = {"use_cvm": "_set_use_cvm", "no_cvm": "_set_no_cvm", "scale_datanorm": "_set_scale_datanorm",
                  "adjust_ins_weight": "_set_adjust_ins_weight", "copy_table": "_set_copy_table_config",
                  "check_nan_var_names": "_set_check_nan_var_names", "loss_names": "_set_loss_names"}


class TrainerFactory:
    """Makes the description of a trainer.

    Examples:
        .. code-block:: python

            import paddle.fluid as fluid

            trainer = fluid.trainer_factory.TrainerFactory()._create_trainer()
    """

    def _create_trainer(self, opt_info: dict | None = None) -> trainer_desc.TrainerDesc:
        if not opt_info:
            opt_info = {"trainer": "MultiTrainer", "device_worker": "Hogwild"}
        trainer = _made(trainer_desc, opt_info["trainer"])
        worker = _made(device_worker, opt_info["device_worker"])
        setters = dict(_SETTERS)
        if "fleet_desc" in opt_info:
            setters |= _FLEET_SETTERS
            for each in (worker, trainer):
                each._set_fleet_desc(opt_info["fleet_desc"])
        for name, setter in setters.items():
            if opt_info.get(name) is not None:
                getattr(trainer, setter)(opt_info[name])
        trainer._set_device_worker(worker)
        return trainer


def _made(module: Any, name: str) -> Any:
    if name not in module.__all__:
        raise ValueError(f"TrainerFactory: there is no {name!r}; there are {', '.join(module.__all__)}.")
    return getattr(module, name)()


class FetchHandlerMonitor:
    """Hands the values of variables in a scope to a FetchHandler, every so many seconds, between start() and stop().
    Executor.train_from_dataset does that by itself for the handler that it is given.

    Args:
        scope: where the variables are.
        handler: the FetchHandler.
    """

    def __init__(self, scope: Any, handler: FetchHandler):
        self.fetch_instance = handler
        self._scope, self._ended = scope, threading.Event()
        self.fetch_thread = threading.Thread(target=self.handler_launch_func, args=(scope, handler), name="FetchHandlerMonitor",
                                             daemon=True)
        self.running = False

    def handler_launch_func(self, scope: Any, handler: FetchHandler) -> None:
        """What the thread does."""
        names = {}
        for key, var in handler.var_dict.items():
            if isinstance(var, Variable):
                names[key] = var.name
            else:
                _logger.warning("FetchHandler: the value of %s is %r; a Variable is wanted.", key, var)
        while not self._ended.wait(handler.period_secs):
            found = {key: self._value(scope, name) for key, name in names.items()}
            handler.handler({key: value for key, value in found.items() if value is not None})

    @staticmethod
    def _value(scope: Any, name: str) -> np.ndarray | None:
        var = scope.find_var(name)
        tensor = var.get_tensor() if var is not None else None
        if tensor is None or not tensor._is_initialized():
            _logger.warning("FetchHandler: variable %s has no value yet.", name)
            return None
        return np.array(tensor)

    def start(self) -> None:
        """Begins."""
        self.running = True
        self.fetch_thread.start()

    def stop(self) -> None:
        """Ends, when the handler has returned."""
        self.running = False
        self._ended.set()
        self.fetch_thread.join()
