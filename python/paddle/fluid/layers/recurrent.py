"""Recurrent layers that are one op each, single steps of them, and beam search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle.fluid.framework import Variable
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers import nn
from paddle.fluid.layers.build import VarType, add_op, emit, need_int, need_one_of, need_variable, older
from paddle.fluid.layers.tensor import concat
from paddle.fluid.param_attr import ParamAttr

if TYPE_CHECKING:
    from paddle.fluid.hints import DTypeLike, Initializer, ParamAttrLike

__all__ = [
    "dynamic_lstm",
    "dynamic_lstmp",
    "dynamic_gru",
    "gru_unit",
    "lstm_unit",
    "lstm",
    "beam_search",
    "beam_search_decode",
]

GRU_ACTIVATIONS = {"identity": 0, "sigmoid": 1, "tanh": 2, "relu": 3}


def _start_state(
    value: Variable | None, arg: str, input: Variable, width: int, layer: str
) -> Variable | None:
    if value is not None and tuple(need_variable(value, arg, layer).shape) != (input.shape[0], width):
        raise ValueError(
            f"{layer}: {arg} must have shape {(input.shape[0], width)}, but its shape is {value.shape}."
        )
    return value


def _lstm_bias(helper: LayerHelper, hidden: int, use_peepholes: bool, dtype) -> Variable:
    return helper.create_parameter(
        attr=helper.bias_attr, shape=[1, (7 if use_peepholes else 4) * hidden], dtype=dtype, is_bias=True
    )


def dynamic_lstm(
    input: Variable,
    size: int,
    h_0: Variable | None = None,
    c_0: Variable | None = None,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    dtype: DTypeLike = "float32",
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """An LSTM over sequences: hidden states and cells. `size` is 4 times the hidden width.

    The input is already the projection of the features to `size` columns, from an fc layer as a rule.
    """
    need_variable(input, "input", "dynamic_lstm")
    if bias_attr is False:
        raise ValueError("dynamic_lstm: bias_attr cannot be False.")
    hidden = need_int(size, "size", "dynamic_lstm") // 4
    helper = LayerHelper("lstm", param_attr=param_attr, bias_attr=bias_attr, name=name)
    ins = {
        "Input": input,
        "Weight": helper.create_parameter(attr=helper.param_attr, shape=[hidden, 4 * hidden], dtype=dtype),
        "Bias": _lstm_bias(helper, hidden, use_peepholes, dtype),
        "H0": _start_state(h_0, "h_0", input, hidden, "dynamic_lstm"),
        "C0": _start_state(c_0, "c_0", input, hidden, "dynamic_lstm"),
    }
    out, cell, _, _ = add_op(
        helper,
        "lstm",
        ins,
        dict.fromkeys(("Hidden", "Cell", "BatchGate", "BatchCellPreAct"), dtype),
        {
            "use_peepholes": use_peepholes,
            "is_reverse": is_reverse,
            "gate_activation": gate_activation,
            "cell_activation": cell_activation,
            "candidate_activation": candidate_activation,
        },
    )
    return out, cell


def dynamic_lstmp(
    input: Variable,
    size: int,
    proj_size: int,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    proj_activation: str = "tanh",
    dtype: DTypeLike = "float32",
    name: str | None = None,
    h_0: Variable | None = None,
    c_0: Variable | None = None,
    cell_clip: float | None = None,
    proj_clip: float | None = None,
) -> tuple[Variable, Variable]:
    """dynamic_lstm whose hidden state is projected to proj_size columns before it is fed back."""
    need_variable(input, "input", "dynamic_lstmp")
    if bias_attr is False:
        raise ValueError("dynamic_lstmp: bias_attr cannot be False.")
    for arg, limit in (("cell_clip", cell_clip), ("proj_clip", proj_clip)):
        if limit is not None and limit < 0:
            raise ValueError(f"dynamic_lstmp: {arg} must not be negative, but {limit} was given.")
    hidden = need_int(size, "size", "dynamic_lstmp") // 4
    helper = LayerHelper("lstmp", param_attr=param_attr, bias_attr=bias_attr, name=name)
    ins = {
        "Input": input,
        "Weight": helper.create_parameter(attr=helper.param_attr, shape=[proj_size, 4 * hidden], dtype=dtype),
        "ProjWeight": helper.create_parameter(attr=helper.param_attr, shape=[hidden, proj_size], dtype=dtype),
        "Bias": _lstm_bias(helper, hidden, use_peepholes, dtype),
        "H0": _start_state(h_0, "h_0", input, proj_size, "dynamic_lstmp"),
        "C0": _start_state(c_0, "c_0", input, hidden, "dynamic_lstmp"),
    }
    outs = {slot: helper.create_variable_for_type_inference(dtype) for slot in ("Projection", "Cell")}
    helper.create_variable_for_type_inference(dtype)  # 1.8.5 makes one more here, which counts in later names
    outs.update(dict.fromkeys(("BatchHidden", "BatchGate", "BatchCellPreAct"), dtype))
    projection, cell, *_ = add_op(
        helper,
        "lstmp",
        ins,
        outs,
        {
            "use_peepholes": use_peepholes,
            "cell_clip": cell_clip,
            "proj_clip": proj_clip,
            "is_reverse": is_reverse,
            "gate_activation": gate_activation,
            "cell_activation": cell_activation,
            "candidate_activation": candidate_activation,
            "proj_activation": proj_activation,
        },
    )
    return projection, cell


def dynamic_gru(
    input: Variable,
    size: int,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    candidate_activation: str = "tanh",
    h_0: Variable | None = None,
    origin_mode: bool = False,
) -> Variable:
    """A GRU over sequences: its hidden states. The input has 3 * size columns, from an fc layer as a rule."""
    need_variable(input, "input", "dynamic_gru")
    size = need_int(size, "size", "dynamic_gru")
    helper = LayerHelper("gru", param_attr=param_attr, bias_attr=bias_attr)
    ins = {
        "Input": input,
        "Weight": helper.create_parameter(attr=helper.param_attr, shape=[size, 3 * size], dtype=input.dtype),
        "Bias": helper.create_parameter(
            attr=helper.bias_attr, shape=[1, 3 * size], dtype=input.dtype, is_bias=True
        ),
        "H0": _start_state(h_0, "h_0", input, size, "dynamic_gru"),
    }
    return add_op(
        helper,
        "gru",
        ins,
        dict.fromkeys(("Hidden", "BatchGate", "BatchResetHiddenPrev", "BatchHidden"), input.dtype),
        {
            "is_reverse": is_reverse,
            "gate_activation": gate_activation,
            "activation": candidate_activation,
            "origin_mode": origin_mode,
        },
    )[0]


@older(weight="param_attr", bias="bias_attr")
def gru_unit(
    input: Variable,
    hidden: Variable,
    size: int,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    activation: str = "tanh",
    gate_activation: str = "sigmoid",
    origin_mode: bool = False,
) -> tuple[Variable, Variable, Variable]:
    """One step of a GRU: the new hidden state, the reset one, the gates. `size` is 3 times its width.

    Its op is not there yet. The example is the same cell, with parameters of its own, made of other layers.

    >>> x, hidden = fluid.data('x', [None, 24]), fluid.data('hidden', [None, 8])
    >>> for_gates, for_new = fluid.layers.split(x, [16, 8], dim=1)
    >>> gates = fluid.layers.sigmoid(for_gates + fluid.layers.fc(hidden, 16))
    >>> update, reset = fluid.layers.split(gates, 2, dim=1)
    >>> new = fluid.layers.tanh(for_new + fluid.layers.fc(reset * hidden, 8))
    >>> hidden = hidden + update * (new - hidden)
    """
    need_variable(input, "input", "gru_unit")
    for arg, value in (("activation", activation), ("gate_activation", gate_activation)):
        need_one_of(value, GRU_ACTIVATIONS, arg, "gru_unit")
    width = need_int(size, "size", "gru_unit") // 3
    helper = LayerHelper("gru_unit", param_attr=param_attr, bias_attr=bias_attr)
    dtype = input.dtype
    ins = {
        "Input": input,
        "HiddenPrev": hidden,
        "Weight": helper.create_parameter(attr=helper.param_attr, shape=[width, 3 * width], dtype=dtype),
    }
    outs = {
        slot: helper.create_variable_for_type_inference(dtype)
        for slot in ("Gate", "ResetHiddenPrev", "Hidden")
    }
    if helper.bias_attr:
        ins["Bias"] = helper.create_parameter(
            attr=helper.bias_attr, shape=[1, 3 * width], dtype=dtype, is_bias=True
        )
    gate, reset, updated = add_op(
        helper,
        "gru_unit",
        ins,
        outs,
        {
            "activation": GRU_ACTIVATIONS[activation],
            "gate_activation": GRU_ACTIVATIONS[gate_activation],
            "origin_mode": origin_mode,
        },
    )
    return updated, reset, gate


def lstm_unit(
    x_t: Variable,
    hidden_t_prev: Variable,
    cell_t_prev: Variable,
    forget_bias: float = 0.0,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """One step of an LSTM: the new hidden state and cell.

    Its op is not there yet. The example is the same cell with the same parameters, of forget_bias 1.0, made of
    other layers.

    >>> x, hidden, cell = [fluid.data(name, [None, 8]) for name in ('x', 'hidden', 'cell')]
    >>> gates = fluid.layers.fc(fluid.layers.concat([x, hidden], axis=1), 4 * 8)
    >>> let_in, forget, let_out, new = fluid.layers.split(gates, 4, dim=1)
    >>> new = fluid.layers.sigmoid(let_in) * fluid.layers.tanh(new)
    >>> cell = fluid.layers.sigmoid(forget + 1.0) * cell + new
    >>> hidden = fluid.layers.sigmoid(let_out) * fluid.layers.tanh(cell)
    """
    for arg, value in (("x_t", x_t), ("hidden_t_prev", hidden_t_prev), ("cell_t_prev", cell_t_prev)):
        if len(need_variable(value, arg, "lstm_unit").shape) != 2:
            raise ValueError(f"lstm_unit: {arg} must have 2 dimensions, but its shape is {value.shape}.")
        if value.shape[0] != x_t.shape[0]:
            raise ValueError(
                f"lstm_unit: {arg} must have as many rows as x_t, but the shapes are {value.shape} and "
                f"{x_t.shape}."
            )
    if hidden_t_prev.shape[1] != cell_t_prev.shape[1]:
        raise ValueError(
            f"lstm_unit: hidden_t_prev and cell_t_prev must be equally wide, but their shapes are "
            f"{hidden_t_prev.shape} and {cell_t_prev.shape}."
        )
    helper = LayerHelper("lstm_unit", name=name)
    gates = nn.fc(
        concat([x_t, hidden_t_prev], axis=1),
        size=4 * cell_t_prev.shape[1],
        param_attr=param_attr,
        bias_attr=ParamAttr() if bias_attr is None else bias_attr,
    )
    cell, hidden = add_op(
        helper,
        "lstm_unit",
        {"X": gates, "C_prev": cell_t_prev},
        {"C": x_t.dtype, "H": x_t.dtype},
        {"forget_bias": forget_bias},
    )
    return hidden, cell


def lstm(
    input: Variable,
    init_h: Variable,
    init_c: Variable,
    max_len: int,
    hidden_size: int,
    num_layers: int,
    dropout_prob: float = 0.0,
    is_bidirec: bool = False,
    is_test: bool = False,
    name: str | None = None,
    default_initializer: Initializer | None = None,
    seed: int = -1,
) -> tuple[Variable, Variable, Variable]:
    """A stack of LSTM layers over padded sequences: the output, and the last hidden states and cells."""
    need_variable(input, "input", "lstm")
    helper = LayerHelper("cudnn_lstm", name=name)
    directions = 2 if is_bidirec else 1
    weights, width = 0, input.shape[-1]
    for _ in range(num_layers):
        weights += directions * (4 * hidden_size * (width + hidden_size) + 8 * hidden_size)
        width = directions * hidden_size
    weight = helper.create_parameter(
        attr=helper.param_attr, shape=[weights], dtype=input.dtype, default_initializer=default_initializer
    )
    outs = {
        slot: helper.create_variable_for_type_inference(input.dtype) for slot in ("Out", "last_h", "last_c")
    }
    cache = helper.create_variable(persistable=True, type=VarType.RAW, stop_gradient=True)
    out, last_h, last_c = add_op(
        helper,
        "cudnn_lstm",
        {"Input": input, "InitH": init_h, "InitC": init_c, "W": weight, "Cache": cache},
        outs,
        {
            "max_len": max_len,
            "is_bidirec": is_bidirec,
            "input_size": input.shape[-1],
            "hidden_size": hidden_size,
            "num_layers": num_layers,
            "is_test": is_test,
            "dropout_prob": dropout_prob,
            "seed": seed,
        },
    )
    return out, last_h, last_c


def beam_search(
    pre_ids: Variable,
    pre_scores: Variable,
    ids: Variable | None,
    scores: Variable,
    beam_size: int,
    end_id: int,
    level: int = 0,
    is_accumulated: bool = True,
    name: str | None = None,
    return_parent_idx: bool = False,
):
    """One step of beam search: the chosen ids and their scores, and where they came from when asked for."""
    need_variable(pre_ids, "pre_ids", "beam_search")
    need_variable(pre_scores, "pre_scores", "beam_search")
    chosen_scores, chosen_ids, parents = emit(
        "beam_search",
        {"pre_ids": pre_ids, "pre_scores": pre_scores, "ids": ids, "scores": scores},
        {"selected_scores": pre_scores.dtype, "selected_ids": pre_ids.dtype, "parent_idx": "int32"},
        {"level": level, "beam_size": beam_size, "end_id": end_id, "is_accumulated": is_accumulated},
        name=name,
    )
    return (chosen_ids, chosen_scores, parents) if return_parent_idx else (chosen_ids, chosen_scores)


def beam_search_decode(
    ids: Variable,
    scores: Variable,
    beam_size: int | None = None,
    end_id: int | None = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Whole sentences and their scores, from the arrays that the steps of a beam search wrote."""
    need_variable(ids, "ids", "beam_search_decode")
    need_variable(scores, "scores", "beam_search_decode")
    sentences, sentence_scores = emit(
        "beam_search_decode",
        {"Ids": ids, "Scores": scores},
        {"SentenceIds": ids.dtype, "SentenceScores": scores.dtype},
        {"beam_size": beam_size, "end_id": end_id},
        name=name,
    )
    return sentences, sentence_scores
