"""fluid.incubate.data_generator: turns lines of raw data into the text that data sets of slots are read from.

A script makes a class of its own, and a pipe runs it: `cat raw.txt | python my_generator.py > part-0`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_SHOWN = 200  # characters of a line in an error

__all__ = ["MultiSlotDataGenerator", "MultiSlotStringDataGenerator"]


class _Lines:
    """The lines of standard input, and which was the last."""

    def __init__(self):
        self._number, self._line, self._noted = 0, "", None

    def __iter__(self) -> Iterator[str]:
        for self._number, self._line in enumerate(sys.stdin, 1):
            yield self._line

    def note(self, error: Exception, what: str) -> None:
        if self._number and self._noted is not error:
            line = self._line.rstrip("\r\n")
            shown = repr(line[:_SHOWN]) + (f"... ({len(line)} characters)" if len(line) > _SHOWN else "")
            error.add_note(f"{what} line {self._number} of the input: {shown}")
            self._noted = error


class DataGenerator:
    """The base: reads samples, hands them on in batches, and writes their lines."""

    def __init__(self):
        self._proto_info: list[tuple[str, str]] | None = None
        self.batch_size_ = 32

    def _set_line_limit(self, line_limit: int) -> None:
        if not isinstance(line_limit, int):
            raise ValueError(f"line_limit{type(line_limit)} must be in int type")
        if line_limit < 1:
            raise ValueError("line_limit can not less than 1")
        self._line_limit = line_limit

    def set_batch(self, batch_size: int) -> None:
        """Sets how many samples generate_batch() gets at a time.

        Args:
            batch_size: so many.
        """
        self.batch_size_ = batch_size

    def run_from_memory(self) -> None:
        """Writes the samples of generate_sample(None) to standard output."""
        self._write_batches(self.generate_sample(None)())

    def run_from_stdin(self) -> None:
        """Writes the samples of all lines of standard input to standard output. An exception gets a note that names its line."""
        lines = _Lines()
        try:
            self._write_batches(sample for line in lines for sample in self._samples_of(line, lines))
        except Exception as error:
            lines.note(error, "The batch of samples ends at")
            raise

    def _samples_of(self, line: str, lines: _Lines) -> Iterator[Any]:
        try:
            yield from self.generate_sample(line)()
        except Exception as error:
            lines.note(error, "This was")
            raise

    def _write_batches(self, samples: Iterable[Any]) -> None:
        batch: list = []
        for sample in samples:
            if sample is not None:
                batch.append(sample)
                if len(batch) == self.batch_size_:
                    self._write(batch)
                    batch = []
        if batch:
            self._write(batch)

    def _write(self, batch: list) -> None:
        # One write for a batch: of many small ones, each would take the lock of the stream.
        sys.stdout.write("".join(map(self._gen_str, self.generate_batch(batch)())))

    def _gen_str(self, line: Any) -> str:
        """The line of a sample."""
        raise NotImplementedError("pls use MultiSlotDataGenerator or PairWiseDataGenerator")

    def generate_sample(self, line: str | None) -> Callable[[], Iterator[Any]]:
        """To override: a function without arguments that yields the samples of a line, each
        [(name, [value, ...]), ...]; None is passed over.

        Args:
            line: a line of the input, with its newline; None when there is no input.
        """
        raise NotImplementedError(
            "Please rewrite this function to return a list or tuple: [(name, [feasign, ...]), ...] or ((name, [feasign, ...]), ...)"
        )

    def generate_batch(self, samples: list) -> Callable[[], Iterator[Any]]:
        """To override where samples of a batch depend on each other, as in padding: a function without arguments that yields
        samples.

        Args:
            samples: those of a batch.
        """
        return lambda: iter(samples)


class MultiSlotStringDataGenerator(DataGenerator):
    """As MultiSlotDataGenerator, for samples of texts, which are written as they are.

    >>> from paddle.fluid.incubate.data_generator import MultiSlotStringDataGenerator
    >>> class Words(MultiSlotStringDataGenerator):
    ...     def generate_sample(self, line):
    ...         return lambda: iter([[("words", ["1926", "08", "17"]), ("label", ["1"])]])
    >>> Words().run_from_memory()
    3 1926 08 17 1 1
    """

    def _gen_str(self, line: Any) -> str:
        """'3 a b c 1 d' of [(name, [a, b, c]), (name, [d])]."""
        line = _slots_of(line, "[('words', ['1926', '08', '17']), ('label', ['1'])]")
        slots = [_as_in_python_2(values) for _, values in line]
        return " ".join([" ".join([str(len(values)), *values]) for values in slots]) + "\n"


class MultiSlotDataGenerator(DataGenerator):
    """Samples of numbers, a line for each. All have the same slots in the same order; `_proto_info` says which had floats so far.

    generate_sample(line), which a class of your own has, returns a function that yields the samples of a line of input.

    >>> from paddle.fluid.incubate.data_generator import MultiSlotDataGenerator
    >>> class Words(MultiSlotDataGenerator):
    ...     def generate_sample(self, line):
    ...         def samples():
    ...             yield [("words", [1926, 8, 17]), ("label", [1])]
    ...         return samples
    >>> Words().run_from_memory()
    3 1926 8 17 1 1
    """

    def _gen_str(self, line: Any) -> str:
        """'3 1 2 3 1 0.5' of [(name, [1, 2, 3]), (name, [0.5])]."""
        line = _slots_of(line, "[('words', [1926, 8, 17]), ('label', [1])]")
        known = self._proto_info
        slots = [] if known is None else known
        if known is not None and len(line) != len(known):
            raise ValueError("the complete field set of two given line are inconsistent.")
        parts = []
        for index, (name, values) in enumerate(line):
            if known is None:
                slots.append((name, "uint64"))
            values = _as_in_python_2(values)
            _check_slot(name, values, slots[index][0])
            if slots[index][1] != "float" and _has_float(values):
                slots[index] = (name, "float")
            parts.append(f"{len(values)} {' '.join(map(str, values))}")
        self._proto_info = slots
        return " ".join(parts) + "\n"


def _as_in_python_2(made: Any) -> Any:
    """zip(), map() and filter() made lists when scripts with generators were written."""
    return list(made) if isinstance(made, (zip, map, filter)) else made


def _slots_of(line: Any, example: str) -> Any:
    """The slots of a sample, a list or a tuple of them."""
    line = _as_in_python_2(line)
    if not isinstance(line, (list, tuple)):
        raise ValueError(f"the output of process() must be in list or tuple type, and what generate_sample yields is {line!r}. "
                         f"Example: {example}")
    return line


def _check_slot(name: Any, values: Any, wanted: str) -> None:
    if not isinstance(name, str):
        raise ValueError(f"name{type(name)} must be in str type")
    if not isinstance(values, list):
        raise ValueError(f"elements{type(values)} must be in list type")
    if not values:
        raise ValueError("the elements of each field can not be empty, you need padding it in process().")
    if name != wanted:
        raise ValueError(f"the field name of two given line are not match: require<{wanted}>, get<{name}>.")


def _has_float(values: list) -> bool:
    """Is one of these numbers a float? Other things than numbers are an error."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return False
    for kind in kinds:
        if not issubclass(kind, (int, float)):
            raise ValueError(f"the type of element{kind} must be in int or float")
    return any(issubclass(kind, float) for kind in kinds)
