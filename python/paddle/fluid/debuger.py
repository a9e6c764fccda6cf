"""fluid.debugger by the name it had in v0.12."""

from paddle.fluid.debugger import (  # noqa: F401
    draw_block_graphviz,
    pprint_block_codes,
    pprint_program_codes,
    repr_attr,
    repr_data_type,
    repr_op,
    repr_tensor,
    repr_var,
)
