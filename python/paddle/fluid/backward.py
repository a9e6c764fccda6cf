"""append_backward and gradients: the gradient ops are made by a pass of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle.fluid import core, shown, suggest
from paddle.fluid.framework import Parameter, Program, Variable
from paddle.fluid.vartype import OpRole, dtype_is_floating

if TYPE_CHECKING:
    from paddle.fluid.hints import Variables

__all__ = ["append_backward", "gradients"]


def _names(items, what: str) -> list[str]:
    """Names of Variables; gradients' names in a no_grad_set mean their variables."""
    if isinstance(items, (str, Variable)):
        items = [items]
    if items is not None and not isinstance(items, (list, tuple, set, frozenset)):
        raise TypeError(f"{what} is a list of Variables or their names, found {items!r}.")
    names = []
    for item in items or ():
        if not isinstance(item, (str, Variable)):
            raise TypeError(
                f"{what} holds Variables or their names, found {shown.found(item)}."
            )
        name = item if isinstance(item, str) else item.name
        names.append(name)
    return names


def _no_grad_names(no_grad_set) -> list[str]:
    if isinstance(no_grad_set, dict):  # {block number: names}, as of v0.11
        no_grad_set = [name for names in no_grad_set.values() for name in names]
    suffix = "@GRAD"
    names = _names(no_grad_set, "no_grad_set")
    return sorted({name[: -len(suffix)] if name.endswith(suffix) else name for name in names})


def _clips(program: Program, callbacks) -> list[tuple]:
    """The error clips of the Program's variables, when the callback that applies them is asked for."""
    from paddle.fluid.clip import error_clip_callback

    if callbacks is None:
        return []
    for callback in callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]:
        if callback is not error_clip_callback:
            raise NotImplementedError(
                f"append_backward: the callback {callback!r} is not there yet. Only "
                "fluid.clip.error_clip_callback is."
            )
    clips = []
    for part in program._parts.values():
        rule = getattr(part, "error_clip", None) if isinstance(part, Variable) else None
        if rule is not None:
            if not hasattr(rule, "max"):
                raise TypeError(
                    f"error_clip of {part.name!r} is a {type(rule).__name__}. Use clip.ErrorClipByValue."
                )
            clips.append((part.name, float(rule.min), float(rule.max)))
    return clips


def _is_stopped(program: Program, name: str) -> bool:
    """Is it a parameter that the script froze by its stop_gradient?"""
    var = program.global_block().vars.get(name)
    return isinstance(var, Parameter) and var.stop_gradient


def _sources_with_gradient(program: Program) -> list[str]:
    """Data, and what ops without inputs make, where stop_gradient is off: scripts fetch their gradients by name."""
    block = program.global_block()
    made = {name for op in block.ops if not op.input_arg_names for name in op.output_arg_names}
    return [
        var.name
        for var in block._all_vars()
        if (var.is_data or (var.name in made and not var.persistable))
        and not var.stop_gradient
        and var._has_dtype
        and dtype_is_floating(var.dtype)
    ]


def _first_computed(program: Program) -> list[str]:
    """What ops make from nothing that has a gradient: where a Program has no parameters, gradients end there."""
    block = program.global_block()
    ends = {}
    for op in block.ops:
        inputs = [block._find_var_recursive(name) for name in op.input_arg_names]
        if all(var is None or var.stop_gradient for var in inputs):
            outputs = [block._find_var_recursive(name) for name in op.output_arg_names]
            ends.update((var.name, var) for var in outputs if var is not None and not var.stop_gradient)
    return [name for name, var in ends.items() if var._has_dtype and dtype_is_floating(var.dtype)]


def _note_writers(program: Program, grads: list) -> None:
    """Tells each gradient which op writes it last."""
    wanted = {grad.name: grad for grad in grads if grad is not None}
    for block in program.blocks:
        for op in reversed(block.ops) if wanted else ():
            for name in op.output_arg_names:
                grad = wanted.pop(name, None)
                if grad is not None:
                    grad.op = op


def _check_known(program: Program, names: list[str]) -> None:
    block = program.global_block()
    for name in names:
        if not block.has_var(name):
            near = suggest.did_you_mean(name, [param.name for param in block.all_parameters()])
            raise core.NotFoundError(f"parameter_list names {name!r}, which is no variable of the Program.{near}")


def append_backward(
    loss: Variable, parameter_list: list | None = None, no_grad_set: set | list | None = None,
    callbacks: list | None = None, checkpoints: list | None = None
) -> list[tuple]:
    """Appends the ops that compute the gradients of `loss`; returns pairs (parameter, gradient).

    parameter_list: Variables or names, all trainable parameters by default. no_grad_set: what gets none; a parameter whose
    stop_gradient is on gets none either.
    checkpoints save memory upstream by computing again; here they change nothing.

    Args:
        loss: a Variable of one element.
        parameter_list: Variables or names; None: all trainable parameters.
        no_grad_set: Variables or names that get no gradient.
        callbacks: None, or [fluid.clip.error_clip_callback].
        checkpoints: has no effect.

    Returns:
        pairs (parameter, gradient).

    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data(name='x', shape=[None, 2]), 1))
    >>> [grad.name for _, grad in fluid.backward.append_backward(loss)]
    ['fc_0.w_0@GRAD', 'fc_0.b_0@GRAD']
    """
    if not isinstance(loss, Variable):
        raise TypeError(
            f"append_backward: the loss must be a Variable, found {shown.found(loss)}."
        )
    program = loss.block.program
    if parameter_list is not None:
        names = _names(parameter_list, "parameter_list")
        if not names:
            return []
        _check_known(program, names)
    else:
        names = [param.name for param in program.global_block().all_parameters() if param.trainable]
    program._appending_grad_times += 1
    names = [name for name in names if not _is_stopped(program, name)]
    wanted = set(names)
    names += [name for name in _sources_with_gradient(program) if name not in wanted]
    names = names or _first_computed(program)
    if not names:
        return []
    op = loss.op
    if op is not None:
        op._put_attr("op_role", int(OpRole.Forward) | int(OpRole.Loss))
    no_grads, clips = _no_grad_names(no_grad_set), _clips(program, callbacks)
    if program.current_block_idx:
        from paddle.fluid import backward_branch

        pairs = backward_branch.append(program, loss, names, no_grads, clips)
    else:
        pairs = program._append_backward(loss, names, no_grads, clips)
    block, here = program.global_block(), program.current_block()
    result = [(block.var(param), here._var_recursive(grad)) for param, grad in pairs if param in wanted]
    _note_writers(program, [grad for _, grad in result])
    return result


def _as_list(items) -> list:
    if items is None:
        return []
    return list(items) if isinstance(items, (list, tuple)) else [items]


def gradients(targets: Variables, inputs: Variables, target_gradients: Variables | None = None,
              no_grad_set: set | list | None = None) -> list:
    """Gradients of `targets` with respect to `inputs`; None where a target does not depend on an input.

    target_gradients: what flows into each target, ones by default.

    Args:
        targets: a Variable, or a list of them.
        inputs: a Variable, or a list of them.
        target_gradients: what flows into each target; None: ones.
        no_grad_set: Variables or names that get no gradient.

    Returns:
        a gradient for each input; None where no target depends on it. An empty list for a single input of that kind.
    """
    found = _gradients(targets, inputs, target_gradients, no_grad_set)
    return [] if len(found) == 1 and found[0] is None else found


def _gradients(targets, inputs, target_gradients, no_grad_set) -> list:
    """A gradient for each input; None where no target depends on it."""
    targets, inputs = _as_list(targets), _as_list(inputs)
    given = _as_list(target_gradients) or [None] * len(targets)
    if len(given) != len(targets):
        raise ValueError(
            f"gradients: {len(targets)} targets, but {len(given)} target_gradients. Give one for each."
        )
    for item in (*targets, *inputs):
        if not isinstance(item, Variable):
            raise TypeError(f"gradients: targets and inputs are Variables, found {item!r}.")
    program = targets[0].block.program
    for item in (*targets, *inputs):
        if item.block.program is not program:
            raise ValueError(f"gradients: {item.name!r} belongs to another Program than {targets[0].name!r}.")
    for target, grad in zip(targets, given):
        if grad is not None and tuple(grad.shape) != tuple(target.shape):
            raise ValueError(
                f"gradients: {target.name!r} has shape {target.shape}, its gradient {grad.name!r} has "
                f"{grad.shape}."
            )
    program._appending_grad_times += 1
    names = program._gradients(targets, given, inputs, _no_grad_names(no_grad_set))
    block = targets[0].block
    found = [None if name is None else block._var_recursive(name) for name in names]
    _note_writers(program, found)
    return found


def calc_gradient(targets: Variables, inputs: Variables, target_gradients: Variables | None = None,
                  no_grad_set: set | list | None = None):
    """The same as gradients(); a single input gives a single Variable, or None where no target depends on it."""
    found = _gradients(targets, inputs, target_gradients, no_grad_set)
    return found[0] if len(found) == 1 else found
