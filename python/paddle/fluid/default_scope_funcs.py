"""A stack of scopes per thread, with short names for what is done on the innermost one."""

import threading
from typing import Callable

from paddle.fluid import core

__all__ = ["get_cur_scope", "enter_local_scope", "leave_local_scope", "var", "find_var", "scoped_function"]

_stack_of = threading.local()


def _stack() -> list:
    stack = getattr(_stack_of, "scopes", None)
    if not stack:
        stack = _stack_of.scopes = [core.Scope()]
    return stack


def get_cur_scope():
    """Returns the innermost scope of this thread; makes a first one if there is none."""
    return _stack()[-1]


def enter_local_scope() -> None:
    """Opens a child of the current scope and makes it current."""
    stack = _stack()
    stack.append(stack[-1].new_scope())


def leave_local_scope() -> None:
    """Closes the innermost scope; what was made in it is gone."""
    stack = _stack()
    stack.pop()
    get_cur_scope().drop_kids()


def var(name: str):
    """Returns the variable `name` of the current scope; makes it if needed."""
    return get_cur_scope().var(name)


def find_var(name: str):
    """Returns the variable `name` of the current scope or of one around it, or None."""
    return get_cur_scope().find_var(name)


def scoped_function(func: Callable[[], object]) -> None:
    """Calls `func` inside a local scope that is closed afterwards."""
    enter_local_scope()
    try:
        func()
    finally:
        leave_local_scope()
