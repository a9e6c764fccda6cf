"""Predictors of v1.3 to v1.8: inference models behind fluid.core.create_paddle_predictor.

A predictor is a loaded inference model, a scope with its parameters and an Executor. Inputs and outputs are
PaddleTensors given to run(), or ZeroCopyTensors around zero_copy_run().
"""

from __future__ import annotations

import enum
import os
import struct
from typing import Iterable

import numpy as np

from paddle.fluid import core, io
from paddle.fluid.data_feeder import array_of
from paddle.fluid.executor import Executor, scope_guard
from paddle.fluid.framework import Program
from paddle.fluid.inference_config import AnalysisConfig, NativeConfig, PredictorConfig
from paddle.fluid.vartype import DTYPE_NAMES

__all__ = [
    "AnalysisPredictor",
    "NativePaddlePredictor",
    "PaddleBuf",
    "PaddleDType",
    "PaddlePlace",
    "PaddlePredictor",
    "PaddleTensor",
    "ZeroCopyTensor",
    "create_paddle_predictor",
    "paddle_dtype_size",
    "paddle_tensor_to_bytes",
]


class PaddleDType(enum.Enum):
    """Types of the elements of a PaddleTensor."""

    FLOAT32 = 0
    INT64 = 1
    INT32 = 2

    def __int__(self) -> int:
        return self.value


class PaddlePlace(enum.Enum):
    """Where a tensor is."""

    UNK = -1
    CPU = 0
    GPU = 1

    def __int__(self) -> int:
        return self.value


_NUMPY = {
    PaddleDType.FLOAT32: np.dtype("float32"),
    PaddleDType.INT64: np.dtype("int64"),
    PaddleDType.INT32: np.dtype("int32"),
}
_PADDLE = {dtype: kind for kind, dtype in _NUMPY.items()}


def _plain(data) -> np.ndarray:
    """An array of one of the three types that a PaddleTensor can hold."""
    array = np.asarray(data)
    if array.dtype in _PADDLE:
        return np.ascontiguousarray(array)
    if array.dtype.kind == "f":
        return np.ascontiguousarray(array, dtype="float32")
    if array.dtype.kind in "iub":
        small = array.dtype.kind == "b" or np.can_cast(array.dtype, "int32")
        return np.ascontiguousarray(array, dtype="int32" if small else "int64")
    raise TypeError(f"A PaddleTensor holds float32, int64 or int32, found an array of {array.dtype}.")


def _dtype_of(array: np.ndarray, what: str) -> PaddleDType:
    if array.dtype not in _PADDLE:
        raise core.UnsupportedError(
            f"{what} is {array.dtype}, but a PaddleTensor holds float32, int64 or int32 only. Use "
            "zero_copy_run and copy_to_cpu, or cast it in the model."
        )
    return _PADDLE[array.dtype]


def paddle_dtype_size(dtype: PaddleDType) -> int:
    """Bytes of one element."""
    return _NUMPY[dtype].itemsize


class PaddleBuf:
    """Bytes: of a given length, of a list (as float32), or of an array."""

    def __init__(self, data):
        self._bytes = np.zeros(data, "uint8") if isinstance(data, (int, np.integer)) else self._of(data)

    @staticmethod
    def _of(data) -> np.ndarray:
        array = array_of(data, "float32") if isinstance(data, (list, tuple)) else _plain(data)
        return array.reshape(-1).view("uint8").copy()

    @classmethod
    def _around(cls, array: np.ndarray) -> "PaddleBuf":
        """A buffer in the memory of the array."""
        buf = cls.__new__(cls)
        buf._bytes = array.reshape(-1).view("uint8")
        return buf

    def resize(self, length: int) -> None:
        """Changes the length; what was in it is kept as far as it fits."""
        kept = self._bytes[:length]
        self._bytes = np.zeros(length, "uint8")
        self._bytes[: len(kept)] = kept

    def reset(self, data) -> None:
        """Takes the bytes of a list or an array."""
        self._bytes = self._of(data)

    def empty(self) -> bool:
        return not len(self._bytes)

    def length(self) -> int:
        """Bytes in it."""
        return len(self._bytes)

    def _as(self, dtype: np.dtype) -> np.ndarray:
        whole = len(self._bytes) // dtype.itemsize * dtype.itemsize
        return self._bytes[:whole].view(dtype)

    def tolist(self, dtype: str = "float32") -> list:
        """The elements, read as 'float32', 'int64' or 'int32'."""
        if dtype not in ("float32", "int64", "int32"):
            raise ValueError(f"PaddleBuf.tolist takes 'float32', 'int64' or 'int32', found {dtype!r}.")
        return self._as(np.dtype(dtype)).tolist()

    def float_data(self) -> list:
        return self.tolist("float32")

    def int64_data(self) -> list:
        return self.tolist("int64")

    def int32_data(self) -> list:
        return self.tolist("int32")


class PaddleTensor:
    """An input or output of run(): name, shape, dtype, data and LoD (as offsets).

    >>> x = fluid.core.PaddleTensor(np.ones((2, 4), "float32"), "x")    # doctest: +SKIP
    """

    __slots__ = ("name", "shape", "dtype", "data", "lod")

    def __init__(self, data=None, name: str = "", lod: Iterable = (), copy: bool = True):
        self.name = name
        self.lod = [list(level) for level in lod]
        if data is None:
            self.shape: list = []
            self.dtype = PaddleDType.FLOAT32
            self.data = PaddleBuf(0)
            return
        array = _plain(data)
        self.shape = list(array.shape)
        self.dtype = _PADDLE[array.dtype]
        self.data = PaddleBuf(array) if copy else PaddleBuf._around(array)

    def _array(self) -> np.ndarray:
        """The elements, in the memory of the buffer."""
        dtype = _NUMPY[PaddleDType(self.dtype)]
        shape = tuple(int(side) for side in self.shape)
        found = self.data.length()
        wanted = int(np.prod(shape, dtype="int64")) * dtype.itemsize
        if found != wanted:
            raise core.ShapeError(
                f"The PaddleTensor {self.name!r} has shape {list(shape)} of {dtype}, so {wanted} bytes, but "
                f"its data has {found} bytes. Set shape, dtype and data so that they agree."
            )
        return self.data._as(dtype).reshape(shape)

    def as_ndarray(self) -> np.ndarray:
        """A copy of the elements."""
        return self._array().copy()

    def __repr__(self) -> str:
        return f"PaddleTensor(name={self.name!r}, shape={self.shape}, dtype={self.dtype}, lod={self.lod})"


def paddle_tensor_to_bytes(tensor: PaddleTensor) -> bytes:
    """The tensor in upstream's file form: version, name, LoD, shape, type, data."""
    name = tensor.name.encode()
    parts = [struct.pack("<IQ", 0, len(name)), name, struct.pack("<Q", len(tensor.lod))]
    for level in tensor.lod:
        parts.append(struct.pack(f"<Q{len(level)}Q", 8 * len(level), *level))
    parts.append(struct.pack(f"<Q{len(tensor.shape)}i", len(tensor.shape), *tensor.shape))
    parts.append(struct.pack("<iQ", int(tensor.dtype), tensor.data.length()))
    return b"".join([*parts, tensor.data._bytes.tobytes()])


class ZeroCopyTensor:
    """An input or output around zero_copy_run(). It stays valid from run to run."""

    def __init__(self, predictor: "PaddlePredictor", name: str, is_input: bool):
        self._predictor = predictor
        self._name = name
        self._is_input = is_input

    def _tensor(self) -> core.LoDTensor:
        if self._is_input:
            return self._predictor._inputs[self._name]
        return self._predictor._result(self._name)

    def _must_be_input(self, what: str) -> None:
        if not self._is_input:
            raise core.InvalidArgumentError(f"{what} is for inputs, but {self._name!r} is an output.")

    def name(self) -> str:
        return self._name

    def reshape(self, shape: Iterable) -> None:
        """Sets the shape; copy_from_cpu sets it too."""
        self._must_be_input("reshape")
        self._tensor()._set_dims([int(side) for side in shape])

    def copy_from_cpu(self, data: np.ndarray) -> None:
        """Takes the array's elements and shape."""
        self._must_be_input("copy_from_cpu")
        array = np.asarray(data)
        declared = self._predictor._declared(self._name)
        if declared is not None and array.dtype.kind == declared.kind:
            array = array.astype(declared, copy=False)
        self._tensor().set(np.ascontiguousarray(array), core.CPUPlace())

    def copy_to_cpu(self) -> np.ndarray:
        """The elements as an array of its own."""
        return np.array(self._tensor())

    def shape(self) -> list:
        return list(self._tensor().shape())

    def set_lod(self, lod: list) -> None:
        """The sequences, as offsets for each level."""
        self._must_be_input("set_lod")
        self._tensor().set_lod([list(level) for level in lod])

    def lod(self) -> list:
        return self._tensor().lod()

    def type(self) -> PaddleDType:
        name = DTYPE_NAMES[self._tensor()._dtype()]
        return _dtype_of(np.empty(0, name), f"The tensor {self._name!r}")


def _load(config, executor: Executor) -> list:
    """[Program, names of the inputs, Variables of the outputs] of the model that the config names."""
    buffers = getattr(config, "_buffers", None)
    folder, program, params = config._model()
    if buffers is not None:
        return io.load_inference_model(None, executor, *buffers)
    if folder:
        return io.load_inference_model(folder, executor)
    if not program or not params:
        raise core.InvalidArgumentError(
            f"The config names no model: folder {folder!r}, program file {program!r}, parameter file "
            f"{params!r}. Give the folder, or both files."
        )
    home = os.path.dirname(program)
    if os.path.dirname(params) == home:
        return io.load_inference_model(home or ".", executor, program, params)
    data = []
    for path in (program, params):
        try:
            with open(path, "rb") as file:
                data.append(file.read())
        except OSError as error:
            raise core.FileError(f"{path!r} cannot be read: {error.strerror or error}.") from None
    return io.load_inference_model(None, executor, *data)


class PaddlePredictor:
    """A loaded model that runs. Use one predictor in each thread: clone() makes more of them."""

    Config = PredictorConfig

    def __init__(self, config: AnalysisConfig | NativeConfig):
        if not isinstance(config, (AnalysisConfig, NativeConfig)):
            raise TypeError(f"A predictor needs an AnalysisConfig or a NativeConfig, found {config!r}.")
        scope = core.Scope()
        with scope_guard(scope):
            program, feeds, fetches = _load(config, Executor(core.CPUPlace()))
        self._start(config._copy(), scope, program, feeds, [var.name for var in fetches])

    def _start(self, config, scope: core.Scope, program: Program, feeds: list, fetches: list) -> None:
        self._config = config
        self._shared_scope = scope
        self._scope = scope.new_scope()
        self._program = program
        self._feeds = feeds
        self._outputs = fetches
        self._executor = Executor(core.CPUPlace())
        self._fetches = list(fetches)
        self._inputs = {name: core.LoDTensor() for name in feeds}
        self._results: dict = {}

    def clone(self) -> "PaddlePredictor":
        """Another predictor with the same parameters, for another thread."""
        twin = type(self).__new__(type(self))
        program = Program.parse_from_string(self._program._serialize())
        twin._start(self._config, self._shared_scope, program, self._feeds, self._outputs)
        return twin

    # ---- names ----

    def get_input_names(self) -> list:
        return list(self._feeds)

    def get_output_names(self) -> list:
        return list(self._outputs)

    def get_input_tensor_shape(self) -> dict:
        """{name: shape}; -1 is a side that the batch decides."""
        block = self._program.global_block()
        return {name: list(block.var(name).shape) for name in self._feeds}

    def _declared(self, name: str) -> np.dtype | None:
        var = self._program.global_block().var(name)
        found = DTYPE_NAMES.get(var.dtype) if var._has_dtype else None
        return np.dtype(found) if found else None

    # ---- runs ----

    def _run(self, feed: dict) -> list:
        if self._config._threads is not None:
            core.set_num_threads(self._config._threads)
        return self._executor.run(
            self._program, feed, list(self._fetches), scope=self._scope, return_numpy=False
        )

    def run(self, inputs: list) -> list:
        """Runs once with a PaddleTensor for each input; returns a PaddleTensor for each output."""
        by_name = self._config._by_name()
        if len(inputs) != len(self._feeds):
            raise core.InvalidArgumentError(
                f"The model has {len(self._feeds)} inputs ({', '.join(self._feeds)}), but {len(inputs)} "
                "PaddleTensors were given."
            )
        feed = {}
        for place, tensor in zip(self._feeds, inputs):
            if not isinstance(tensor, PaddleTensor):
                raise TypeError(f"run() takes PaddleTensors, found {tensor!r} for the input {place!r}.")
            name = tensor.name if by_name else place
            if name not in self._inputs or name in feed:
                raise core.InvalidArgumentError(
                    f"A PaddleTensor has the name {name!r}. The model's inputs are: "
                    f"{', '.join(self._feeds)}. Give each of them once."
                )
            value = core.LoDTensor()
            value.set(tensor._array(), core.CPUPlace())
            if tensor.lod:
                value.set_lod([list(level) for level in tensor.lod])
            feed[name] = value
        outputs = []
        for name, value in zip(self._outputs, self._run(feed)):
            array = np.array(value)
            _dtype_of(array, f"The output {name!r}")
            outputs.append(PaddleTensor(array, name, value.lod(), copy=False))
        return outputs

    def get_input_tensor(self, name: str) -> ZeroCopyTensor:
        if name not in self._inputs:
            raise core.NotFoundError(
                f"The model has no input {name!r}. Its inputs are: {', '.join(self._feeds)}."
            )
        return ZeroCopyTensor(self, name, True)

    def get_output_tensor(self, name: str) -> ZeroCopyTensor:
        """An output; or any other variable of the model, whose value is there from the next run on."""
        if name not in self._fetches:
            if not self._program.global_block().has_var(name):
                raise core.NotFoundError(
                    f"The model has no variable {name!r}. Its outputs are: {', '.join(self._outputs)}."
                )
            self._fetches.append(name)
        return ZeroCopyTensor(self, name, False)

    def zero_copy_run(self) -> bool:
        """Runs once, from the tensors of get_input_tensor to those of get_output_tensor."""
        missing = [name for name, value in self._inputs.items() if not value._is_initialized()]
        if missing:
            raise core.InvalidArgumentError(
                f"zero_copy_run: nothing was copied into the inputs {', '.join(missing)}. Call copy_from_cpu "
                "on their tensors."
            )
        self._results = dict(zip(self._fetches, self._run(self._inputs)))
        return True

    def _result(self, name: str) -> core.LoDTensor:
        if name not in self._results:
            raise core.NotFoundError(f"There is no value of {name!r} yet. Call zero_copy_run first.")
        return self._results[name]

    # ---- what is inside ----

    def get_serialized_program(self) -> bytes:
        """The Program as bytes, as in a `__model__` file."""
        return self._program._serialize()

    def scope(self) -> core.Scope:
        """The scope with the parameters."""
        return self._shared_scope

    def program(self):
        """The description of the Program."""
        return self._program.desc

    def SaveOptimModel(self, dir: str) -> None:  # noqa: A002 (the name is upstream's)
        """Writes the model as two files of that folder: `model` and `params`."""
        io._make_folder(dir)
        io._write(os.path.join(dir, "model"), self._program._serialize())
        with scope_guard(self._shared_scope):
            io.save_persistables(self._executor, dir, self._program, "params")


class NativePaddlePredictor(PaddlePredictor):
    """The predictor of a NativeConfig."""


class AnalysisPredictor(PaddlePredictor):
    """The predictor of an AnalysisConfig."""


def create_paddle_predictor(config: AnalysisConfig | NativeConfig) -> PaddlePredictor:
    """Loads the model that the config names.

    >>> config = fluid.core.AnalysisConfig("fit_a_line.model")                          # doctest: +SKIP
    >>> predictor = fluid.core.create_paddle_predictor(config)                          # doctest: +SKIP
    >>> out, = predictor.run([fluid.core.PaddleTensor(x)])                              # doctest: +SKIP
    """
    return (NativePaddlePredictor if isinstance(config, NativeConfig) else AnalysisPredictor)(config)
