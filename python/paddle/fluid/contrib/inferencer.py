"""Inferencer: the counterpart of Trainer, which loads saved parameters and predicts."""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator

from paddle.fluid import core, io, unique_name
from paddle.fluid.contrib.trainer import check_and_get_place
from paddle.fluid.executor import Executor, scope_guard
from paddle.fluid.framework import Program, program_guard

__all__ = ["Inferencer"]


class Inferencer:
    """Builds a Program from infer_func and loads its parameters from param_path.

    infer_func: returns the prediction, or a list of Variables. parallel: changes nothing, it runs in one
    process with threads inside the ops.

    >>> inferencer = fluid.Inferencer(infer_func, "fit_a_line.params", fluid.CPUPlace())    # doctest: +SKIP
    >>> result, = inferencer.infer({"x": x})                                                # doctest: +SKIP
    """

    def __init__(self, infer_func: Callable, param_path: str, place=None, parallel: bool = False):
        self.param_path = param_path
        self.scope = core.Scope()
        self.parallel = parallel
        self.place = check_and_get_place(place)
        program = Program()
        with program_guard(program, Program()), unique_name.guard():
            self.predict_var = infer_func()
        self.inference_program = program.clone(for_test=True)
        self.exe = Executor(self.place)
        with self._prog_and_scope_guard():
            io.load_params(self.exe, param_path, program)

    def infer(self, inputs: dict, return_numpy: bool = True) -> list:
        """The prediction for {name: array or LoDTensor}."""
        if not isinstance(inputs, dict):
            raise ValueError(f"infer() takes a dict of input names and values, found {inputs!r}.")
        targets = self.predict_var if isinstance(self.predict_var, (list, tuple)) else [self.predict_var]
        names = [var.name for var in targets]
        return self.exe.run(
            self.inference_program, inputs, names, scope=self.scope, return_numpy=return_numpy
        )

    @contextlib.contextmanager
    def _prog_and_scope_guard(self) -> Iterator[None]:
        with program_guard(self.inference_program), scope_guard(self.scope):
            yield
