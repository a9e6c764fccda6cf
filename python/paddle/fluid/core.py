"""fluid.core: the engine's own objects under the names that scripts and upstream's tests use for them."""

import importlib

from paddle import _core, absent
from paddle._core import (  # noqa: F401
    AlreadyExistsError,
    DataTypeError,
    EnforceNotMet,
    EOFException,
    FileError,
    FormatError,
    GoneError,
    InternalError,
    InvalidArgumentError,
    LoDTensor,
    LoDTensorArray,
    NotFoundError,
    OutOfMemoryError,
    OutOfRangeError,
    Scope,
    SelectedRows,
    ShapeError,
    UnsupportedError,
    Variable,
)
from paddle.fluid.places import CPUPlace, CUDAPinnedPlace, CUDAPlace, Place  # noqa: F401
from paddle.fluid.vartype import AttrType, OpRole, VarType  # noqa: F401

_Scope = Scope
Tensor = LoDTensor


class VarDesc:
    """The description of a variable; `Variable.desc` gives one. VarDesc.VarType is its best-known part."""

    VarType = VarType

    def __new__(cls, *args, **kwargs):
        if cls is VarDesc:
            from paddle.fluid.descs import BoundVarDesc

            return BoundVarDesc(*args, **kwargs)
        return super().__new__(cls)


class op_proto_and_checker_maker:
    """Names of the attributes that every op has."""

    OpRole = OpRole

    @staticmethod
    def kOpRoleAttrName() -> str:
        return "op_role"

    @staticmethod
    def kOpRoleVarAttrName() -> str:
        return "op_role_var"

    @staticmethod
    def kOpNameScopeAttrName() -> str:
        return "op_namescope"

    @staticmethod
    def kOpCreationCallstackAttrName() -> str:
        return "op_callstack"

    @staticmethod
    def kOpDeviceAttrName() -> str:
        return "op_device"


def kEmptyVarName() -> str:
    return "@EMPTY@"


def kTempVarName() -> str:
    return "@TEMP@"


def kGradVarSuffix() -> str:
    return "@GRAD"


def kZeroVarSuffix() -> str:
    return "@ZERO"


def kControlDepVarName() -> str:
    return "__control_var"


def kNewGradSuffix() -> str:
    return "@NEWGRAD@"


empty_var_name = kEmptyVarName
grad_var_suffix = kGradVarSuffix


# ---- what this build can do ----


def is_compiled_with_cuda() -> bool:
    """Whether this build can use NVIDIA's GPUs."""
    return bool(_core.build_has("gpu"))


def is_compiled_with_mkldnn() -> bool:
    return bool(_core.build_has("onednn"))


def is_compiled_with_dist() -> bool:
    return bool(_core.build_has("distribute"))


def is_compiled_with_brpc() -> bool:
    return False


def is_compiled_with_ngraph() -> bool:
    return False


def get_cuda_device_count() -> int:
    return 0


def op_support_gpu(op_type: str) -> bool:
    return False


def is_float16_supported(place) -> bool:
    """Can this place compute in float16?"""
    return False


def is_bfloat16_supported(place) -> bool:
    return False


def set_num_threads(threads: int) -> None:
    """Threads inside an op, for this process."""
    _core.set_threads(int(threads))


def size_of_dtype(dtype) -> int:
    """Bytes of one element."""
    import numpy as np

    from paddle.fluid.vartype import DTYPE_NAMES

    return np.dtype(DTYPE_NAMES[VarType(int(dtype))]).itemsize


def get_all_op_names() -> list:
    """Types of all ops there are."""
    return _core.op_types()


def _known(op_type: str) -> str:
    if not _core.op_known(op_type):
        raise NotFoundError(f"There is no op {op_type!r} in this package.")
    return op_type


def has_grad_op_maker(op_type: str) -> bool:
    """Has this op a gradient?"""
    return _core.op_known(f"{_known(op_type)}_grad")


has_non_empty_grad_op_maker = has_grad_op_maker


def has_infer_inplace(op_type: str) -> bool:
    """Does upstream let outputs of this op take the place of inputs? Here a plan decides, so: no."""
    _known(op_type)
    return False


def _set_eager_deletion_mode(threshold: float, fraction: float, use_fast_mode: bool) -> None:
    """When upstream frees what is no longer needed; here temporaries share planned memory."""


def _get_all_register_op_kernels() -> dict:
    return {op_type: [] for op_type in _core.op_types()}


def get_all_op_protos() -> list:
    """A description of every op, as bytes in upstream and as objects here."""
    from paddle.fluid.protos import all_protos

    return all_protos()


def init_gflags(args=()) -> bool:
    """Takes command-line flags such as '--check_nan_inf=1'; what is no flag of ours is passed over."""
    for arg in args:
        name, sign, value = str(arg).lstrip("-").partition("=")
        if sign and name in _flag_names():
            _core.flag_set(name, value)
    return True


def init_glog(name: str = "") -> None:
    """Upstream's log needs to be started; ours does not."""


def init_devices(*args) -> None:
    """Upstream looks for GPUs here."""


def __unittest_throw_exception__() -> None:
    raise EnforceNotMet("This is a test of the exception.")


# ---- run-time flags ----

# Flags that are on or off; the engine reads FLAGS_<name> from the environment itself.
_SWITCHES = frozenset("""
    benchmark check_nan_inf cpu_deterministic enable_unused_var_check fast_eager_deletion_mode
    sort_sum_gradient use_mkldnn use_pinned_memory use_system_allocator
    """.split())


def _flag_names() -> set:
    return set(_core.flag_names())


class _Flags:
    """All run-time flags as a mapping: globals()['FLAGS_check_nan_inf'] = True."""

    @staticmethod
    def _bare(name: str) -> str:
        bare = name[len("FLAGS_") :] if name.startswith("FLAGS_") else name
        if bare not in _flag_names():
            from paddle.fluid import suggest

            hint = suggest.did_you_mean(bare, _flag_names()).replace("mean '", "mean 'FLAGS_")
            raise ValueError(f"There is no flag {name!r}.{hint or ' docs/FLAGS.md lists them.'}")
        return bare

    def __getitem__(self, name: str):
        bare = self._bare(name)
        text = _core.flag_get(bare)
        if bare in _SWITCHES:
            return text == "1"
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                pass
        return text

    def __setitem__(self, name: str, value) -> None:
        _core.flag_set(self._bare(name), str(int(value)) if isinstance(value, bool) else str(value))

    def __contains__(self, name: str) -> bool:
        return name[len("FLAGS_") :] in _flag_names() if name.startswith("FLAGS_") else name in _flag_names()

    def keys(self) -> list:
        return [f"FLAGS_{name}" for name in sorted(_flag_names())]

    def get(self, name: str, default=None):
        return self[name] if name in self else default


_flags = _Flags()


def globals() -> _Flags:  # noqa: A001 (the name is upstream's)
    """The run-time flags."""
    return _flags


# ---- feed and fetch by hand ----


def set_feed_variable(scope, tensor, name: str, index: int) -> None:
    """Puts a tensor at a position of the list that the scope holds under `name`."""
    array = scope.var(name).get_lod_tensor_array()
    if len(array) > index:
        array[index] = tensor
    while len(array) <= index:
        array.append(tensor)


def get_fetch_variable(scope, name: str, index: int):
    """The tensor at a position of the list that the scope holds under `name`."""
    holder = scope.find_var(name)
    if holder is None:
        raise NotFoundError(f"The scope has no variable {name!r}.")
    return holder.get_lod_tensor_array()[index]


# Names that live in modules of their own, which most scripts never need.
_LAZY = {
    "Dataset": "paddle.fluid.core_dataset",
    "Fleet": "paddle.fluid.core_fleet",
    "ProgramDesc": "paddle.fluid.descs",
    "BlockDesc": "paddle.fluid.descs",
    "OpDesc": "paddle.fluid.descs",
    "get_grad_op_desc": "paddle.fluid.descs",
    "prune": "paddle.fluid.descs",
    "Operator": "paddle.fluid.op",
    "RecordIOWriter": "paddle.fluid.recordio",
    "Executor": "paddle.fluid.executor",
    "ParallelExecutor": "paddle.fluid.parallel_executor",
    "BuildStrategy": "paddle.fluid.compiler",
    "ExecutionStrategy": "paddle.fluid.compiler",
    **dict.fromkeys(
        """
        AnalysisPredictor NativePaddlePredictor PaddleBuf PaddleDType PaddlePlace PaddlePredictor PaddleTensor
        ZeroCopyTensor create_paddle_predictor paddle_dtype_size paddle_tensor_to_bytes
        """.split(),
        "paddle.fluid.inference",
    ),
    **dict.fromkeys(
        "AnalysisConfig CpuPassStrategy NativeConfig PaddlePassBuilder PassStrategy".split(),
        "paddle.fluid.inference_config",
    ),
}


def __getattr__(name: str):
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    absent.refuse(__name__, name)
