"""Finds the distributed lookup table of a Program: the parameter of embedding(is_distributed=True)."""

from __future__ import annotations

LOOKUP_TABLE_TYPE = "lookup_table"


def _lookups(program, table_name: str) -> list:
    return [
        op
        for op in program.global_block().ops
        if op.type == LOOKUP_TABLE_TYPE and op.input("W") == [table_name]
    ]


def find_distributed_lookup_table_inputs(program, table_name: str) -> list:
    """The variables of ids that are looked up in the table."""
    block = program.current_block()
    return [block.vars[name] for op in _lookups(program, table_name) for name in op.input("Ids")]


def find_distributed_lookup_table_outputs(program, table_name: str) -> list:
    """The variables that rows of the table are looked up into."""
    block = program.current_block()
    return [block.vars[name] for op in _lookups(program, table_name) for name in op.output("Out")]


def find_distributed_lookup_table(program) -> str | None:
    """The name of the table, or None. There can be one, and all its lookups must be marked."""
    lookups = [op for op in program.global_block().ops if op.type == LOOKUP_TABLE_TYPE]
    tables = {op.input("W")[0] for op in lookups if op.attr("is_distributed")}
    if len(tables) > 1:
        raise RuntimeError(
            f"the embeddings of {', '.join(sorted(tables))} have is_distributed=True; a Program can have "
            "one such table."
        )
    for table in tables:
        if not all(op.attr("is_distributed") for op in lookups if op.input("W") == [table]):
            raise RuntimeError(
                f"some embeddings of the table {table!r} have is_distributed=True and some do not; mark all."
            )
        return table
    return None
