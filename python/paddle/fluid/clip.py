"""Clipping. Of errors, while the backward pass is built; of gradients, before the optimizer's ops.

All rules work on lists of (parameter, gradient) pairs and return new pairs.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Callable

from paddle.fluid import framework, suggest
from paddle.fluid.core import VarDesc
from paddle.fluid.log_helper import notice

if TYPE_CHECKING:
    from paddle.fluid.hints import Block, Program

__all__ = [
    "set_gradient_clip",
    "ErrorClipByValue",
    "GradientClipByValue",
    "GradientClipByNorm",
    "GradientClipByGlobalNorm",
    "append_gradient_clip_ops",
    "error_clip_callback",
]


class BaseErrorClipAttr:
    """What a variable's `error_clip` must be."""

    def _append_clip_op(self, block, grad_name: str) -> None:
        raise TypeError(f"{type(self).__name__} has no clipping rule. Use ErrorClipByValue.")


class ErrorClipByValue(BaseErrorClipAttr):
    """Holds the gradient that flows into a variable within [min, max]; min is -max when left out.

    Args:
        max: the upper limit.
        min: the lower limit; None: -max.
    """

    def __init__(self, max: float, min: float | None = None):
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def __str__(self) -> str:
        return f"ByValue, min={self.min:f}, max={self.max:f}"

    def _append_clip_op(self, block, grad_name: str) -> None:
        block.append_op(
            type="clip",
            inputs={"X": [grad_name]},
            outputs={"Out": [grad_name]},
            attrs={"min": self.min, "max": self.max},
        )

    append_clip_op = _append_clip_op


def error_clip_callback(block: Block, context: dict) -> None:
    """Clips what the last op of `block` wrote. `context` maps gradients to variables, by name.

    Args:
        block: the block whose last op is looked at.
        context: {gradient: variable}, by name.
    """
    for name in block.ops[-1].output_arg_names:
        if name not in context:
            continue
        rule = getattr(block._var_recursive(context[name]), "error_clip", None)
        if rule is None:
            continue
        if not isinstance(rule, BaseErrorClipAttr):
            raise TypeError(
                f"error_clip of {context[name]} is a {type(rule).__name__}. Use ErrorClipByValue."
            )
        rule._append_clip_op(block, name)


class GradientClipBase:
    """What `grad_clip` of an optimizer must be. `need_clip(param)` can leave parameters out."""

    def __init__(self, need_clip: Callable | None = None):
        if need_clip is not None and not callable(need_clip):
            raise TypeError(
                f"need_clip must be a function that takes a parameter and returns True or False, "
                f"not a {type(need_clip).__name__}."
            )
        self._need_clip_func = need_clip

    def __call__(self, params_grads: list) -> list:
        if any(getattr(p, "gradient_clip_attr", None) is not None for p, _ in params_grads):
            notice("the optimizer's grad_clip replaces what set_gradient_clip or ParamAttr asked for.")
        return self._static_clip(params_grads)

    def _wanted(self, param) -> bool:
        return self._need_clip_func is None or bool(self._need_clip_func(param))

    def _static_clip(self, params_grads: list) -> list:
        """Clips each gradient on its own by `_create_operators`; rules over all gradients replace this."""
        result = []
        new_names = {}
        with framework.name_scope("gradient_clip"):
            for param, grad in params_grads:
                if grad is None:
                    continue
                if self._wanted(param):
                    with param.block.program._optimized_guard([param, grad]):
                        _, grad = self._create_operators(param, grad)
                    new_names[param.name] = grad.name
                result.append((param, grad))
        _correct_role_vars(result, new_names)
        return result

    def _process_context(self, context: dict, param, grad) -> None:
        """First pass of the per-parameter form: collects what the second pass needs."""

    def _create_operators(self, param, grad) -> tuple:
        raise TypeError(
            f"{type(self).__name__} has no clipping rule. Use one of the GradientClipBy... classes."
        )

    # Names of v0.11 to v0.14.
    def process_context(self, context, param, grad):
        return self._process_context(context, param, grad)

    def create_operators(self, param, grad):
        return self._create_operators(param, grad)


BaseGradientClipAttr = GradientClipBase


class GradientClipByValue(GradientClipBase):
    """Holds each element of a gradient within [min, max]; min is -max when left out.

    Args:
        max: the upper limit.
        min: the lower limit; None: -max.
        need_clip: a function of a Parameter that says whether its gradient is clipped; None: all are.
    """

    def __init__(self, max: float, min: float | None = None, need_clip: Callable | None = None):
        super().__init__(need_clip)
        if min is None and not max > 0.0:
            raise ValueError(f"GradientClipByValue: max is {max}; without min it must be above zero.")
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def __str__(self) -> str:
        return f"Gradient Clip By Value, min = {self.min:f}, max={self.max:f}"

    def _create_operators(self, param, grad) -> tuple:
        from paddle.fluid import layers

        return param, layers.clip(x=grad, min=self.min, max=self.max)


class GradientClipByNorm(GradientClipBase):
    """Scales a gradient whose norm is above `clip_norm` down to it.

    Args:
        clip_norm: the largest norm.
        need_clip: a function of a Parameter that says whether its gradient is clipped; None: all are.
    """

    def __init__(self, clip_norm: float, need_clip: Callable | None = None):
        super().__init__(need_clip)
        self.clip_norm = float(clip_norm)

    def __str__(self) -> str:
        return f"Gradient Clip By Norm, clip_norm={self.clip_norm:f}"

    def _create_operators(self, param, grad) -> tuple:
        from paddle.fluid import layers

        return param, layers.clip_by_norm(x=grad, max_norm=self.clip_norm)


class GradientClipByGlobalNorm(GradientClipBase):
    """Scales all gradients by clip_norm / max(clip_norm, norm of all of them together).

    In the per-parameter form (set_gradient_clip, ParamAttr) the parameters of one `group_name` share a norm.

    Args:
        clip_norm: the largest norm of all gradients together.
        group_name: Parameters of one group share a norm.
        need_clip: a function of a Parameter that says whether its gradient is clipped; None: all are.
    """

    def __init__(
        self, clip_norm: float, group_name: str = "default_group", need_clip: Callable | None = None
    ):
        super().__init__(need_clip)
        self.clip_norm = float(clip_norm)
        self.group_name = group_name

    def __str__(self) -> str:
        return f"Gradient Clip By GlobalNorm, global_norm={self.clip_norm:f}"

    @staticmethod
    def _sum_of_squares(grad):
        from paddle.fluid import layers

        if grad.type == VarDesc.VarType.SELECTED_ROWS:
            grad = layers.get_tensor_from_selected_rows(layers.merge_selected_rows(grad))
        return layers.reduce_sum(input=layers.square(grad))

    def _limit(self, dtype):
        from paddle.fluid import layers

        return layers.fill_constant(shape=[1], dtype=dtype, value=self.clip_norm)

    @staticmethod
    def _scale(squares: list, limit_of: Callable):
        """Returns limit / max(limit, sqrt(sum of squares)); `limit_of` gives the limit once the "
        "norm is built."""
        from paddle.fluid import layers

        norm = layers.sqrt(x=layers.sums(input=squares))
        limit = limit_of()
        return layers.elementwise_div(x=limit, y=layers.elementwise_max(x=limit, y=norm))

    def _static_clip(self, params_grads: list) -> list:
        from paddle.fluid import layers

        wanted = [(p, g) for p, g in params_grads if g is not None and self._wanted(p)]
        if not wanted:
            return params_grads
        result = []
        new_names = {}
        with framework.name_scope("gradient_clip"):
            squares = []
            for param, grad in wanted:
                with param.block.program._optimized_guard([param, grad]):
                    squares.append(self._sum_of_squares(grad))
            last = [pair for pair in params_grads if pair[1] is not None][-1]
            with last[0].block.program._optimized_guard(list(last)):
                scale = self._scale(squares, lambda: self._limit(squares[0].dtype))
            for param, grad in params_grads:
                if grad is None:
                    continue
                if self._wanted(param):
                    with param.block.program._optimized_guard([param, grad]):
                        grad = layers.elementwise_mul(x=grad, y=scale)
                    new_names[param.name] = grad.name
                result.append((param, grad))
        _correct_role_vars(result, new_names)
        return result

    def _process_context(self, context: dict, param, grad) -> None:
        group = context.setdefault(self.group_name, {})
        if not group:
            group.update(clip_norm=self.clip_norm, limit=self._limit(grad.dtype), squares=[])
        elif group["clip_norm"] != self.clip_norm:
            raise ValueError(
                f"gradient clip group {self.group_name!r} has clip_norm {group['clip_norm']}, and "
                f"{param.name} asks for "
                f"{self.clip_norm}. Give one norm to a group, or another group_name."
            )
        group["squares"].append(self._sum_of_squares(grad))
        self.context = context

    def _create_operators(self, param, grad) -> tuple:
        from paddle.fluid import layers

        group = self.context[self.group_name]
        if "scale" not in group:
            group["scale"] = self._scale(group["squares"], lambda: group["limit"])
        return param, layers.elementwise_mul(x=grad, y=group["scale"])


def set_gradient_clip(clip: GradientClipBase, param_list: list | None = None, program: Program | None = None) -> None:
    """Asks for `clip` on the given parameters (objects or names; all of them by default).

    Call it after the layers are built and before minimize. From v1.8 on, `grad_clip` of the optimizer is the
    shorter way.

    Args:
        clip: a GradientClipBy... object.
        param_list: Parameters or names; None: all.
        program: whose Parameters they are; None: the default main program.
    """
    if not isinstance(clip, GradientClipBase):
        raise TypeError(f"set_gradient_clip takes a GradientClipBy... object, not a {type(clip).__name__}.")
    if program is None:
        program = framework.default_main_program()
    block = program.global_block()
    if any(op._is_optimize_op() for op in block.ops):
        notice("set_gradient_clip was called after minimize and has no effect. Call it before.")
    if param_list is None:
        param_list = block.all_parameters()
    params = [block.var(each) if isinstance(each, str) else each for each in param_list]
    for param in params:
        if not isinstance(param, framework.Parameter):
            raise TypeError(
                f"set_gradient_clip: param_list holds a {type(param).__name__}, not a Parameter or a name."
            )
    for param in params:
        param.gradient_clip_attr = copy.deepcopy(clip)


def append_gradient_clip_ops(param_grads: list) -> list:
    """Adds the ops for clips that parameters carry themselves; the other pairs stay as they are.

    Args:
        param_grads: pairs (parameter, gradient).

    Returns:
        pairs (parameter, gradient).
    """
    context: dict = {}
    found = False
    for param, grad in param_grads:
        rule = getattr(param, "gradient_clip_attr", None)
        if grad is None or rule is None:
            continue
        if not isinstance(rule, GradientClipBase):
            raise TypeError(
                f"the gradient clip of {param.name} is a {type(rule).__name__}. Use "
                "GradientClipBy... classes."
            )
        found = True
        with param.block.program._optimized_guard([param, grad]), framework.name_scope("gradient_clip_@CLIP"):
            rule._process_context(context=context, param=param, grad=grad)
    if not found:
        return param_grads

    result = []
    new_names = {}
    for param, grad in param_grads:
        if grad is None:
            continue
        rule = getattr(param, "gradient_clip_attr", None)
        if rule is not None:
            # The scope's spelling is that of the programs users have on disk.
            role = param.block.program._optimized_guard([param, grad])
            with role, framework.name_scope("graident_clip_@CLIP"):
                _, grad = rule._create_operators(param=param, grad=grad)
            new_names[param.name] = grad.name
        result.append([param, grad])
    _correct_role_vars(result, new_names)
    return result


def _correct_role_vars(params_grads: list, new_names: dict) -> None:
    """Makes the clip ops' op_role_var name the clipped gradient, which is the one the optimizer reads."""
    if not new_names:
        return
    programs = []
    for param, _ in params_grads:
        if not any(param.block.program is each for each in programs):
            programs.append(param.block.program)
    for program in programs:
        for op in program.global_block().ops:
            # A scope of the script's may be called so, too: its ops have other roles.
            if not op._is_optimize_op() or not op.has_attr("op_namescope") or "gradient_clip" not in op.attr("op_namescope"):
                continue
            role_var = op.attr("op_role_var") if op.has_attr("op_role_var") else None
            if role_var and role_var[0] in new_names:
                op._set_attr("op_role_var", [role_var[0], new_names[role_var[0]]])


ClipByValue = GradientClipByValue
ClipByNorm = GradientClipByNorm
ClipByGlobalNorm = GradientClipByGlobalNorm


suggest.make_helpful(__all__, globals())
