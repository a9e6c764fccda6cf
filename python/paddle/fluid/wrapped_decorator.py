"""Decorators that keep the name, the doc and the signature of what they wrap."""

import contextlib
import functools
from typing import Callable

__all__ = ["wrap_decorator", "signature_safe_contextmanager"]


def wrap_decorator(decorator_func: Callable) -> Callable:
    """Returns a decorator that does what `decorator_func` does and keeps the look of the wrapped function."""

    def decorate(func):
        return functools.wraps(func)(decorator_func(func))

    return decorate


signature_safe_contextmanager = wrap_decorator(contextlib.contextmanager)
