"""pslib: upstream's closed servers for huge tables. Its names are here so that scripts can be read; using one says what to use."""

from __future__ import annotations

from paddle import absent
from paddle.fluid.incubate.fleet.base.fleet_base import DistributedOptimizer, Fleet, Mode
from paddle.fluid.incubate.fleet.base.role_base import RoleMakerBase
from paddle.fluid.incubate.fleet.parameter_server.pslib.not_there import PSLibNotThere, fill_absent, not_there
from paddle.fluid.incubate.fleet.parameter_server.pslib.optimizer_factory import FLEET_GLOBAL_DICT, DistributedAdam

__all__ = ["PSLib", "DownpourOptimizer", "DistributedAdam", "FLEET_GLOBAL_DICT", "fleet", "fleet_embedding"]


class PSLib(Fleet):
    """The Fleet of pslib: knows who this process is, and trains nothing yet."""

    def __init__(self):
        super().__init__(Mode.PSLIB)

    def init(self, role_maker: RoleMakerBase | None = None) -> None:
        """Finds out who this process is.

        Args:
            role_maker: who tells it; None: the environment, as PaddleCloudRoleMaker reads it.
        """
        try:
            super().init(role_maker)
        except ValueError as error:
            if role_maker is not None:
                raise
            raise PSLibNotThere(f"PSLib.init without a role maker: {error}") from None


fill_absent(PSLib, """
    init_worker init_server run_server stop_worker distributed_optimizer save_inference_model save_persistables
    set_pull_local_thread_num print_table_stat save_model_with_whitelist save_cache_model shrink_sparse_table shrink_dense_table
    clear_one_table clear_model load_pslib_whitelist load_one_table confirm revert load_model save_model save_one_table
    """)
fleet = PSLib()


class fleet_embedding:
    """fluid.embedding in tables of pslib."""

    def __init__(self, click_name: str, scale_sparse_grad: bool = True):
        raise not_there("fleet_embedding")


def _prepare_params(*unused, **unused_too) -> None:
    raise not_there("_prepare_params")


def _fleet_embedding(*unused, **unused_too) -> None:
    raise not_there("_fleet_embedding")


_fleet_embedding_v2 = _fleet_embedding


class DownpourOptimizer(DistributedOptimizer):
    """The optimizer of pslib."""

    def __init__(self, optimizer, strategy=None):
        raise not_there("DownpourOptimizer")


def __getattr__(name: str):
    return absent.module_or_refuse(__name__, name, frozenset({"node", "optimizer_factory"}))
