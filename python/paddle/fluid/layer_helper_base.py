"""What every layer needs to add itself to the default programs: parameters, variables, their initializers."""

import copy

import numpy as np

from paddle.fluid import framework, unique_name
from paddle.fluid.core import VarDesc
from paddle.fluid.data_feeder import convert_dtype
from paddle.fluid.param_attr import ParamAttr, WeightNormParamAttr


class LayerHelperBase:
    """One per layer call. `name` is the front part of the names of all that the layer makes."""

    def __init__(self, name: str, layer_type: str):
        self._name = name
        self._layer_type = layer_type

    @property
    def name(self) -> str:
        return self._name

    @property
    def layer_type(self) -> str:
        return self._layer_type

    @property
    def main_program(self):
        return framework.default_main_program()

    @property
    def startup_program(self):
        return framework.default_startup_program()

    def to_variable(self, value, name: str | None = None):
        """Returns `value` if it is a Variable; says what to do otherwise."""
        if isinstance(value, framework.Variable):
            return value
        if isinstance(value, np.ndarray):
            raise TypeError(
                f"{self.layer_type}: the input is a numpy array. Declare it with fluid.data or "
                "fluid.layers.data "
                "and feed the array to Executor.run."
            )
        raise TypeError(f"{self.layer_type}: the input is a {type(value).__name__}, not a Variable.")

    def create_parameter(
        self,
        attr,
        shape,
        dtype,
        is_bias: bool = False,
        default_initializer=None,
        stop_gradient: bool = False,
        type=VarDesc.VarType.LOD_TENSOR,
    ):
        """Makes the parameter in the main program and its first values in the startup program.

        Returns None when `attr` is False: the layer then has no such parameter.
        """
        # A copy: one attr object may serve several parameters, each with a name of its own.
        attr = copy.copy(ParamAttr._to_attr(attr))
        if not attr:
            return None
        if not isinstance(attr, ParamAttr):
            raise TypeError(
                f"{self.layer_type}: one parameter takes one ParamAttr, not a list of {len(attr)}."
            )
        if attr.name is None:
            attr.name = unique_name.generate(f"{self.name}.{'b' if is_bias else 'w'}")
        if default_initializer is None and attr.initializer is None:
            kind = convert_dtype(dtype)
            if not kind.startswith("float"):
                raise TypeError(
                    f"parameter {attr.name} is {kind}, and the default initializers make floating "
                    "point values. "
                    "Give an initializer in its ParamAttr."
                )
            if is_bias:
                attr._set_default_bias_initializer()
            else:
                attr._set_default_param_initializer()
        else:
            attr._set_default_initializer(default_initializer)

        shape = [int(side) for side in shape]
        if isinstance(attr, WeightNormParamAttr):
            param = _WeightNorm(self, attr, shape, dtype).build()
            WeightNormParamAttr.params_with_weight_norm.append(param)
            return param
        self.startup_program.global_block().create_parameter(
            dtype=dtype, shape=shape, type=type, **attr._to_kwargs(with_initializer=True)
        )
        param = self.main_program.global_block().create_parameter(
            dtype=dtype, shape=shape, type=type, **attr._to_kwargs()
        )
        if attr.gradient_clip is not None:
            param.gradient_clip_attr = attr.gradient_clip
        return param

    def create_variable_for_type_inference(self, dtype, stop_gradient: bool = False):
        """Makes a temporary whose shape and kind the op that writes it decides."""
        return self.main_program.current_block().create_var(
            name=unique_name.generate_with_ignorable_key(f"{self.name}.tmp"),
            dtype=dtype,
            type=VarDesc.VarType.LOD_TENSOR,
            persistable=False,
            stop_gradient=stop_gradient,
        )

    # Names of v0.11 to v0.14.
    create_tmp_variable = create_variable_for_type_inference

    def create_variable(self, *args, **kwargs):
        """Makes a variable in the current block."""
        return self.main_program.current_block().create_var(*args, **kwargs)

    def create_global_variable(self, persistable: bool = False, *args, **kwargs):
        """Makes a variable in the outermost block. It has no initializer yet."""
        return self.main_program.global_block().create_var(*args, persistable=persistable, **kwargs)

    def create_or_get_global_variable(self, name: str, *args, **kwargs) -> tuple:
        """Returns (variable, True) if it was made now, (variable, False) if it was there."""
        block = self.main_program.global_block()
        if block.has_var(name):
            return block.var(name), False
        return self.create_global_variable(*args, name=name, **kwargs), True

    def set_variable_initializer(self, var, initializer):
        """Adds `var` to the startup program, filled by `initializer`."""
        if not isinstance(var, framework.Variable):
            raise TypeError(f"set_variable_initializer takes a Variable, not a {type(var).__name__}.")
        return self.startup_program.global_block().create_var(
            name=var.name,
            type=var.type,
            dtype=var.dtype,
            shape=var.shape,
            persistable=True,
            initializer=initializer,
        )


class _WeightNorm:
    """Builds w = g * v / ||v||: `<name>_g` and `<name>_v` in both programs, w in the main one."""

    def __init__(self, helper: LayerHelperBase, attr: WeightNormParamAttr, shape: list, dtype):
        self.helper = helper
        self.dim = attr.dim
        self.dtype = dtype
        self.shape = shape
        self.g_shape = [1] * len(shape)
        if attr.dim is not None:
            self.g_shape[attr.dim] = shape[attr.dim]
        self.g_attr = copy.copy(attr)
        self.g_attr.name = f"{attr.name}_g"
        self.v_attr = copy.copy(attr)
        self.v_attr.name = f"{attr.name}_v"

    def build(self):
        from paddle.fluid import layers

        # g starts as ||v||, so that w starts with the values the user's initializer gave to v.
        startup = self.helper.startup_program.global_block()
        g = self._param(startup, self.g_attr, self.g_shape, False)
        v = self._param(startup, self.v_attr, self.shape, True)
        self._norm(startup, v, g)
        self._op(startup, "reshape", g, "", {"shape": self.g_shape}, out=g)

        main = self.helper.main_program
        g = self._param(main.global_block(), self.g_attr, self.g_shape, False)
        v = self._param(main.global_block(), self.v_attr, self.shape, False)
        scale = layers.elementwise_div(x=g, y=self._norm(main.current_block(), v))
        if self.dim is None:
            return layers.elementwise_mul(x=v, y=scale, axis=-1)
        return layers.elementwise_mul(
            x=v, y=layers.reshape(x=scale, shape=[v.shape[self.dim]]), axis=self.dim
        )

    def _param(self, block, attr, shape, with_initializer):
        return block.create_parameter(
            dtype=self.dtype, shape=shape, **attr._to_kwargs(with_initializer=with_initializer)
        )

    def _tmp(self, block, what: str):
        name = unique_name.generate_with_ignorable_key(f"{self.helper.name}.weight_norm_{what}")
        return block.create_var(name=name, dtype=self.dtype, persistable=False)

    def _op(self, block, op_type: str, x, what: str, attrs: dict, out=None):
        if out is None:
            out = self._tmp(block, what)
        block.append_op(type=op_type, inputs={"X": [x]}, outputs={"Out": [out]}, attrs=attrs)
        return out

    def _flat_norm(self, block, x, dim, out=None):
        """The 2-norm of x over the dimensions in `dim` (all if None)."""
        if out is None:
            out = self._tmp(block, "norm")
        magnitude = self._op(block, "abs", x, "abs", {})
        square = self._op(block, "pow", magnitude, "pow", {"factor": 2.0})
        attrs = {"keep_dim": False, "reduce_all": dim is None}
        if dim is not None:
            attrs["dim"] = dim
        total = self._op(block, "reduce_sum", square, "sum", attrs)
        return self._op(block, "pow", total, "", {"factor": 0.5}, out=out)

    def _norm(self, block, v, out=None):
        """The norm of v over all dimensions but `dim`, with the rank of v."""
        if out is None:
            out = self._tmp(block, "norm")
        rank = len(v.shape)
        if self.dim is None:
            return self._flat_norm(block, v, None, out)
        if self.dim in (0, rank - 1):
            first = self.dim == 0
            side = v.shape[self.dim]
            matrix = self._op(block, "reshape", v, "reshape", {"shape": [side, -1] if first else [-1, side]})
            norm = self._flat_norm(block, matrix, [1] if first else [0])
            rest = [1] * (rank - 1)
            return self._op(
                block, "reshape", norm, "", {"shape": [side] + rest if first else rest + [side]}, out=out
            )
        perm = list(range(rank))
        perm[0], perm[self.dim] = self.dim, 0
        turned = self._op(block, "transpose", v, "transpose", {"axis": perm})
        matrix = self._op(block, "reshape", turned, "reshape", {"shape": [turned.shape[0], -1]})
        norm = self._flat_norm(block, matrix, [1])
        thin = self._op(block, "reshape", norm, "reshape", {"shape": [turned.shape[0]] + [1] * (rank - 1)})
        return self._op(block, "transpose", thin, "", {"axis": perm}, out=out)
