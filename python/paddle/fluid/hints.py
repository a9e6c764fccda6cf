"""Types of arguments, for annotations: what can be given where. Nothing here is needed at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Sequence, Union

if TYPE_CHECKING:
    import numpy as np

    from paddle.fluid.clip import GradientClipBase as GradientClipBase
    from paddle.fluid.core import LoDTensor as LoDTensor
    from paddle.fluid.core import Scope as Scope
    from paddle.fluid.executor import Executor as Executor
    from paddle.fluid.framework import Block as Block
    from paddle.fluid.framework import Program as Program
    from paddle.fluid.framework import Variable as Variable
    from paddle.fluid.initializer import Initializer as Initializer
    from paddle.fluid.optimizer_base import Optimizer as Optimizer
    from paddle.fluid.param_attr import ParamAttr as ParamAttr
    from paddle.fluid.places import CPUPlace, CUDAPinnedPlace, CUDAPlace, Place
    from paddle.fluid.regularizer import WeightDecayRegularizer as WeightDecayRegularizer
    from paddle.fluid.vartype import VarType as VarType

ParamAttrLike = Union["ParamAttr", "Initializer", "WeightDecayRegularizer", str, bool, Sequence, None]
DTypeLike = Union[str, "np.dtype", type, "VarType"]
ShapeLike = Union[Sequence, "Variable"]
Sizes = Union[int, Sequence[int]]
Variables = Union["Variable", Sequence["Variable"]]
PlaceLike = Union["CPUPlace", "CUDAPlace", "CUDAPinnedPlace", "Place"]
Rate = Union[float, "Variable"]
ArrayLike = Union["np.ndarray", Sequence, float]

# What the names above stand for, in words.
MEANINGS = {
    "ParamAttrLike": "a ParamAttr, a name, an initializer, a regularizer, False (none) or None (the default); where a layer makes "
                     "several, a list of these",
    "DTypeLike": "'float32' and the like, a numpy dtype, or a VarType",
    "ShapeLike": "a list or tuple of numbers, which may hold Variables, or a Variable",
    "Sizes": "a number, or one for each dimension",
    "Variables": "a Variable, or a list of them",
    "PlaceLike": "fluid.CPUPlace(), or another place",
    "Rate": "a number, or a Variable of one element",
    "ArrayLike": "a numpy array, or what becomes one",
}
