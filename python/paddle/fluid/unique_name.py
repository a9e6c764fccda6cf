"""Automatic names. A key counts from zero in the current name space: `fc_0`, `fc_1`, ...

Files of parameters are found by these names, so the order of `generate` calls is part of a layer's promise.
"""

import contextlib
from typing import Iterator

__all__ = ["generate", "switch", "guard"]


class UniqueNameGenerator:
    """One name space. `prefix` goes in front of every name it makes."""

    def __init__(self, prefix: str | None = None):
        self.ids: dict = {}
        self.prefix = prefix or ""

    def __call__(self, key: str) -> str:
        number = self.ids.get(key, 0)
        self.ids[key] = number + 1
        return f"{self.prefix}{key}_{number}"


class DygraphParameterNameChecker:
    """Remembers parameter names; a call answers whether the name was seen before."""

    def __init__(self):
        self._name_set: set = set()

    def __call__(self, name: str) -> bool:
        seen = name in self._name_set
        self._name_set.add(name)
        return seen


generator = UniqueNameGenerator()
dygraph_parameter_name_checker = DygraphParameterNameChecker()


def generate(key: str) -> str:
    """Returns the next name for `key` in the current name space.

    Args:
        key: the stem, e.g. 'fc'.

    Returns:
        the name.
    """
    return generator(key)


def generate_with_ignorable_key(key: str) -> str:
    """The same as `generate`; layers use it for names nobody looks up later."""
    return generator(key)


def switch(new_generator: UniqueNameGenerator | None = None, new_para_name_checker: object = None) -> tuple:
    """Makes `new_generator` (or a fresh one) current; returns the pair that was current before.

    Args:
        new_generator: a UniqueNameGenerator; None: a fresh one.
        new_para_name_checker: has no effect.

    Returns:
        what was current before.
    """
    global generator, dygraph_parameter_name_checker
    if isinstance(new_generator, tuple):  # what an earlier switch() returned, handed back as one value
        new_generator, new_para_name_checker = new_generator
    old = generator, dygraph_parameter_name_checker
    generator = UniqueNameGenerator() if new_generator is None else new_generator
    dygraph_parameter_name_checker = (
        DygraphParameterNameChecker() if new_para_name_checker is None else new_para_name_checker
    )
    return old


@contextlib.contextmanager
def guard(new_generator: str | bytes | UniqueNameGenerator | None = None) -> Iterator[None]:
    """Runs the body in a fresh name space; a string becomes the prefix of its names.

    Args:
        new_generator: a UniqueNameGenerator, or a prefix; None: a fresh one.

    >>> with fluid.unique_name.guard("A"):
    ...     fluid.unique_name.generate("fc")
    'Afc_0'
    """
    if isinstance(new_generator, bytes):
        new_generator = new_generator.decode()
    if isinstance(new_generator, str):
        new_generator = UniqueNameGenerator(new_generator)
    old = switch(new_generator)
    try:
        yield
    finally:
        switch(*old)
