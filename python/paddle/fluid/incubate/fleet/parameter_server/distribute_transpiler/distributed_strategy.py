"""How a job with parameter servers trains: strategies, and the knobs of trainers."""

from __future__ import annotations

import os
from typing import Any

from paddle.fluid import suggest
from paddle.fluid.compiler import BuildStrategy, ExecutionStrategy
from paddle.fluid.transpiler.config import DistributedMode, DistributeTranspilerConfig, ServerRuntimeConfig

__all__ = [
    "TrainerRuntimeConfig",
    "DistributedStrategy",
    "SyncStrategy",
    "AsyncStrategy",
    "HalfAsyncStrategy",
    "GeoStrategy",
    "StrategyFactory",
]

_THREADS = "CPU_NUM"  # a knob with this default has that of the environment
_KNOBS = {
    "communicator_max_merge_var_num": _THREADS,
    "communicator_send_queue_size": _THREADS,
    "communicator_independent_recv_thread": "1",
    "communicator_min_send_grad_num_before_recv": _THREADS,
    "communicator_thread_pool_size": "5",
    "communicator_send_wait_times": "5",
    "communicator_is_sgd_optimizer": "1",
    "rpc_deadline": "180000",
    "rpc_retry_times": "3",
}
_FOR_BARRIER = ("communicator_max_merge_var_num", "communicator_send_wait_times", "communicator_thread_pool_size",
                "communicator_send_queue_size")
# The knobs of a mode, in the order of the table that init_worker prints.
_USED = {
    None: tuple(_KNOBS),
    DistributedMode.ASYNC: tuple(_KNOBS),
    DistributedMode.SYNC: _FOR_BARRIER,
    DistributedMode.HALF_ASYNC: _FOR_BARRIER,
    DistributedMode.GEO: ("communicator_thread_pool_size", "communicator_send_wait_times"),
}
_AS_THREADS = ("communicator_max_merge_var_num", "communicator_send_queue_size")  # where trainers wait for each other


def threads() -> str:
    """CPU_NUM of the environment."""
    return os.environ.get("CPU_NUM", "1")


def _unknown(owner: str, key: Any, known: Any) -> ValueError:
    hint = suggest.did_you_mean(str(key), known) or f" There are {', '.join(sorted(known))}."
    return ValueError(f"{owner} doesn't have key: {key}.{hint}")


class TrainerRuntimeConfig:
    """The knobs of a trainer's communicator, in `runtime_configs`. FLAGS_<name> of the environment is the default of each.

    They are shown and checked as upstream does; what the communicator makes of them is told in fluid.communicator.Communicator.
    """

    def __init__(self):
        self.mode: int | None = None
        self.runtime_configs: dict[str, Any] = {
            name: os.environ.get(f"FLAGS_{name}", threads() if value is _THREADS else value) for name, value in _KNOBS.items()
        }

    def get_communicator_flags(self) -> dict[str, str]:
        """The knobs of this mode as texts. Where trainers wait for each other, two of them must be CPU_NUM, and are made so."""
        if self.mode not in _USED:
            raise ValueError(f"Unsupported Mode: {self.mode!r}.")
        if self.mode in (DistributedMode.SYNC, DistributedMode.HALF_ASYNC):
            for name in _AS_THREADS:
                found = self.runtime_configs[name]
                if str(found) != threads():
                    print(f"WARNING: In sync or half_async mode, {name} must be equal to CPU_NUM. It is {found}, CPU_NUM is "
                          f"{threads()}: that is taken.")
                    self.runtime_configs[name] = threads()
        return {name: str(self.runtime_configs[name]) for name in _USED[self.mode]}

    def display(self, configs: dict[str, str]) -> str:
        """A table of knobs.

        Args:
            configs: names and values.
        """
        rows = "".join(f"{name:<45}{value:<5}\n" for name, value in configs.items())
        title = f"{'TrainerRuntimeConfig Overview':^45}{'Value':<5}"
        return f"\n{'=' * 50}\n{title}\n{'-' * 50}\n{rows}{'=' * 50}\n"

    def __repr__(self) -> str:
        return self.display(self.get_communicator_flags())


class DistributedStrategy:
    """What a job is told: the options of its Programs, its trainers, its servers and its executors.

    Each part is set as a dict, of which an unknown key is a ValueError, or as an object. The classes below say which mode it is.
    """

    _mode: int | None = None
    _program: dict[str, bool] = {}  # what the mode fixes of each part
    _execute: dict[str, bool] = {}
    _build: dict[str, bool] = {}

    def __init__(self):
        self._program_config = DistributeTranspilerConfig()
        self._trainer_runtime_config = TrainerRuntimeConfig()
        self._server_runtime_config = ServerRuntimeConfig()
        self._execute_strategy = ExecutionStrategy()
        self._build_strategy = BuildStrategy()
        self._execute_strategy.num_threads = int(threads())
        if int(threads()) > 1:
            self._build_strategy.reduce_strategy = BuildStrategy.ReduceStrategy.Reduce
        self.debug_opt: dict | None = None
        if self._mode is not None:
            self.check_program_config()
            self.check_trainer_runtime_config()
            self.check_server_runtime_config()
            self.check_build_strategy()
            self.check_execute_strategy()

    def _set(self, part: str, owner: type, value: Any) -> None:
        """Sets `part` to an object of the class `owner`, or some of its attributes from a dict."""
        if isinstance(value, owner):
            setattr(self, f"_{part}", value)
            return
        if not isinstance(value, dict):
            raise TypeError(f"{part} only accept input type: dict or {owner.__name__}; found {value!r}.")
        target = getattr(self, f"_{part}")
        known = {name for name in dir(target) if not name.startswith("__")}
        for key, each in value.items():
            # Upstream's server knobs begin with an underscore; both forms are taken.
            name = key if key in known else f"_{key}"
            if name not in known:
                raise _unknown(owner.__name__, key, {each for each in known if not each.startswith("_")} or known)
            setattr(target, name, each)

    def _fix(self, part: str, values: dict[str, bool]) -> None:
        """Sets what the mode wants of a part."""
        if self._mode is None:
            raise NotImplementedError(
                f"check_{part} must be implemented by derived class. You should use StrategyFactory to create DistributedStrategy."
            )
        for name, value in values.items():
            setattr(getattr(self, f"_{part}"), name, value)

    def set_debug_opt(self, opt_info: dict) -> None:
        """Keeps what to dump while training from data set files.

        Args:
            opt_info: dump_slot, dump_converter, dump_fields, dump_file_num, dump_fields_path and dump_param.
        """
        self.debug_opt = opt_info

    def get_debug_opt(self) -> dict:
        """What set_debug_opt kept, complete."""
        given = self.debug_opt
        if not isinstance(given, dict):
            return {}
        return {
            "dump_slot": bool(given.get("dump_slot", 0)),
            "dump_converter": str(given.get("dump_converter", "")),
            "dump_fields": given.get("dump_fields", []),
            "dump_file_num": given.get("dump_file_num", 16),
            "dump_fields_path": given.get("dump_fields_path", ""),
            "dump_param": given.get("dump_param", []),
        }

    def get_program_config(self) -> DistributeTranspilerConfig:
        """The options of the job's Programs."""
        return self._program_config

    def set_program_config(self, config: dict | DistributeTranspilerConfig) -> None:
        """Sets them; what the mode fixes stays.

        Args:
            config: an object, or a dict of some of its attributes.
        """
        self._set("program_config", DistributeTranspilerConfig, config)
        self.check_program_config()

    def check_program_config(self) -> None:
        """Sets what the mode wants of the Programs."""
        self._fix("program_config", self._program)

    def get_trainer_runtime_config(self) -> TrainerRuntimeConfig:
        """The knobs of a trainer."""
        return self._trainer_runtime_config

    def set_trainer_runtime_config(self, config: dict | TrainerRuntimeConfig) -> None:
        """Sets them.

        Args:
            config: an object, or a dict of some of its attributes.
        """
        if isinstance(config, dict):
            knobs = self._trainer_runtime_config.runtime_configs
            for key in config:
                if key not in knobs:
                    raise _unknown("TrainerRuntimeConfig", key, knobs)
            knobs.update(config)
        else:
            self._set("trainer_runtime_config", TrainerRuntimeConfig, config)
        self.check_trainer_runtime_config()

    def check_trainer_runtime_config(self) -> None:
        """Tells the knobs which mode it is."""
        self._fix("trainer_runtime_config", {"mode": self._mode})

    def get_server_runtime_config(self) -> ServerRuntimeConfig:
        """The knobs of a server."""
        return self._server_runtime_config

    def set_server_runtime_config(self, config: dict | ServerRuntimeConfig) -> None:
        """Sets them.

        Args:
            config: an object, or a dict of some of its attributes.
        """
        self._set("server_runtime_config", ServerRuntimeConfig, config)
        self.check_server_runtime_config()

    def check_server_runtime_config(self) -> None:
        """No mode wants anything of them."""
        self._fix("server_runtime_config", {})

    def get_execute_strategy(self) -> ExecutionStrategy:
        """How a compiled Program runs."""
        return self._execute_strategy

    def set_execute_strategy(self, config: dict | ExecutionStrategy) -> None:
        """Sets it; what the mode fixes stays.

        Args:
            config: an object, or a dict of some of its attributes.
        """
        self._set("execute_strategy", ExecutionStrategy, config)
        self.check_execute_strategy()

    def check_execute_strategy(self) -> None:
        """Sets what the mode wants of it."""
        self._fix("execute_strategy", self._execute)

    def get_build_strategy(self) -> BuildStrategy:
        """How a Program is compiled."""
        return self._build_strategy

    def set_build_strategy(self, config: dict | BuildStrategy) -> None:
        """Sets it; what the mode fixes stays.

        Args:
            config: an object, or a dict of some of its attributes.
        """
        self._set("build_strategy", BuildStrategy, config)
        self.check_build_strategy()

    def check_build_strategy(self) -> None:
        """Sets what the mode wants of it."""
        self._fix("build_strategy", self._build)


class SyncStrategy(DistributedStrategy):
    """Servers average the gradients of all workers, then apply them."""

    _mode = DistributedMode.SYNC
    _program = {"sync_mode": False, "runtime_split_send_recv": True, "half_async": True, "completely_not_async": True}
    _execute = {"use_thread_barrier": True}
    _build = {"async_mode": True}


class AsyncStrategy(DistributedStrategy):
    """Servers apply each gradient when it arrives."""

    _mode = DistributedMode.ASYNC
    _program = {"sync_mode": False, "runtime_split_send_recv": True}
    _build = {"async_mode": True}


class HalfAsyncStrategy(DistributedStrategy):
    """Workers merge the gradients of several batches, then send them."""

    _mode = DistributedMode.HALF_ASYNC
    _program = {"sync_mode": False, "runtime_split_send_recv": True, "half_async": True}
    _execute = {"use_thread_barrier": True}
    _build = {"async_mode": True}


class GeoStrategy(DistributedStrategy):
    """Workers train on their own and send what has changed every so many batches.

    Args:
        update_frequency: so many.
    """

    _mode = DistributedMode.GEO
    _program = {"sync_mode": False, "runtime_split_send_recv": True, "geo_sgd_mode": True}
    _build = {"async_mode": True}

    def __init__(self, update_frequency: int = 100):
        super().__init__()
        self._program_config.geo_sgd_need_push_nums = update_frequency


class StrategyFactory:
    """Makes strategies.

    >>> from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory
    >>> strategy = StrategyFactory.create_sync_strategy()
    >>> strategy.set_program_config({"min_block_size": 16384})
    >>> strategy.get_program_config().min_block_size
    16384
    """

    @staticmethod
    def create_sync_strategy() -> SyncStrategy:
        """Steps of all workers together."""
        return SyncStrategy()

    @staticmethod
    def create_half_async_strategy() -> HalfAsyncStrategy:
        """Merged gradients, sent without waiting for other workers."""
        return HalfAsyncStrategy()

    @staticmethod
    def create_async_strategy() -> AsyncStrategy:
        """Each gradient when it is there."""
        return AsyncStrategy()

    @staticmethod
    def create_geo_strategy(update_frequency: int = 100) -> GeoStrategy:
        """Workers on their own, with an exchange every so many batches.

        Args:
            update_frequency: so many.
        """
        return GeoStrategy(update_frequency)
