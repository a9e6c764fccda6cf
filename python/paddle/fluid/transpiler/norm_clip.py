"""clip_by_norm of a parameter in slices, written as a sum over all rows, a factor and a product."""

from __future__ import annotations

from paddle.fluid import unique_name
from paddle.fluid.transpiler.classes import Classes
from paddle.fluid.transpiler.flow import role_of
from paddle.fluid.transpiler.update_graph import NORM_CLIP, UpdateGraph
from paddle.fluid.vartype import VarType


def take_apart(graph: UpdateGraph, is_cut) -> None:
    """Does that for all clips of parameters that `is_cut` says are in slices."""
    if not any(op.type == NORM_CLIP for op in graph.moved):
        return
    classes = Classes(graph, is_cut)
    changes = {
        op: _Clip(graph, op).ops()
        for update in graph.updates
        if is_cut(update)
        for op in classes.ops_of(update)
        if op.type == NORM_CLIP
    }
    if changes:
        graph.replace_ops(changes)


class _Clip:
    def __init__(self, graph: UpdateGraph, clip):
        self.graph = graph
        self.clip = clip
        self.x = graph.vars[clip.input("X")[0]]
        self.out = graph.vars[clip.output("Out")[0]]
        self.made: list = []

    def _add(self, kind: str, inputs: dict, attrs: dict | None = None, type=VarType.LOD_TENSOR, out=None):
        """Inserts an op before the clip; returns its output."""
        block = self.graph.block
        if out is None:
            name = unique_name.generate(f"{self.out.name}.{kind}")
            out = block.create_var(name=name, dtype=self.x.dtype, type=type)
            self.graph.vars[name] = out
        attrs = {"op_role": role_of(self.clip), **(attrs or {})}
        op = block._insert_op(self.clip.idx, type=kind, inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
        self.made.append(op)
        return out

    def ops(self) -> list:
        """The ops that take the clip's place."""
        rows = values = self.x
        if self.x.type == VarType.SELECTED_ROWS:
            rows = self._add("merge_selected_rows", {"X": [self.x]}, type=VarType.SELECTED_ROWS)
            values = self._add("get_tensor_from_selected_rows", {"X": [rows]})
        squares = self._add("square", {"X": [values]})
        total = self._add("reduce_sum", {"X": [squares]}, {"dim": [0], "reduce_all": True})
        norm = self._add("sqrt", {"X": [total]})
        limit = {"shape": [1], "dtype": int(self.x.dtype), "value": self.clip.attr("max_norm")}
        limit = self._add("fill_constant", {}, limit)
        longest = self._add("elementwise_max", {"X": [norm], "Y": [limit]})
        factor = self._add("elementwise_div", {"X": [limit], "Y": [longest]})
        self._add("elementwise_mul", {"X": [rows], "Y": [factor]}, out=self.out)
        return self.made
