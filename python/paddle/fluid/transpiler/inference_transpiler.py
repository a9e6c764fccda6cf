"""The InferenceTranspiler of v0.11 to v1.5: a Program for tests and inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle.fluid.framework import Program

if TYPE_CHECKING:
    from paddle.fluid.core import Scope
    from paddle.fluid.hints import PlaceLike


class InferenceTranspiler:
    """Makes a Program ready for inference: its batch_norm and dropout use what training found.

    >>> program = fluid.default_main_program().clone(for_test=True)
    >>> fluid.InferenceTranspiler().transpile(program, fluid.CPUPlace())
    """

    def transpile(self, program: Program, place: PlaceLike, scope: Scope | None = None) -> None:
        """Changes the Program; parameters stay as they are. The joining of ops, which upstream did here too, is the engine's.

        Args:
            program: a Program of inference; it is changed, so give a clone of one that is still needed.
            place: has no effect.
            scope: has no effect.
        """
        if not isinstance(program, Program):
            raise TypeError(f"InferenceTranspiler.transpile: program must be a Program, not {program!r}.")
        for op in program.global_block().ops:
            if op.has_attr("is_test"):
                op._set_attr("is_test", True)
