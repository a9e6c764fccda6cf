"""Training without servers, by sums among workers. It is not there yet: the names are, and using one says what to use."""

from __future__ import annotations

from paddle.fluid.compiler import BuildStrategy
from paddle.fluid.incubate.fleet.base.fleet_base import DistributedOptimizer, Fleet, Mode

__all__ = ["Collective", "CollectiveOpBasedOptimizer", "CollectiveOptimizer", "DistFCConfig", "DistributedStrategy", "LambConfig",
           "TrainStatus", "fleet"]  # fmt: skip

INSTEAD = ("Train with parameter servers: fleet of fluid.incubate.fleet.parameter_server.distribute_transpiler, with the sync "
           "strategy, averages in the same way (docs/FLEET.md); on one machine fluid.CompiledProgram(...).with_data_parallel uses "
           "all cores.")


def _not_there(what: str) -> NotImplementedError:
    return NotImplementedError(f"{what} is not there yet: workers cannot train without servers. {INSTEAD}")


class LambConfig:
    """Settings of Lamb in a collective job."""


class DistFCConfig:
    """Settings of an fc layer that lies on several workers."""


class TrainStatus:
    """Where a job is: what its checkpoints keep beside parameters.

    Args:
        epoch_no: the last epoch that was trained; -1: none.
    """

    def __init__(self, epoch_no: int = -1):
        self._epoch_no = epoch_no

    def next(self) -> int:
        """The next epoch."""
        return self._epoch_no + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrainStatus) and self._epoch_no == other._epoch_no

    __hash__ = None


class DistributedStrategy(BuildStrategy):
    """How a collective job trains."""

    _defaults = {**BuildStrategy._defaults, "use_local_sgd": False, "use_dist_fc": False, "dist_fc_config": None, "mode": "nccl2",
                 "collective_mode": None, "nccl_comm_num": 1, "forward_recompute": False, "recompute_checkpoints": [],
                 "use_amp": False, "amp_loss_scaling": 2**15, "exec_strategy": None}  # fmt: skip


class Collective(Fleet):
    """The Fleet without servers."""

    def __init__(self):
        super().__init__(Mode.COLLECTIVE)
        self.startup_program = self.main_program = self._origin_program = None

    def distributed_optimizer(self, optimizer, strategy=None) -> CollectiveOptimizer:
        """Not there yet; the call says what to use.

        Args:
            optimizer: an optimizer of fluid.optimizer.
            strategy: a DistributedStrategy.
        """
        raise _not_there("fleet.collective.distributed_optimizer")

    def init_worker(self) -> None:
        """A collective job has nothing to start."""
        raise _not_there("fleet.collective.init_worker")

    def run_worker(self, main_programs=None, scopes=None) -> None:
        """Not there yet; the call says what to use."""
        raise _not_there("fleet.collective.run_worker")

    def init_server(self, model_dir=None) -> None:
        """There are no servers."""
        raise _not_there("fleet.collective.init_server")

    def run_server(self) -> None:
        """There are no servers."""
        raise _not_there("fleet.collective.run_server")

    def stop_worker(self) -> None:
        """A collective job has nothing to stop."""
        raise _not_there("fleet.collective.stop_worker")


class CollectiveOptimizer(DistributedOptimizer):
    """The optimizer of a collective job.

    Args:
        optimizer: an optimizer of fluid.optimizer.
        strategy: a DistributedStrategy; None: its defaults.
    """

    def __init__(self, optimizer, strategy: DistributedStrategy | None = None):
        super().__init__(optimizer, DistributedStrategy() if strategy is None else strategy)

    def minimize(self, loss, startup_program=None, parameter_list=None, no_grad_set=None) -> tuple:
        """Not there yet; the call says what to use.

        Args:
            loss: the Variable to make small.
            startup_program: what fills the parameters.
            parameter_list: which parameters.
            no_grad_set: variables without gradients.
        """
        raise _not_there(f"fleet.collective.{type(self).__name__}.minimize")


class CollectiveOpBasedOptimizer(CollectiveOptimizer):
    """The same by ops in the Program."""


fleet = Collective()
