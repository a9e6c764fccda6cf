"""The layer that lists devices, from the time before ParallelExecutor."""

from __future__ import annotations

from paddle.fluid import unique_name
from paddle.fluid.framework import Variable
from paddle.fluid.layer_helper import LayerHelper

__all__ = ["get_places"]


def get_places(device_count: int | None = None, device_type: str | None = None) -> Variable:
    """The devices of this machine, at most device_count of them."""
    helper = LayerHelper("get_places")
    places = helper.create_variable(name=unique_name.generate_with_ignorable_key(f"{helper.name}.out"))
    attrs = {}
    if device_count is not None:
        attrs["device_count"] = int(device_count)
    if device_type is not None:
        attrs["device_type"] = str(device_type)
    helper.append_op(type="get_places", outputs={"Out": [places]}, attrs=attrs)
    return places
