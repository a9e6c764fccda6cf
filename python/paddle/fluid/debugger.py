"""Programs as text and as pictures, and a run that keeps the parameters when it fails."""

import re

from paddle.fluid import core, framework, unique_name
from paddle.fluid.data_feeder import convert_dtype
from paddle.fluid.graphviz import GraphPreviewGenerator

__all__ = [
    "pprint_program_codes",
    "pprint_block_codes",
    "draw_block_graphviz",
    "prepare_fast_nan_inf_debug",
    "run_fast_nan_inf_debug",
]

_HIDDEN = ("op_callstack",)


def repr_data_type(dtype) -> str:
    """The name of an element type; '?' where it is not known yet."""
    try:
        return convert_dtype(dtype)
    except ValueError:
        return "?"


def repr_tensor(var) -> str:
    """Element type and shape of a variable."""
    return f"tensor(type={repr_data_type(var.dtype)}, shape={list(var.shape)})"


def repr_var(var) -> str:
    """One line on a variable."""
    kinds = core.VarDesc.VarType
    if var.type == kinds.SELECTED_ROWS:
        return f"SelectedRows {var.name} ({repr_tensor(var)})"
    if var.type == kinds.LOD_TENSOR_ARRAY:
        return f"TensorArray {var.name} (level={var.lod_level}, {repr_tensor(var)})"
    if var.type != kinds.LOD_TENSOR:
        return f"{var.type} {var.name}"
    if var.lod_level:
        return f"LoDTensor {var.name} (level={var.lod_level}, {repr_tensor(var)})"
    return f"Tensor {var.name} ({repr_tensor(var)})"


def repr_attr(name: str, value) -> str:
    """One attribute as name=value."""
    return f"{name}={repr_data_type(value) if name == 'dtype' else value}"


def _args(names: list) -> str:
    return names[0] if len(names) == 1 else str(list(names))


def repr_op(op) -> str:
    """One line on an op, written like a call."""
    outputs = ", ".join(_args(op.output(slot)) for slot in op.output_names if op.output(slot))
    if op.type == "fill_constant":
        return f"{outputs} = {op.attr('value')} [shape={list(op.attr('shape'))}]"
    inputs = ", ".join(f"{slot}={_args(op.input(slot))}" for slot in op.input_names if op.input(slot))
    attrs = ", ".join(repr_attr(name, op.attr(name)) for name in op.attr_names if name not in _HIDDEN)
    return f"{outputs} = {op.type}({inputs}) [{{{attrs}}}]"


def _is_backward(op) -> bool:
    return op.type.endswith("_grad") or any(
        "@GRAD" in name for name in [*op.input_arg_names, *op.output_arg_names]
    )


def pprint_block_codes(block_desc, show_backward: bool = False) -> str:
    """Returns the text of one Block; gradients are left out unless asked for."""
    variables = [v for v in block_desc.vars.values() if show_backward or "@GRAD" not in v.name]
    ops = [op for op in block_desc.ops if show_backward or not _is_backward(op)]
    return "\n".join(
        [
            f"// block-{block_desc.idx}  parent-{block_desc.parent_idx}",
            "// variables",
            *map(repr_var, variables),
            "",
            "// operators",
            *map(repr_op, ops),
            "",
        ]
    )


def pprint_program_codes(program_desc, show_backward: bool = False) -> str:
    """Returns the text of all blocks of a Program."""
    return "\n".join(pprint_block_codes(block, show_backward) for block in program_desc.blocks)


def draw_block_graphviz(block, highlights: list | None = None, path: str = "./temp.dot") -> None:
    """Writes a block as a dot file. Names that match one of the patterns in `highlights` stand out."""
    patterns = [re.compile(each) for each in highlights or ()]

    def stands_out(name: str) -> bool:
        return any(pattern.match(name) for pattern in patterns)

    graph = GraphPreviewGenerator("block")
    nodes = {}
    for var in block.vars.values():
        if var.persistable:
            nodes[var.name] = graph.add_param(var.name, repr_tensor(var), highlight=stands_out(var.name))
        else:
            nodes[var.name] = graph.add_arg(var.name, highlight=stands_out(var.name))

    def node_of(name: str):
        if name not in nodes:
            nodes[name] = graph.add_arg(name, highlight=stands_out(name))
        return nodes[name]

    for op in block.ops:
        marked = stands_out(op.type)
        node = graph.add_op(op.type, highlight=marked)
        for name in op.input_arg_names:
            graph.add_edge(node_of(name), node, highlight=marked or stands_out(name))
        for name in op.output_arg_names:
            graph.add_edge(node, node_of(name), highlight=marked or stands_out(name))
    graph(path)


def prepare_fast_nan_inf_debug(_program=None) -> None:
    """Adds to each block ops that read every floating point variable, so that a bad value meets a check."""
    program = framework.default_main_program() if _program is None else _program
    floats = (core.VarDesc.VarType.FP32, core.VarDesc.VarType.FP64)
    for block in program.blocks:
        for var in list(block.vars.values()):
            if var.type != core.VarDesc.VarType.LOD_TENSOR or var.dtype not in floats:
                continue
            out = block.create_var(
                name=unique_name.generate(f"debug_var_{var.name}"),
                dtype=var.dtype,
                type=core.VarDesc.VarType.LOD_TENSOR,
                persistable=False,
                stop_gradient=True,
            )
            block.append_op(type="sum", inputs={"X": [var]}, outputs={"Out": [out]})


def run_fast_nan_inf_debug(
    executor,
    program=None,
    feed=None,
    fetch_list=None,
    feed_var_name: str = "feed",
    fetch_var_name: str = "fetch",
    scope=None,
    return_numpy: bool = True,
    use_program_cache: bool = False,
    dump_core: bool = True,
):
    """Runs like Executor.run. On an error it saves the persistables to a file beside you and says so."""
    try:
        return executor.run(
            program=program,
            feed=feed,
            fetch_list=fetch_list,
            feed_var_name=feed_var_name,
            fetch_var_name=fetch_var_name,
            scope=scope,
            return_numpy=return_numpy,
            use_program_cache=use_program_cache,
        )
    except Exception as error:
        print(f"the run failed: {error}")
        if not dump_core:
            return None
        import random

        from paddle.fluid import io

        name = f"core{random.randrange(10000)}.pdckpt"
        io.save_persistables(executor, "./", main_program=program, filename=name)
        print(f"all persistable variables are in ./{name}")
        return None
