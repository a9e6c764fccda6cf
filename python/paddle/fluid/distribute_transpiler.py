"""fluid.distribute_transpiler of v0.11.1 and v0.12; it is in fluid.transpiler since v0.13."""

from paddle import absent
from paddle.fluid.transpiler.details.ufind import UnionFind  # noqa: F401
from paddle.fluid.transpiler.distribute_transpiler import DistributeTranspiler, VarBlock  # noqa: F401


def __getattr__(name: str):
    absent.refuse(__name__, name)
