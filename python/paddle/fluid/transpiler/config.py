"""What can be chosen for a distributed job: DistributeTranspilerConfig, and what the choices mean here."""

from __future__ import annotations

import difflib
import os
import warnings

from paddle.fluid.shown import call_text
from paddle.fluid.transpiler.ps_dispatcher import PSDispatcher

SMALLEST_BLOCK = 8192


class DistributedMode:
    """How servers work; the attribute distributed_mode of listen_and_serv."""

    SYNC = 0  # a step is applied when all trainers have sent it
    ASYNC = 1  # a gradient is applied when it arrives
    HALF_ASYNC = 2  # as ASYNC
    GEO = 3  # as ASYNC, of what trainers have changed by themselves


class DistributeTranspilerConfig:
    """The choices of a DistributeTranspiler.

    slice_var_up: cut large parameters into slices for several servers.
    split_method: RoundRobin, HashName or a class of your own; None balances the servers by bytes.
    min_block_size: the least number of elements of a slice, 8192 or more.
    sync_mode, runtime_split_send_recv, half_async, completely_not_async: see `mode_of`.
    geo_sgd_mode, geo_sgd_need_push_nums: trainers update their parameters by themselves, and tell servers what has
        changed every so many batches.
    enable_dc_asgd: async: servers correct a dense gradient g by how far its parameters have moved since the trainer was given them,
        g + g * g * (now - then) (DC-ASGD).
    clip_on_trainer: clip each trainer's own gradient, as Fluid did; False clips the average on the servers.
    average_table_gradient: average the gradient of a distributed lookup table over the trainers, like all
        others; False adds it up, as Fluid did.
    print_log: print what each server gets.

    >>> config = fluid.DistributeTranspilerConfig()
    >>> config.slice_var_up = False
    >>> t = fluid.DistributeTranspiler(config=config)
    """

    slice_var_up = True
    split_method = None
    min_block_size = SMALLEST_BLOCK
    enable_dc_asgd = False
    mode = "pserver"
    print_log = False
    wait_port = True
    half_async = False
    completely_not_async = False
    geo_sgd_mode = False
    geo_sgd_need_push_nums = 100
    nccl_comm_num = 1
    use_hierarchical_allreduce = False
    hierarchical_allreduce_inter_nranks = 0
    collective_mode = None
    clip_on_trainer = False
    average_table_gradient = True

    def __init__(self):
        self._runtime_split = False
        self._sync = True

    def __setattr__(self, name: str, value) -> None:
        """Takes any name, as scripts may keep things of their own here; says so when nobody reads it."""
        if not name.startswith("_") and not hasattr(type(self), name):
            known = [each for each in dir(type(self)) if not each.startswith("_")]
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(known)}."
            warnings.warn(f"DistributeTranspilerConfig has no {name!r}: it changes nothing. {hint}", stacklevel=2)
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        kept = {name.replace("_runtime_split", "runtime_split_send_recv").replace("_sync", "sync_mode"): value
                for name, value in vars(self).items()}
        default = {**vars(type(self)), "sync_mode": True, "runtime_split_send_recv": False}
        return call_text(type(self).__name__, {name: value for name, value in kept.items() if default.get(name) != value})

    @property
    def runtime_split_send_recv(self) -> bool:
        """Send gradients whole and let the client cut them; for asynchronous jobs."""
        return self._runtime_split

    @runtime_split_send_recv.setter
    def runtime_split_send_recv(self, value: bool) -> None:
        if value is None:
            raise ValueError("runtime_split_send_recv is None; give True or False.")
        if value and self._sync:
            raise ValueError("runtime_split_send_recv goes with sync_mode = False: set that first.")
        self._runtime_split = bool(value)

    @property
    def sync_mode(self) -> bool:
        """Servers wait for all trainers before they apply a step."""
        return self._sync

    @sync_mode.setter
    def sync_mode(self, value: bool) -> None:
        if value is None:
            raise ValueError("sync_mode is None; give True or False.")
        if value and self._runtime_split:
            raise ValueError(
                "sync_mode = True does not go with runtime_split_send_recv: set that to False first."
            )
        self._sync = bool(value)


class ServerRuntimeConfig:
    """Numbers of threads for listen_and_serv, as Fluid had them; loops of a server here follow the cores."""

    def __init__(self):
        self._rpc_send_thread_num = int(os.getenv("FLAGS_rpc_send_thread_num", "12"))
        self._rpc_get_thread_num = int(os.getenv("FLAGS_rpc_get_thread_num", "12"))
        self._rpc_prefetch_thread_num = int(os.getenv("FLAGS_rpc_prefetch_thread_num", "12"))


def check(config: DistributeTranspilerConfig) -> None:
    """Refuses what cannot be, and says what to use instead."""
    if not isinstance(config, DistributeTranspilerConfig):
        raise TypeError(
            f"config is a {type(config).__name__}; DistributeTranspiler takes a DistributeTranspilerConfig."
        )
    size = config.min_block_size
    if isinstance(size, bool) or not isinstance(size, int) or size < SMALLEST_BLOCK:
        raise AssertionError(
            f"min_block_size is {size!r}; it must be a whole number of at least {SMALLEST_BLOCK}."
        )
    split = config.split_method
    if split is not None and not callable(split):
        raise TypeError(
            f"split_method is {split!r}; use RoundRobin, HashName, a class made from PSDispatcher, or None."
        )
    if isinstance(split, type) and not issubclass(split, PSDispatcher):
        raise TypeError(f"split_method is the class {split.__name__}; it must be made from PSDispatcher.")
    if config.mode in ("nccl2", "collective"):
        raise ValueError(
            f"mode is {config.mode!r}: trainers that average among themselves on GPUs are not part of this "
            "package. "
            "Use mode 'pserver' with at least one parameter server."
        )
    if config.mode != "pserver":
        raise ValueError(f"mode is {config.mode!r}; there is 'pserver'.")
    if config.enable_dc_asgd and config.geo_sgd_mode:
        raise ValueError("enable_dc_asgd compensates for the delay of gradients, and with geo_sgd_mode trainers send none: set one "
                         "of them.")
    every = config.geo_sgd_need_push_nums
    if config.geo_sgd_mode and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
        raise ValueError(f"geo_sgd_need_push_nums is {every!r}; it must be a whole number of batches from 1 on.")


def mode_of(config: DistributeTranspilerConfig, sync_mode: bool) -> int:
    """The mode of trainers and servers alike.

    Synchronous: completely_not_async, or both the config and the call of transpile say sync_mode. Otherwise
    asynchronous, whichever of the two said so.
    """
    if config.geo_sgd_mode:
        return DistributedMode.GEO
    if config.completely_not_async or (config.sync_mode and sync_mode):
        return DistributedMode.SYNC
    is_async = config.runtime_split_send_recv and not config.half_async
    return DistributedMode.ASYNC if is_async else DistributedMode.HALF_ASYNC
