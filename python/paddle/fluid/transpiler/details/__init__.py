"""fluid.transpiler.details: small tools around transpiled Programs, under the names that scripts import."""

from __future__ import annotations

from paddle.fluid.transpiler.details.checkport import wait_server_ready
from paddle.fluid.transpiler.details.program_utils import (
    block_to_code,
    delete_ops,
    find_op_by_input_arg,
    find_op_by_output_arg,
    program_to_code,
)
from paddle.fluid.transpiler.details.ufind import UnionFind
from paddle.fluid.transpiler.details.vars_distributed import VarDistributed, VarsDistributed, VarStruct

__all__ = [
    "UnionFind",
    "VarDistributed",
    "VarStruct",
    "VarsDistributed",
    "block_to_code",
    "delete_ops",
    "find_op_by_input_arg",
    "find_op_by_output_arg",
    "program_to_code",
    "wait_server_ready",
]
