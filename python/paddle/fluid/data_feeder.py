"""From what readers yield to what the executor is fed, and the checks of types that layers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Iterable, Iterator

import numpy as np

from paddle.fluid import core, shown, suggest

if TYPE_CHECKING:
    from paddle.fluid.hints import ArrayLike, DTypeLike, LoDTensor, PlaceLike, Program, ShapeLike, Variable

__all__ = ["DataFeeder"]

_KINDS = core.VarDesc.VarType
_NAMES = {
    _KINDS.BOOL: "bool",
    _KINDS.FP16: "float16",
    _KINDS.FP32: "float32",
    _KINDS.FP64: "float64",
    _KINDS.INT8: "int8",
    _KINDS.INT16: "int16",
    _KINDS.INT32: "int32",
    _KINDS.INT64: "int64",
    _KINDS.UINT8: "uint8",
}
_KNOWN = frozenset(_NAMES.values())


def convert_dtype(dtype: DTypeLike) -> str:
    """Returns the name ('float32', 'int64', ...) of a type given as VarType, numpy type or name."""
    if isinstance(dtype, str):
        if dtype in _KNOWN:
            return dtype
    elif isinstance(dtype, _KINDS):
        if dtype in _NAMES:
            return _NAMES[dtype]
    elif isinstance(dtype, (type, np.dtype)):
        name = np.dtype(dtype).name
        if name in _KNOWN:
            return name
    elif isinstance(dtype, int) and not isinstance(dtype, bool):
        for kind, name in _NAMES.items():
            if int(kind) == dtype:
                return name
    raise ValueError(f"{dtype!r} is no type of tensor elements. Use one of {', '.join(sorted(_KNOWN))}.")


def check_type(input: Variable, input_name: str, expected_type, op_name: str, extra_message: str = "") -> None:
    """Raises TypeError unless `input` is one of the expected types."""
    if not isinstance(input, expected_type):
        kinds = expected_type if isinstance(expected_type, tuple) else (expected_type,)
        wanted = " or ".join(kind.__name__ for kind in kinds)
        found = type(input).__name__
        raise TypeError(f"{op_name}: {input_name} must be {wanted}, but is {found}. {extra_message}".rstrip())


def check_dtype(input_dtype, input_name: str, expected_dtype, op_name: str, extra_message: str = "") -> None:
    """Raises TypeError unless the element type is one of the expected names."""
    found = convert_dtype(input_dtype)
    if isinstance(expected_dtype, str):
        expected_dtype = (expected_dtype,)
    if found not in expected_dtype:
        raise TypeError(
            f"{op_name}: {input_name} must hold {' or '.join(expected_dtype)}, but holds {found}. "
            f"{extra_message}".rstrip()
        )


def check_variable_and_dtype(
    input: Variable, input_name: str, expected_dtype, op_name: str, extra_message: str = ""
) -> None:
    """Raises TypeError unless `input` is a Variable with one of the expected element types."""
    from paddle.fluid.framework import Variable

    check_type(input, input_name, Variable, op_name, extra_message)
    check_dtype(input.dtype, input_name, expected_dtype, op_name, extra_message)


def array_of(data: ArrayLike, dtype: str | None = None) -> np.ndarray:
    """np.asarray, but a None in the data is an error: numpy makes a NaN or a False of it."""
    array = np.asarray(data, dtype=dtype)
    doubtful = array.dtype.kind == "b" or (array.dtype.kind == "f" and array.size and np.isnan(array.min()))
    if doubtful and any(each is None for each in np.asarray(data, dtype=object).flat):
        raise ValueError("there is a None in it")
    return array


class DataToLoDTensorConverter:
    """Gathers the samples of one feed variable and makes a tensor of them.

    At `lod_level` n a sample is a sequence nested n deep; the lengths met on the way become the tensor's LoD.
    """

    def __init__(self, place: PlaceLike, lod_level: int, shape: ShapeLike, dtype: DTypeLike):
        self.place = place
        self.lod_level = lod_level
        # With two unknown sides a flat array cannot be put into shape, so it is taken as it comes.
        self.shape = None if sum(side < 0 for side in shape) > 1 else [max(side, -1) for side in shape]
        self.dtype = convert_dtype(dtype)
        self._reset()

    def _reset(self) -> None:
        self.data: list = []
        self.lod: list = [[] for _ in range(self.lod_level)]

    def feed(self, data: ArrayLike | LoDTensor) -> None:
        """Adds one sample."""
        if self.lod_level == 0:
            self.data.append(data)
        else:
            self._feed_nested(data, 0)

    def _feed_nested(self, data, level: int) -> None:
        self.lod[level].append(len(data))
        if level + 1 == self.lod_level:
            self.data.extend(data)
        else:
            for each in data:
                self._feed_nested(each, level + 1)

    def _array(self) -> np.ndarray:
        try:
            array = array_of(self.data, self.dtype)
        except (ValueError, TypeError) as error:
            hint = " Samples of different lengths need a variable with lod_level=1 or more."
            raise ValueError(
                f"the samples do not form one array of {self.dtype}: {shown.sentence(str(error))}"
                f"{hint if 'inhomogeneous' in str(error) else ''}"
            ) from None
        if self.shape and array.ndim != len(self.shape):
            try:
                array = array.reshape(self.shape)
            except ValueError:
                raise ValueError(
                    f"the samples have shape {list(array.shape)}, which does not fit the declared "
                    f"shape {self.shape}."
                ) from None
        return array

    def done(self):
        """Returns the tensor of all samples since the last call."""
        tensor = core.LoDTensor()
        tensor.set(self._array(), self.place)
        if self.lod_level > 0:
            tensor.set_recursive_sequence_lengths(self.lod)
        self._reset()
        return tensor


def _check_fields(sample, names: list) -> None:
    if len(sample) != len(names):
        raise ValueError(f"a sample has {len(sample)} fields, but feed_list names {len(names)} variables: {', '.join(names)}.")


class BatchedTensorProvider:
    """Calls a generator of samples and yields, per `batch_size` of them, one tensor for each variable."""

    def __init__(self, feed_list: list, place: PlaceLike, batch_size: int, generator: Callable, drop_last: bool):
        for var in feed_list:
            if var.lod_level != 0:
                raise ValueError(
                    f"{var.name} has lod_level {var.lod_level}; batches of plain samples need level 0."
                )
        self.place = place
        self.batch_size = batch_size
        self.generator = generator
        self.drop_last = drop_last
        self.names = [var.name for var in feed_list]
        self.fields = [(var.shape, var.dtype) for var in feed_list]

    def __call__(self) -> Iterator[list]:
        converters = [DataToLoDTensorConverter(self.place, 0, shape, dtype) for shape, dtype in self.fields]
        count = 0
        for sample in self.generator():
            _check_fields(sample, self.names)
            for slot, converter in zip(sample, converters):
                converter.feed(slot)
            count += 1
            if count == self.batch_size:
                count = 0
                yield [converter.done() for converter in converters]
        if count and not self.drop_last:
            yield [converter.done() for converter in converters]


class DataFeeder:
    """Turns batches of samples (lists of tuples, one entry per feed variable) into the executor's feed.

    `feed_list` holds Variables or their names in `program` (the default main program if left out).

    Args:
        feed_list: Variables or their names, in the order of a sample's fields.
        place: fluid.CPUPlace().
        program: where the names are looked up; None: the default main program.
    """

    def __init__(self, feed_list: list, place: PlaceLike, program: Program | None = None):
        from paddle.fluid.framework import Variable, default_main_program

        if program is None:
            program = default_main_program()
        self.feed_names: list = []
        self.feed_dtypes: list = []
        self.feed_shapes: list = []
        self.feed_lod_level: list = []
        for var in feed_list:
            if isinstance(var, str):
                var = program.global_block().var(var)
            if not isinstance(var, Variable):
                raise TypeError(f"feed_list holds a {type(var).__name__}, not a Variable or the name of one.")
            self.feed_names.append(var.name)
            self.feed_dtypes.append(var.dtype)
            self.feed_shapes.append(var.shape)
            self.feed_lod_level.append(var.lod_level)
        self.place = place

    def __repr__(self) -> str:
        return f"DataFeeder({self.feed_names!r})"

    def feed(self, iterable: Iterable) -> dict:
        """Returns {name: tensor} for one batch.

        Args:
            iterable: the samples of one batch: tuples with a field for each variable.

        Returns:
            {name: tensor}, for Executor.run.
        """
        converters = [
            DataToLoDTensorConverter(self.place, level, shape, dtype)
            for level, shape, dtype in zip(self.feed_lod_level, self.feed_shapes, self.feed_dtypes)
        ]
        for sample in iterable:
            _check_fields(sample, self.feed_names)
            for converter, field in zip(converters, sample):
                converter.feed(field)
        result = {}
        for name, converter in zip(self.feed_names, converters):
            try:
                result[name] = converter.done()
            except ValueError as error:
                raise ValueError(f"feed of {name}: {error}") from None
        return result

    def feed_parallel(self, iterable: Iterable, num_places: int | None = None) -> Iterator[dict]:
        """Yields one feed for each batch in `iterable`; there must be as many batches as places.

        Args:
            iterable: as many batches as places.
            num_places: how many; None: as CPU_NUM says.

        Returns:
            a feed for each place.
        """
        count = self._get_number_of_places_(num_places)
        if len(iterable) != count:
            raise ValueError(
                f"feed_parallel got {len(iterable)} batches for {count} places. Give one batch for each."
            )
        for batch in iterable:
            yield self.feed(batch)

    def _get_number_of_places_(self, num_places: int | None) -> int:
        if num_places is not None:
            return int(num_places)
        from paddle.fluid import framework

        return framework._cpu_num()

    def decorate_reader(
        self, reader: Callable, multi_devices: bool, num_places: int | None = None, drop_last: bool = True
    ) -> Callable:
        """Returns a reader that yields feeds; with `multi_devices`, lists of one feed per place.

        Args:
            reader: gives batches.
            multi_devices: a batch for each place.
            num_places: how many; None: as CPU_NUM says.
            drop_last: leave out batches that do not fill all places.

        Returns:
            a reader of feeds.
        """

        def read():
            if not multi_devices:
                for batch in reader():
                    yield self.feed(batch)
                return
            count = self._get_number_of_places_(num_places)
            group = []
            for batch in reader():
                group.append(batch)
                if len(group) == count:
                    yield list(self.feed_parallel(group, count))
                    group = []
            if group and not drop_last:
                raise ValueError(
                    f"the last {len(group)} batches do not fill {count} places. Use "
                    "drop_last=True, or a number of "
                    "batches that divides evenly."
                )

        return read


suggest.make_helpful(__all__, globals())
