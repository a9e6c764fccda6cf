"""What a predictor is made from: NativeConfig and AnalysisConfig.

The engine plans and fuses by itself, on the CPU. So most switches are only remembered and told back; one that
asks for another device or another engine is an error.
"""

from __future__ import annotations

import copy
import enum
import os

from paddle.fluid import core
from paddle.fluid.log_helper import notice

__all__ = ["AnalysisConfig", "CpuPassStrategy", "NativeConfig", "PaddlePassBuilder", "PassStrategy"]


def _no_gpu(asked: str) -> RuntimeError:
    return RuntimeError(
        f"{asked} was asked for, but this build has no GPU. Leave it out, or ask "
        "fluid.core.is_compiled_with_cuda() first."
    )


class PredictorConfig:
    """What all configs have: the folder of the model."""

    def __init__(self):
        self.model_dir = ""


class NativeConfig(PredictorConfig):
    """The plain form: fields to set.

    >>> config = fluid.core.NativeConfig()                        # doctest: +SKIP
    >>> config.model_dir = "fit_a_line.model"                     # doctest: +SKIP
    """

    _fields = frozenset("""
        model_dir use_gpu device fraction_of_gpu_memory prog_file param_file specify_input_name _threads
        """.split())

    def __init__(self):
        super().__init__()
        self.use_gpu = False
        self.device = 0
        self.fraction_of_gpu_memory = -1.0
        self.prog_file = ""
        self.param_file = ""
        self.specify_input_name = False
        self._threads: int | None = None

    def __setattr__(self, name: str, value) -> None:
        if name not in self._fields:
            shown = sorted(field for field in self._fields if not field.startswith("_"))
            raise AttributeError(f"NativeConfig has no field {name!r}. There are: {', '.join(shown)}.")
        object.__setattr__(self, name, value)

    def set_cpu_math_library_num_threads(self, cpu_math_library_num_threads: int) -> None:
        """Threads inside an op. Without this, the engine's own number is used."""
        self._threads = int(cpu_math_library_num_threads)

    def cpu_math_library_num_threads(self) -> int:
        return 1 if self._threads is None else self._threads

    def _by_name(self) -> bool:
        return bool(self.specify_input_name)

    def _model(self) -> tuple:
        if self.use_gpu:
            raise _no_gpu("NativeConfig.use_gpu")
        return os.fspath(self.model_dir), os.fspath(self.prog_file), os.fspath(self.param_file)

    def _copy(self) -> "NativeConfig":
        return copy.copy(self)


class PaddlePassBuilder:
    """A list of names of graph passes. The list can be changed, but the engine runs passes of its own."""

    def __init__(self, passes=()):
        self._passes = list(passes)
        self._analysis_passes: list = []

    def set_passes(self, passes: list) -> None:
        self._passes = list(passes)

    def append_pass(self, pass_type: str) -> None:
        notice(f"the graph pass {pass_type!r} of a predictor has no effect; the engine fuses by itself.")
        self._passes.append(pass_type)

    def insert_pass(self, idx: int, pass_type: str) -> None:
        notice(f"the graph pass {pass_type!r} of a predictor has no effect; the engine fuses by itself.")
        self._passes.insert(idx, pass_type)

    def delete_pass(self, pass_type: str) -> None:
        """Takes a pass off the list; one that is not there is passed over."""
        self._passes = [name for name in self._passes if name != pass_type]

    def append_analysis_pass(self, pass_type: str) -> None:
        self._analysis_passes.append(pass_type)

    def turn_on_debug(self) -> None:
        """Upstream draws the graph after each pass; here there is none to draw."""

    def debug_string(self) -> str:
        return "\n".join(f"- {name}" for name in self._passes)

    def all_passes(self) -> list:
        return list(self._passes)

    def analysis_passes(self) -> list:
        return list(self._analysis_passes)


class PassStrategy(PaddlePassBuilder):
    """The passes for one kind of device."""

    def enable_cudnn(self) -> None:
        raise _no_gpu("cuDNN")

    def enable_mkldnn(self) -> None:
        """Nothing to do: the engine uses oneDNN wherever it is faster."""

    def enable_mkldnn_quantizer(self) -> None:
        raise NotImplementedError("Inference in int8 is not there yet. Leave the quantizer out.")

    def use_gpu(self) -> bool:
        return False


class CpuPassStrategy(PassStrategy):
    """The passes for the CPU: none but those that a script adds."""

    def __init__(self, other: "CpuPassStrategy | None" = None):
        super().__init__(() if other is None else other.all_passes())


class AnalysisConfig:
    """The form with methods: AnalysisConfig(folder), or AnalysisConfig(program file, parameter file).

    >>> config = fluid.core.AnalysisConfig("fit_a_line.model")    # doctest: +SKIP
    >>> config.disable_gpu()                                      # doctest: +SKIP
    >>> predictor = fluid.core.create_paddle_predictor(config)    # doctest: +SKIP
    """

    class Precision(enum.Enum):
        Float32 = 0
        Int8 = 1
        Half = 2

        def __int__(self) -> int:
            return self.value

    Float32, Int8, Half = Precision

    def __init__(self, *model):
        if len(model) == 1 and isinstance(model[0], AnalysisConfig):
            self.__dict__.update(copy.deepcopy(model[0].__dict__))
            return
        self._model_dir = self._prog_file = self._params_file = ""
        self._buffers: tuple | None = None
        self._ir_optim = True
        self._feed_fetch_ops = True
        self._input_names = False
        self._mkldnn = False
        self._memory_optim = False
        self._quiet = False
        self._profile = False
        self._threads: int | None = None
        self._cache_dir = ""
        self._passes = CpuPassStrategy()
        if model:
            self.set_model(*model)

    def __repr__(self) -> str:
        where = self._model_dir or f"{self._prog_file}, {self._params_file}"
        return f"AnalysisConfig({'from memory' if self._buffers else where})"

    # ---- the model ----

    def set_model(self, *model) -> None:
        """set_model(folder), or set_model(program file, parameter file)."""
        if len(model) == 1:
            self._model_dir = os.fspath(model[0])
        elif len(model) == 2:
            self._prog_file, self._params_file = map(os.fspath, model)
        else:
            raise TypeError(
                f"A model is one folder, or a program file and a parameter file, not {len(model)} arguments."
            )

    def set_prog_file(self, x: str) -> None:
        self._prog_file = os.fspath(x)

    def set_params_file(self, x: str) -> None:
        self._params_file = os.fspath(x)

    def set_model_buffer(
        self, prog_buffer: bytes, prog_buffer_size: int, params_buffer: bytes, params_buffer_size: int
    ) -> None:
        """The model as bytes: those of the program file, then those of the parameter file."""
        self._buffers = bytes(prog_buffer[:prog_buffer_size]), bytes(params_buffer[:params_buffer_size])

    def model_from_memory(self) -> bool:
        return self._buffers is not None

    def model_dir(self) -> str:
        return self._model_dir

    def prog_file(self) -> str:
        return self._prog_file

    def params_file(self) -> str:
        return self._params_file

    def _by_name(self) -> bool:
        return self._input_names

    def _model(self) -> tuple:
        return self._model_dir, self._prog_file, self._params_file

    def _copy(self) -> "AnalysisConfig":
        return AnalysisConfig(self)

    def to_native_config(self) -> NativeConfig:
        """The same model in a NativeConfig."""
        native = NativeConfig()
        native.model_dir, native.prog_file, native.param_file = self._model()
        native.specify_input_name = self._input_names
        native._threads = self._threads
        return native

    # ---- devices and engines ----

    def enable_use_gpu(self, memory_pool_init_size_mb: int, device_id: int = 0) -> None:
        raise _no_gpu("AnalysisConfig.enable_use_gpu")

    def disable_gpu(self) -> None:
        """Nothing to do: a predictor runs on the CPU."""

    def use_gpu(self) -> bool:
        return False

    def gpu_device_id(self) -> int:
        return 0

    def memory_pool_init_size_mb(self) -> int:
        return 100

    def fraction_of_gpu_memory_for_pool(self) -> float:
        return 0.0

    def enable_tensorrt_engine(self, *args, **kwargs) -> None:
        raise _no_gpu("TensorRT")

    def set_trt_dynamic_shape_info(self, *args, **kwargs) -> None:
        raise _no_gpu("TensorRT")

    def tensorrt_engine_enabled(self) -> bool:
        return False

    def enable_lite_engine(self, *args, **kwargs) -> None:
        raise NotImplementedError("Paddle Lite is no part of this package. Leave enable_lite_engine out.")

    def lite_engine_enabled(self) -> bool:
        return False

    def enable_mkldnn(self) -> None:
        """Remembered only: the engine uses oneDNN wherever it is faster."""
        self._mkldnn = core.is_compiled_with_mkldnn()

    def mkldnn_enabled(self) -> bool:
        return self._mkldnn

    def set_mkldnn_op(self, op_list) -> None:
        """The engine chooses by itself which ops use oneDNN."""

    def set_mkldnn_cache_capacity(self, capacity: int = 0) -> None:
        """The engine keeps a bounded number of prepared kernels for each op."""

    def enable_quantizer(self) -> None:
        self._passes.enable_mkldnn_quantizer()

    # ---- how it runs ----

    def set_cpu_math_library_num_threads(self, cpu_math_library_num_threads: int) -> None:
        """Threads inside an op. Without this, the engine's own number is used."""
        self._threads = int(cpu_math_library_num_threads)

    def cpu_math_library_num_threads(self) -> int:
        return 1 if self._threads is None else self._threads

    def switch_ir_optim(self, x: bool = True) -> None:
        self._ir_optim = bool(x)

    def ir_optim(self) -> bool:
        return self._ir_optim

    def switch_ir_debug(self, x: bool = True) -> None:
        """Upstream draws the graph after each pass; here there is none to draw."""

    def switch_use_feed_fetch_ops(self, x: bool = True) -> None:
        """Upstream's zero_copy_run needs them off. Here both ways of running work with either."""
        self._feed_fetch_ops = bool(x)

    def use_feed_fetch_ops_enabled(self) -> bool:
        return self._feed_fetch_ops

    def switch_specify_input_names(self, x: bool = True) -> None:
        """Are the inputs of run() told apart by their names? Otherwise by their order."""
        self._input_names = bool(x)

    def specify_input_name(self) -> bool:
        return self._input_names

    def enable_memory_optim(self, *args) -> None:
        """Remembered only: the engine shares memory between variables in any case."""
        self._memory_optim = True

    def enable_profile(self) -> None:
        """Remembered only; fluid.profiler shows the time of each op."""
        notice("AnalysisConfig.enable_profile has no effect. Run the predictor inside fluid.profiler.")
        self._profile = True

    def disable_glog_info(self) -> None:
        self._quiet = True

    def glog_info_disabled(self) -> bool:
        return self._quiet

    def set_optim_cache_dir(self, opt_cache_dir: str) -> None:
        self._cache_dir = os.fspath(opt_cache_dir)

    def pass_builder(self) -> CpuPassStrategy:
        return self._passes

    def delete_pass(self, pass_name: str) -> None:
        self._passes.delete_pass(pass_name)
