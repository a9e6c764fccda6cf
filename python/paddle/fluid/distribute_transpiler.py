"""fluid.distribute_transpiler of v0.11.1 and v0.12; it is in fluid.transpiler since v0.13."""

from paddle.fluid.transpiler.details.ufind import UnionFind  # noqa: F401
from paddle.fluid.transpiler.distribute_transpiler import DistributeTranspiler, VarBlock  # noqa: F401
