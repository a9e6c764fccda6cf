"""What a user can say about a parameter when a layer makes it: name, first values, learning rate, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle.fluid import suggest
from paddle.fluid.initializer import Constant, Initializer, Xavier
from paddle.fluid.regularizer import WeightDecayRegularizer
from paddle.fluid.shown import Shown

if TYPE_CHECKING:
    from paddle.fluid.hints import GradientClipBase, ParamAttrLike

__all__ = ["ParamAttr", "WeightNormParamAttr"]


def _is_clip(value) -> bool:
    from paddle.fluid.clip import GradientClipBase

    return isinstance(value, GradientClipBase)


class ParamAttr(Shown):
    """The attributes of one parameter.

    `learning_rate` multiplies the optimizer's. `regularizer` goes before the optimizer's own. `gradient_clip`
    is the form of v0.11 to v1.7; later scripts give `grad_clip` to the optimizer.

    Args:
        name: of the parameter; None: an automatic one.
        initializer: how it is filled; None: as the layer does by default.
        learning_rate: multiplies the optimizer's rate.
        regularizer: the decay of this parameter; goes before the optimizer's own.
        trainable: it is trained.
        do_model_average: ModelAverage averages it.
        gradient_clip: the clip of its gradient, as up to v1.7.

    >>> fluid.ParamAttr(name="w", learning_rate=0.5).name
    'w'
    """

    def __init__(
        self,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: WeightDecayRegularizer | None = None,
        trainable: bool = True,
        do_model_average: bool | None = True,
        gradient_clip: GradientClipBase | None = None,
        **old,
    ):
        if not isinstance(do_model_average, (bool, type(None))) and _is_clip(do_model_average):
            # Up to v1.7 the sixth argument was the clip and the seventh do_model_average.
            gradient_clip, do_model_average = (
                do_model_average,
                True if gradient_clip is None else gradient_clip,
            )
        if "clip" in old:
            gradient_clip = old.pop("clip")
        if old:
            raise suggest.no_argument(ParamAttr, sorted(old)[0])
        if name is not None and not isinstance(name, str):
            raise TypeError(f"ParamAttr: name must be a string, not a {type(name).__name__}.")
        if name == "":
            raise ValueError("ParamAttr: name is an empty string. Leave it out for an automatic name.")
        # A Variable takes the place of the optimizer's rate for this parameter.
        if isinstance(learning_rate, (bool, str)) or not (
            isinstance(learning_rate, (float, int)) or hasattr(learning_rate, "block")
        ):
            raise TypeError(
                f"ParamAttr: learning_rate must be a number, not a {type(learning_rate).__name__}."
            )
        if not isinstance(trainable, bool):
            raise TypeError(f"ParamAttr: trainable must be True or False, not a {type(trainable).__name__}.")
        if do_model_average is not None and not isinstance(do_model_average, bool):
            raise TypeError(
                f"ParamAttr: do_model_average must be True or False, not a {type(do_model_average).__name__}."
            )
        self.name = name
        self.initializer = initializer
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.do_model_average = do_model_average
        self.gradient_clip = gradient_clip

    def _set_default_initializer(self, initializer: Initializer | None) -> None:
        """Takes `initializer` where the user gave none.

        Args:
            initializer: what to take.
        """
        if self.initializer is None:
            if initializer is None:
                raise ValueError(
                    f"ParamAttr {self.name!r} has no initializer, and the layer offers no default."
                )
            self.initializer = initializer

    def _set_default_param_initializer(self) -> None:
        self._set_default_initializer(Xavier())

    def _set_default_bias_initializer(self) -> None:
        self._set_default_initializer(Constant(0.0))

    @staticmethod
    def _to_attr(arg: ParamAttrLike) -> ParamAttr | list | bool:
        """Turns what layers accept for param_attr and bias_attr into ParamAttr, a list of them, or False.

        Args:
            arg: what a layer was given.

        Returns:
            a ParamAttr, a list of them, or False.
        """
        if arg is None:
            return ParamAttr()
        if isinstance(arg, (list, tuple)):
            return [ParamAttr._to_attr(each) for each in arg]
        if isinstance(arg, ParamAttr):
            return arg
        if isinstance(arg, str):
            return ParamAttr(name=arg)
        if isinstance(arg, Initializer):
            return ParamAttr(initializer=arg)
        if isinstance(arg, WeightDecayRegularizer):
            return ParamAttr(regularizer=arg)
        if isinstance(arg, bool):
            return ParamAttr() if arg else False
        if _is_clip(arg):
            return ParamAttr(gradient_clip=arg)
        raise TypeError(
            f"param_attr and bias_attr take a ParamAttr, a name, an initializer, a regularizer or False, "
            f"not a {type(arg).__name__}."
        )

    def _to_kwargs(self, with_initializer: bool = False) -> dict:
        """Returns the arguments for Block.create_parameter.

        Args:
            with_initializer: add the initializer.

        Returns:
            a dict.
        """
        kwargs = {
            "name": self.name,
            "optimize_attr": {"learning_rate": self.learning_rate},
            "regularizer": self.regularizer,
            "trainable": self.trainable,
            "do_model_average": self.do_model_average,
        }
        if with_initializer:
            kwargs["initializer"] = self.initializer
        return kwargs

    # Names of v0.11 to v0.14.
    to_attr = _to_attr
    to_kwargs = _to_kwargs
    set_default_initializer = _set_default_initializer
    set_default_param_initializer = _set_default_param_initializer
    set_default_bias_initializer = _set_default_bias_initializer


class WeightNormParamAttr(ParamAttr):
    """A weight made of a length and a direction: w = g * v / ||v||.

    The norm goes over all dimensions but `dim`; without `dim`, over all elements. The layer then trains
    `<name>_g` and `<name>_v`.

    Args:
        dim: the dimension that keeps a length for each entry; None: one length for all.
        name: of the parameter; None: an automatic one.
        initializer: how it is filled; None: as the layer does by default.
        learning_rate: multiplies the optimizer's rate.
        regularizer: the decay of this parameter.
        trainable: it is trained.
        do_model_average: ModelAverage averages it.
        gradient_clip: the clip of its gradient, as up to v1.7.
    """

    # Weights made this way, in order; savers and tools look here.
    params_with_weight_norm: list = []

    def __init__(
        self,
        dim: int | None = None,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: WeightDecayRegularizer | None = None,
        trainable: bool = True,
        do_model_average: bool | None = False,
        gradient_clip: GradientClipBase | None = None,
        **old,
    ):
        super().__init__(
            name=name,
            initializer=initializer,
            learning_rate=learning_rate,
            regularizer=regularizer,
            trainable=trainable,
            do_model_average=do_model_average,
            gradient_clip=gradient_clip,
            **old,
        )
        self.dim = dim


suggest.make_helpful(__all__, globals())
