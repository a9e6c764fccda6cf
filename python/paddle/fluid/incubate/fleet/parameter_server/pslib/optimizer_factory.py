"""The optimizers of pslib."""

from paddle.fluid.incubate.fleet.parameter_server.pslib.not_there import fill_absent

__all__ = ["DistributedAdam", "FLEET_GLOBAL_DICT"]

# What fleet_embedding kept for the optimizer.
FLEET_GLOBAL_DICT: dict = {"enable": False, "emb_to_table": {}, "emb_to_accessor": {}, "emb_to_size": {}, "cur_sparse_id": 0,
                           "cur_accessor": "", "click_name": "", "scale_sparse_grad": None}


class DistributedAdam:
    """Adam with tables of pslib.

    Args:
        optimizer: an optimizer of fluid.optimizer.
    """

    def __init__(self, optimizer):
        self._optimizer = optimizer


fill_absent(DistributedAdam, "minimize")
