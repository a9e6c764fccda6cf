"""Marks on functions that users should move away from."""

import functools
from typing import Callable

__all__ = ["deprecated"]


def deprecated(since: str, instead: str, extra_message: str = "") -> Callable:
    """Marks a function as out of date: each call still works and says on stderr what to use now."""

    def decorate(func):
        text = f"{func.__name__} is out of date since version {since}; use {instead}."
        if extra_message:
            text = f"{text}\n{extra_message}"

        @functools.wraps(func)
        def call(*args, **kwargs):
            import sys

            print(text, file=sys.stderr)
            return func(*args, **kwargs)

        call.__doc__ = f"{func.__doc__ or ''}\n\n    {text}"
        return call

    return decorate
