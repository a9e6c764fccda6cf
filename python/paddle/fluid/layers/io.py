"""Layers by which data comes into a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Iterator

from paddle.fluid import core, reader_program, unique_name
from paddle.fluid.data import sizes_of
from paddle.fluid.data_feeder import DataFeeder
from paddle.fluid.framework import Program, Variable, convert_np_dtype_to_dtype_, program_guard
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers import homes
from paddle.fluid.layers.build import VarType, need_variable

if TYPE_CHECKING:
    from paddle.fluid.hints import DTypeLike, PlaceLike

__all__ = ["data", "load", "read_file", "double_buffer", "py_reader", "create_py_reader_by_data"]


def data(
    name: str,
    shape: list[int],
    append_batch_size: bool = True,
    dtype: DTypeLike = "float32",
    lod_level: int = 0,
    type: VarType = VarType.LOD_TENSOR,
    stop_gradient: bool = True,
) -> Variable:
    """A variable to feed. The batch size is put in front of the shape unless the shape holds None or a number
    below 0, which stand for any size.

    >>> fluid.layers.data(name='x', shape=[13], dtype='float32').shape
    (-1, 13)
    """
    if not isinstance(name, str):
        raise TypeError(f"data: name must be a string, but {name!r} was given.")
    sizes = sizes_of(shape)
    if append_batch_size and all(size >= 0 for size in sizes):
        sizes = [-1, *sizes]
    return LayerHelper("data", name=name).create_global_variable(
        name=name,
        shape=sizes,
        dtype=dtype,
        type=type,
        stop_gradient=stop_gradient,
        lod_level=lod_level,
        is_data=True,
    )


def load(out: Variable, file_path: str, load_as_fp16: bool | None = None) -> None:
    """Read a variable from a file that io.save_vars or the op `save` wrote."""
    need_variable(out, "out", "load")
    attrs = {"file_path": file_path}
    if load_as_fp16 is not None:
        attrs["load_as_fp16"] = load_as_fp16
    LayerHelper("load").append_op(type="load", inputs={}, outputs={"Out": out}, attrs=attrs)


# ---- readers in the program ----


def _py_reader(fields: reader_program.Fields, capacity: int, name: str | None, use_double_buffer: bool, feed_list):
    keys = ("lod_tensor_blocking_queue", "create_py_reader", "double_buffer")
    parts = ("queue", "reader", "double_buffer")
    names = tuple(
        unique_name.generate(key) if name is None else f"{name}_{part}" for key, part in zip(keys, parts)
    )
    reader, source = reader_program.add_reader(fields, capacity, use_double_buffer, names)

    def of_batches(generator: Callable) -> None:
        """Takes a generator of whole batches: one array or tensor per variable."""

        def batches() -> Iterator:
            for batch in generator():
                yield [reader_program.tensor_of(field, f"field {i}") for i, field in enumerate(batch)]

        source.make = batches

    def of_samples(reader: Callable) -> None:
        """Takes a generator of lists of samples, as paddle.batch makes them."""
        with program_guard(Program(), Program()):
            feeds = feed_list
            if feeds is None:
                feeds = [
                    data(str(i), shape, dtype=dtype, lod_level=level)
                    for i, (shape, dtype, level) in enumerate(zip(fields.shapes, fields.dtypes, fields.lod_levels))
                ]
            feeder = DataFeeder(feed_list=feeds, place=core.CPUPlace())
        feeds_of = feeder.decorate_reader(reader, multi_devices=False)
        order = [var.name for var in feeds]

        def batches() -> Iterator:
            for feed in feeds_of():
                yield [feed[each] for each in order]

        source.make = batches

    return reader_program.patch_reader(
        reader,
        source,
        {
            "decorate_tensor_provider": of_batches,
            "decorate_batch_generator": of_batches,
            "decorate_paddle_reader": of_samples,
            "decorate_sample_list_generator": of_samples,
        },
    )


def py_reader(
    capacity: int,
    shapes: list,
    dtypes: list,
    lod_levels: list | None = None,
    name: str | None = None,
    use_double_buffer: bool = True,
) -> Variable:
    """A reader in the program. read_file gives its variables; a thread holds up to `capacity` batches ready.

    >>> reader = fluid.layers.py_reader(64, [(-1, 4), (-1, 1)], ['float32', 'int64'])
    >>> image, label = fluid.layers.read_file(reader)
    >>> samples = lambda: ((np.ones(4, 'float32'), i) for i in range(6))
    >>> reader.decorate_paddle_reader(paddle.batch(samples, 3))
    >>> reader.start()            # then exe.run() without feed until core.EOFException, then reader.reset()
    >>> fluid.Executor().run(fetch_list=[label])[0].ravel()
    array([0, 1, 2])
    """
    if len(shapes) != len(dtypes) or (lod_levels is not None and len(lod_levels) != len(shapes)):
        raise ValueError(
            f"py_reader: {len(shapes)} shapes, {len(dtypes)} dtypes and "
            f"{len(shapes) if lod_levels is None else len(lod_levels)} lod_levels were given; give one for each field."
        )
    fields = reader_program.Fields(
        [list(shape) for shape in shapes],
        [convert_np_dtype_to_dtype_(dtype) for dtype in dtypes],
        [0] * len(shapes) if lod_levels is None else list(lod_levels),
        [0] * len(shapes),
    )
    return _py_reader(fields, capacity, name, use_double_buffer, None)


def create_py_reader_by_data(
    capacity: int, feed_list: list[Variable], name: str | None = None, use_double_buffer: bool = True
) -> Variable:
    """A py_reader whose fields are like the variables of `feed_list`."""
    return _py_reader(reader_program.fields_of(feed_list), capacity, name, use_double_buffer, list(feed_list))


def double_buffer(reader: Variable, place: PlaceLike | None = None, name: str | None = None) -> Variable:
    """The reader, with its next batch ready before it is asked for (which all readers here do)."""
    need_variable(reader, "reader", "double_buffer")
    return reader_program.add_double_buffer(reader, name, place)


def read_file(reader: Variable) -> Variable | list[Variable]:
    """The variables that get the reader's batches: one, or a list."""
    need_variable(reader, "reader", "read_file")
    reader_program.reader_of(reader)
    helper, desc, outs = LayerHelper("read_file"), reader.desc, []
    for shape, dtype, level in zip(desc.shapes(), desc.dtypes(), desc.lod_levels()):
        out = helper.create_variable_for_type_inference(dtype=dtype, stop_gradient=True)
        out.desc.set_shape(shape)
        out.desc.set_lod_level(level)
        outs.append(out)
    helper.append_op(type="read", inputs={"Reader": [reader]}, outputs={"Out": outs}, attrs={})
    return outs[0] if len(outs) == 1 else outs


__getattr__ = homes.served(__name__)
