"""GeoSgdTranspiler of v1.6 to v1.8: DistributeTranspiler with geo_sgd_mode."""

from __future__ import annotations

from paddle.fluid.transpiler.distribute_transpiler import DistributeTranspiler, DistributeTranspilerConfig


class GeoSgdTranspiler(DistributeTranspiler):
    """Trainers update their parameters by themselves, and tell servers what has changed (geo.py).

    Args:
        config: a DistributeTranspilerConfig; sync_mode and geo_sgd_mode are set in it.

    >>> GeoSgdTranspiler().config.geo_sgd_mode
    True
    """

    def __init__(self, config: DistributeTranspilerConfig | None = None):
        config = DistributeTranspilerConfig() if config is None else config
        config.sync_mode = False
        config.geo_sgd_mode = True
        super().__init__(config)
