"""Which element types layers take. A wrong one is a TypeError while the program is built, on the line that is wrong, as
in 1.8.5, and not an error of an op when it runs.

The table groups arguments by the types they take: a letter for each type of TYPES. Where 1.8.5 takes float32 only,
float64 is taken too, and ids of embeddings may be int32. Layers that are not in it leave the check to their ops.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Callable, NamedTuple

from paddle.fluid.docs import arguments_of
from paddle.fluid.framework import Variable
from paddle.fluid.layers.build import DTYPE_NAMES, to_vartype

TYPES = {
    "h": "float16",
    "f": "float32",
    "d": "float64",
    "b": "bool",
    "c": "int8",
    "B": "uint8",
    "s": "int16",
    "i": "int32",
    "l": "int64",
}

TAKEN = {
    "Bil": """
        switch_case(branch_index)
        """,
    "b": """
        cond(pred) is_empty(cond) logical_and(x,y) logical_not(x) logical_or(x,y) logical_xor(x,y)
        reduce_all(input) reduce_any(input)
        """,
    "fd": """
        add_position_encoding(input) addmm(x,y) affine_channel(x) affine_grid(theta) auc(input)
        beam_search(pre_scores,scores) beam_search_decode(scores) clip_by_norm(x) cos_sim(X,Y) crop(x) dist(x,y)
        dynamic_gru(input,h_0) dynamic_lstm(input,h_0,c_0) dynamic_lstmp(input,h_0,c_0) fsp_matrix(x,y)
        grid_sampler(x,grid) group_norm(input) gru_unit(input,hidden) hsigmoid(input) huber_loss(input,label)
        im2sequence(input) inplace_abn(input) instance_norm(input) kldiv_loss(x,target) l2_normalize(x)
        label_smooth(label) layer_norm(input) linspace(start,stop) log(x) log1p(x) log_loss(input,label)
        logsumexp(x) lrn(input) lstm(input,init_h,init_c) lstm_unit(x_t,hidden_t_prev,cell_t_prev)
        margin_rank_loss(label) maxout(x) mish(x) mse_loss(input,label) nce(input) npair_loss(anchor,positive)
        pixel_shuffle(x) pow(factor) prelu(x) randn(dtype) rank_loss(label,left,right) row_conv(input) selu(x)
        sequence_conv(input) sequence_first_step(input) sequence_last_step(input) sequence_pool(input)
        sequence_softmax(input) smooth_l1(x,y) spectral_norm(weight) square_error_cost(input,label)
        teacher_student_sigmoid_loss(input,label) temporal_shift(x) unfold(x) uniform_random(dtype)
        uniform_random_batch_size_like(input,dtype)
        """,
    "fdBil": """
        reverse(x)
        """,
    "fdBsi": """
        random_crop(x)
        """,
    "fdBsil": """
        argmax(x) argmin(x) argsort(input)
        """,
    "fdbil": """
        Print(input) expand(x) expand_as(x,target_tensor) ones_like(x,out) zeros_like(x,out)
        """,
    "fdcil": """
        flatten(x) sequence_reverse(x)
        """,
    "fdi": """
        clamp(min,max)
        """,
    "fdil": """
        addcmul(input,tensor1,tensor2) arange(dtype) crop_tensor(x) diag(diagonal) dot(x,y) equal(x,y)
        greater_equal(x,y) greater_than(x,y) increment(x) index_sample(x) index_select(input) is_empty(x)
        isfinite(x) less_equal(x,y) less_than(x,y) lod_append(x) lod_reset(x) multiplex(inputs) not_equal(x,y)
        pad_constant_like(y) pow(x) range(dtype) reduce_mean(input) reduce_sum(input) sequence_expand(x)
        sequence_expand_as(x) sequence_pad(x,pad_value) sequence_reshape(input) sequence_scatter(input,updates)
        sequence_slice(input) sequence_unpad(x) shape(input) strided_slice(input) sum(x) sums(input,out)
        unique(x) unique_with_counts(x)
        """,
    "fdl": """
        npair_loss(labels) sequence_concat(input)
        """,
    "hfd": """
        accuracy(input) acos(x) asin(x) atan(x) batch_norm(input) bpr_loss(input) brelu(x) ceil(x) clip(x)
        continuous_value_model(input) conv2d(input) cos(x) cross_entropy(input) dropout(x) elu(x)
        embedding(dtype) fc(input) floor(x) hard_shrink(x) hard_sigmoid(x) hard_swish(x) leaky_relu(x)
        log_softmax(input) logsigmoid(x) matmul(x,y) mean(x) mul(x,y) reciprocal(x) relu(x) relu6(x) round(x)
        rsqrt(x) sigmoid(x) sigmoid_cross_entropy_with_logits(x) sign(x) sin(x) soft_relu(x) softmax(input)
        softplus(x) softshrink(x) softsign(x) sqrt(x) stanh(x) swish(x) tanh(x) tanh_shrink(x)
        thresholded_relu(x)
        """,
    "hfdbBil": """
        cast(x)
        """,
    "hfdbcBil": """
        cast(dtype)
        """,
    "hfdbcBsil": """
        create_global_var(dtype) create_parameter(dtype)
        """,
    "hfdbcil": """
        create_tensor(dtype)
        """,
    "hfdbil": """
        assign(input) fill_constant(dtype) full(dtype) full_like(dtype) ones(dtype) zeros(dtype)
        """,
    "hfdcBsil": """
        scale(x)
        """,
    "hfdcil": """
        squeeze(input)
        """,
    "hfdil": """
        abs(x) adaptive_pool2d(input) adaptive_pool3d(input) concat(input) diag_embed(input)
        elementwise_add(x,y) elementwise_div(x,y) elementwise_floordiv(x,y) elementwise_max(x,y)
        elementwise_min(x,y) elementwise_mod(x,y) elementwise_mul(x,y) elementwise_pow(x,y) elementwise_sub(x,y)
        exp(x) kron(x,y,out) meshgrid(input) pad(x) pad2d(input) reshape(x) space_to_depth(x) square(x) stack(x)
        t(input) trace(input,out) transpose(x)
        """,
    "i": """
        affine_grid(out_shape) linspace(num) select_input(mask) select_output(mask)
        """,
    "il": """
        auc(label) fill_constant(shape) embedding(input) gather_tree(ids,parents) hash(input) index_sample(index)
        index_select(index) mean_iou(input,label) multiplex(index) one_hot(input) randint(dtype) randperm(dtype)
        sequence_enumerate(input) sequence_scatter(index) sequence_slice(offset,length)
        """,
    "l": """
        array_read(i) array_write(i) beam_search(pre_ids) beam_search_decode(ids) chunk_eval(input,label)
        edit_distance(input,label) hsigmoid(label) nce(label) sequence_unpad(length)
        shard_index(input)
        """,
}


class Rule(NamedTuple):
    argument: str
    place: int  # among the positional arguments
    taken: frozenset


def rules() -> dict[str, dict[str, frozenset]]:
    """{layer: {argument: names of the types it takes}} of the table."""
    found: dict[str, dict[str, frozenset]] = {}
    for letters, text in TAKEN.items():
        names = frozenset(TYPES[letter] for letter in letters)
        for layer, arguments in re.findall(r"(\w+)\(([\w,]+)\)", text):
            for argument in arguments.split(","):
                found.setdefault(layer, {})[argument] = names
    return found


def _refuse(layer: str, argument: str, found: str, taken: frozenset) -> None:
    *most, last = [name for name in TYPES.values() if name in taken]
    wanted = f"{', '.join(most)} or {last}" if most else last
    raise TypeError(f"{layer}: {argument} is {found}, but it must be {wanted}; layers.cast changes the type.")


def _check(layer: str, rule: Rule, value: Any) -> None:
    if isinstance(value, (list, tuple)):
        for i, each in enumerate(value):
            if isinstance(each, Variable):
                _check(layer, rule._replace(argument=f"{rule.argument}[{i}]"), each)
        return
    if isinstance(value, Variable):
        found = DTYPE_NAMES.get(value.dtype) if value._has_dtype else None
    else:
        found = DTYPE_NAMES.get(to_vartype(value)) if rule.argument == "dtype" and value is not None else None
    if found is not None and found not in rule.taken:
        _refuse(layer, rule.argument, found, rule.taken)


def checked(layer: Callable, taken: dict[str, frozenset]) -> Callable:
    """The layer, with a look at its arguments' types first."""
    places = arguments_of(layer)
    own = [Rule(argument, places.index(argument), names) for argument, names in taken.items()]
    name = layer.__name__

    @functools.wraps(layer)
    def call(*args, **kwargs):
        for rule in own:
            value = args[rule.place] if rule.place < len(args) else kwargs.get(rule.argument)
            if value is not None:
                _check(name, rule, value)
        return layer(*args, **kwargs)

    return call


def check_all(layers: dict[str, Any], *modules: dict[str, Any]) -> None:
    """Puts the checks before the layers of the table, in all modules (their globals()) that hold them."""
    for name, taken in rules().items():
        plain = layers[name]
        with_checks = checked(plain, taken)
        for module in (layers, *modules):
            if module.get(name) is plain:
                module[name] = with_checks
