"""Small tools around transpiled Programs, under the names that scripts import: fluid.transpiler.details."""

from __future__ import annotations

import socket
import sys
import time

from paddle.fluid.transpiler.arguments import parse_endpoints
from paddle.fluid.transpiler.copying import remove_ops
from paddle.fluid.transpiler.vars_distributed import VarDistributed, VarsDistributed, VarStruct

__all__ = [
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


def wait_server_ready(endpoints: list[str], notice: float = 5.0) -> None:
    """Returns when all servers accept connections. Names those that do not every `notice` seconds.

    Nothing here needs it: the first exchange of a trainer waits for its servers, with a deadline.
    """
    waiting, told = parse_endpoints(endpoints), time.monotonic()
    while True:
        waiting = [each for each in waiting if not _accepts(each)]
        if not waiting:
            return
        if time.monotonic() - told >= notice:
            told = time.monotonic()
            print(f"paddle: waiting for the servers {', '.join(waiting)}", file=sys.stderr)
        time.sleep(0.1)


def _accepts(endpoint: str) -> bool:
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
    except OSError:
        return False
    return True


def delete_ops(block, ops) -> None:
    """Removes ops of a block."""
    remove_ops(op for op in ops if op.block is block)


def find_op_by_input_arg(block, arg_name: str) -> int:
    """The place of the first op that reads a variable, or -1."""
    return next((i for i, op in enumerate(block.ops) if arg_name in op.input_arg_names), -1)


def find_op_by_output_arg(block, arg_name: str, reverse: bool = False) -> int:
    """The place of the first (with `reverse` the last) op that writes a variable, or -1."""
    found = [i for i, op in enumerate(block.ops) if arg_name in op.output_arg_names]
    return (found[-1] if reverse else found[0]) if found else -1


def block_to_code(block, block_idx: int | None = None, fout=None, skip_op_callstack: bool = False) -> None:
    """Prints a block."""
    print(block.to_string(throw_on_error=False), file=fout)


def program_to_code(prog, fout=None, skip_op_callstack: bool = True) -> None:
    """Prints a Program."""
    print(prog.to_string(throw_on_error=False), file=fout)
