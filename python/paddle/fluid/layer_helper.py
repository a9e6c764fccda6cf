"""The helper that layers are written with. It gives out the layer's arguments in usable form."""

import copy
from typing import Iterator

from paddle.fluid import framework, suggest, unique_name
from paddle.fluid.data_feeder import convert_dtype
from paddle.fluid.initializer import Constant, Xavier
from paddle.fluid.layer_helper_base import LayerHelperBase
from paddle.fluid.param_attr import ParamAttr

__all__ = ["LayerHelper"]


class LayerHelper(LayerHelperBase):
    """Made with the layer's type and its arguments; without a `name` the layer gets an automatic one."""

    def __init__(self, layer_type: str, **kwargs):
        if kwargs.get("name") is None:
            kwargs["name"] = unique_name.generate(layer_type)
        self.kwargs = kwargs
        if kwargs.get("act") is not None:
            suggest.check_activation(layer_type, kwargs["act"])
        super().__init__(kwargs["name"], layer_type)

    def append_op(self, *args, **kwargs):
        """Adds an op to the current block."""
        return self.main_program.current_block().append_op(*args, **kwargs)

    def multiple_input(self, input_param_name: str = "input") -> list:
        """Returns the input argument as a list of Variables."""
        inputs = self.kwargs.get(input_param_name, [])
        if not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        return [self.to_variable(each) for each in inputs]

    def input(self, input_param_name: str = "input"):
        """Returns the only input of the layer."""
        inputs = self.multiple_input(input_param_name)
        if len(inputs) != 1:
            raise ValueError(f"{self.layer_type} takes one {input_param_name}; {len(inputs)} were given.")
        return inputs[0]

    @property
    def param_attr(self):
        return ParamAttr._to_attr(self.kwargs.get("param_attr"))

    @property
    def bias_attr(self):
        return ParamAttr._to_attr(self.kwargs.get("bias_attr"))

    def multiple_param_attr(self, length: int) -> list:
        """Returns one ParamAttr per input; a single one is copied for each."""
        attrs = self.param_attr
        if not isinstance(attrs, list):
            attrs = [attrs]
        if len(attrs) == length:
            return attrs
        if len(attrs) != 1:
            raise ValueError(
                f"{self.layer_type}: {len(attrs)} param_attr for {length} inputs. Give one, or one for each."
            )
        return [copy.copy(attrs[0]) for _ in range(length)]

    def iter_inputs_and_params(self, input_param_name: str = "input") -> Iterator[tuple]:
        """Gives (input, its ParamAttr) in order."""
        inputs = self.multiple_input(input_param_name)
        yield from zip(inputs, self.multiple_param_attr(len(inputs)))

    def input_dtype(self, input_param_name: str = "input"):
        """Returns the dtype that all inputs share."""
        dtype = None
        for each in self.multiple_input(input_param_name):
            if dtype is None:
                dtype = each.dtype
            elif dtype != each.dtype:
                raise ValueError(
                    f"{self.layer_type}: inputs of different types: {convert_dtype(dtype)}, and "
                    f"{convert_dtype(each.dtype)} of {each.name}. Cast one of them."
                )
        return dtype

    def get_parameter(self, name: str):
        """Returns the parameter `name` of the main program."""
        param = self.main_program.global_block().var(name)
        if not isinstance(param, framework.Parameter):
            raise ValueError(f"{self.layer_type}: {name} is a variable of the program, but no parameter.")
        return param

    def append_bias_op(self, input_var, dim_start: int = 1, dim_end: int | None = None):
        """Adds a bias over the dimensions from `dim_start` to `dim_end`, unless bias_attr is False."""
        bias_attr = self.bias_attr
        if not bias_attr:
            return input_var
        size = list(input_var.shape[dim_start:dim_end])
        bias = self.create_parameter(attr=bias_attr, shape=size, dtype=input_var.dtype, is_bias=True)
        out = self.create_variable_for_type_inference(dtype=input_var.dtype)
        self.append_op(
            type="elementwise_add",
            inputs={"X": [input_var], "Y": [bias]},
            outputs={"Out": [out]},
            attrs={"axis": dim_start},
        )
        return out

    def append_activation(self, input_var):
        """Adds the activation that `act` names; v0.x also took {'type': name, attribute: value}."""
        act = self.kwargs.get("act")
        if act is None:
            return input_var
        if isinstance(act, str):
            act = {"type": act}
        attrs = dict(act)
        act_type = attrs.pop("type")
        if self.kwargs.get("use_cudnn"):
            attrs["use_cudnn"] = self.kwargs["use_cudnn"]
        if "use_mkldnn" in self.kwargs:
            attrs["use_mkldnn"] = self.kwargs["use_mkldnn"]
        out = self.create_variable_for_type_inference(dtype=input_var.dtype)
        self.append_op(type=act_type, inputs={"X": [input_var]}, outputs={"Out": [out]}, attrs=attrs)
        return out

    def _get_default_initializer(self, dtype):
        if dtype is None or convert_dtype(dtype).startswith("float"):
            return Xavier()
        return Constant()

    def is_instance(self, param_name: str, cls) -> None:
        """Raises unless the layer's argument `param_name` is a `cls`."""
        value = self.kwargs.get(param_name)
        if not isinstance(value, cls):
            raise TypeError(
                f"{self.layer_type}: {param_name} must be a {cls.__name__}, not a {type(value).__name__}."
            )
