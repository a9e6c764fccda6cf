# Made by tools/layer_stubs.py --write from the running package.
from typing import Any, Callable

import numpy as np

from paddle.fluid.hints import DTypeLike as DTypeLike
from paddle.fluid.hints import Initializer as Initializer
from paddle.fluid.hints import ParamAttrLike as ParamAttrLike
from paddle.fluid.hints import PlaceLike as PlaceLike
from paddle.fluid.hints import ShapeLike as ShapeLike
from paddle.fluid.hints import Sizes as Sizes
from paddle.fluid.hints import VarType as VarType
from paddle.fluid.hints import Variable as Variable
from paddle.fluid.hints import Variables as Variables
from paddle.fluid.layers import arrays as arrays
from paddle.fluid.layers import block_rnn as block_rnn
from paddle.fluid.layers import build as build
from paddle.fluid.layers import control_flow as control_flow
from paddle.fluid.layers import conv as conv
from paddle.fluid.layers import device as device
from paddle.fluid.layers import dtypes as dtypes
from paddle.fluid.layers import elementwise as elementwise
from paddle.fluid.layers import homes as homes
from paddle.fluid.layers import image as image
from paddle.fluid.layers import index_ops as index_ops
from paddle.fluid.layers import io as io
from paddle.fluid.layers import layer_function_generator as layer_function_generator
from paddle.fluid.layers import learning_rate_scheduler as learning_rate_scheduler
from paddle.fluid.layers import loss as loss
from paddle.fluid.layers import math_op_patch as math_op_patch
from paddle.fluid.layers import metric_op as metric_op
from paddle.fluid.layers import nn as nn
from paddle.fluid.layers import norm as norm
from paddle.fluid.layers import ops as ops
from paddle.fluid.layers import random_ops as random_ops
from paddle.fluid.layers import recurrent as recurrent
from paddle.fluid.layers import reduce as reduce
from paddle.fluid.layers import rnn as rnn
from paddle.fluid.layers import sequence_lod as sequence_lod
from paddle.fluid.layers import shape_ops as shape_ops
from paddle.fluid.layers import tensor as tensor
from paddle.fluid.layers import utils as utils
from paddle.fluid.layers.control_flow import BlockGuard as BlockGuard
from paddle.fluid.layers.control_flow import ConditionalBlock as ConditionalBlock
from paddle.fluid.layers.block_rnn import DynamicRNN as DynamicRNN
from paddle.fluid.layers.control_flow import IfElse as IfElse
from paddle.fluid.layers.block_rnn import StaticRNN as StaticRNN
from paddle.fluid.layers.control_flow import Switch as Switch
from paddle.fluid.layers.control_flow import While as While

__all__: list[str]

def Print(
    input: Variable,
    first_n: int = ...,
    message: str | None = ...,
    summarize: int = ...,
    print_tensor_name: bool = ...,
    print_tensor_type: bool = ...,
    print_tensor_shape: bool = ...,
    print_tensor_lod: bool = ...,
    print_phase: str = ...,
) -> Variable: ...
def abs(x: Variable, name: str | None = ...) -> Variable: ...
def accuracy(
    input: Variable,
    label: Variable,
    k: int = ...,
    correct: Variable | None = ...,
    total: Variable | None = ...,
) -> Variable: ...
def acos(x: Variable, name: str | None = ...) -> Variable: ...
def adaptive_pool2d(
    input: Variable,
    pool_size: Sizes,
    pool_type: str = ...,
    require_index: bool = ...,
    name: str | None = ...,
): ...
def adaptive_pool3d(
    input: Variable,
    pool_size: Sizes,
    pool_type: str = ...,
    require_index: bool = ...,
    name: str | None = ...,
): ...
def add_position_encoding(input: Variable, alpha: float, beta: float, name: str | None = ...) -> Variable: ...
def addcmul(
    input: Variable,
    tensor1: Variable,
    tensor2: Variable,
    value: float = ...,
    out: Variable | None = ...,
    name: str | None = ...,
) -> Variable: ...
def addmm(
    input: Variable,
    x: Variable,
    y: Variable,
    alpha: float = ...,
    beta: float = ...,
    name: str | None = ...,
) -> Variable: ...
def affine_channel(
    x: Variable,
    scale: Variable | None = ...,
    bias: Variable | None = ...,
    data_layout: str = ...,
    name: str | None = ...,
    act: str | None = ...,
) -> Variable: ...
def affine_grid(theta: Variable, out_shape: ShapeLike, name: str | None = ...) -> Variable: ...
def allclose(
    input: Variable,
    other: Variable,
    rtol: float = ...,
    atol: float = ...,
    equal_nan: bool = ...,
    name: str | None = ...,
) -> Variable: ...
def arange(
    start: float | Variable,
    end: float | Variable,
    step: float | Variable = ...,
    dtype: DTypeLike | None = ...,
    name: str | None = ...,
) -> Variable: ...
def argmax(x: Variable, axis: int = ...) -> Variable: ...
def argmin(x: Variable, axis: int = ...) -> Variable: ...
def argsort(
    input: Variable,
    axis: int = ...,
    descending: bool = ...,
    name: str | None = ...,
) -> tuple[Variable, Variable]: ...
def array_length(array: Variable) -> Variable: ...
def array_read(array: Variable, i: Variable) -> Variable: ...
def array_to_lod_tensor(x: Variable, table: Variable) -> Variable: ...
def array_write(x: Variable, i: Variable, array: Variable | None = ...) -> Variable: ...
def asin(x: Variable, name: str | None = ...) -> Variable: ...
def assign(input: Variable | np.ndarray, output: Variable | None = ...) -> Variable: ...
def atan(x: Variable, name: str | None = ...) -> Variable: ...
def auc(
    input: Variable,
    label: Variable,
    curve: str = ...,
    num_thresholds: int = ...,
    topk: int = ...,
    slide_steps: int = ...,
) -> tuple[Variable, Variable, list[Variable]]: ...
def autoincreased_step_counter(counter_name: str | None = ..., begin: int = ..., step: int = ...) -> Variable: ...
def batch_norm(
    input: Variable,
    act: str | None = ...,
    is_test: bool = ...,
    momentum: float | Variable = ...,
    epsilon: float = ...,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    data_layout: str = ...,
    in_place: bool = ...,
    name: str | None = ...,
    moving_mean_name: str | None = ...,
    moving_variance_name: str | None = ...,
    do_model_average_for_mean_and_var: bool = ...,
    use_global_stats: bool = ...,
) -> Variable: ...
def beam_search(
    pre_ids: Variable,
    pre_scores: Variable,
    ids: Variable | None,
    scores: Variable,
    beam_size: int,
    end_id: int,
    level: int = ...,
    is_accumulated: bool = ...,
    name: str | None = ...,
    return_parent_idx: bool = ...,
): ...
def beam_search_decode(
    ids: Variable,
    scores: Variable,
    beam_size: int | None = ...,
    end_id: int | None = ...,
    name: str | None = ...,
) -> tuple[Variable, Variable]: ...
def bilinear_tensor_product(
    x: Variable,
    y: Variable,
    size: int,
    act: str | None = ...,
    name: str | None = ...,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
) -> Variable: ...
def bmm(x: Variable, y: Variable, name: str | None = ...) -> Variable: ...
def bpr_loss(input: Variable, label: Variable, name: str | None = ...) -> Variable: ...
def brelu(x: Variable, t_min: float = ..., t_max: float = ..., name: str | None = ...) -> Variable: ...
def case(
    pred_fn_pairs: list[tuple[Variable, Callable]],
    default: Callable | None = ...,
    name: str | None = ...,
) -> Any: ...
def cast(x: Variable, dtype: DTypeLike) -> Variable: ...
def ceil(x: Variable, name: str | None = ...) -> Variable: ...
def center_loss(
    input: Variable,
    label: Variable,
    num_classes: int,
    alpha: float | Variable,
    param_attr: ParamAttrLike,
    update_center: bool = ...,
) -> Variable: ...
def chunk_eval(
    input: Variable,
    label: Variable,
    chunk_scheme: str,
    num_chunk_types: int,
    excluded_chunk_types: list[int] | None = ...,
    seq_length: Variable | None = ...,
) -> tuple: ...
def clamp(
    input: Variable,
    min: float | Variable | None = ...,
    max: float | Variable | None = ...,
    output: Variable | None = ...,
    name: str | None = ...,
) -> Variable: ...
def clip(x: Variable, min: float, max: float, name: str | None = ...) -> Variable: ...
def clip_by_norm(x: Variable, max_norm: float, name: str | None = ...) -> Variable: ...
def concat(input: Variables, axis: int | Variable = ..., name: str | None = ...) -> Variable: ...
def cond(
    pred: Variable,
    true_fn: Callable | None = ...,
    false_fn: Callable | None = ...,
    name: str | None = ...,
) -> Any: ...
def continuous_value_model(input: Variable, cvm: Variable, use_cvm: bool = ...) -> Variable: ...
def conv2d(
    input: Variable,
    num_filters: int,
    filter_size: Sizes,
    stride: Sizes = ...,
    padding: Sizes | str = ...,
    dilation: Sizes = ...,
    groups: int | None = ...,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    use_cudnn: bool = ...,
    act: str | None = ...,
    name: str | None = ...,
    data_format: str = ...,
) -> Variable: ...
def conv2d_transpose(
    input: Variable,
    num_filters: int,
    output_size: Sizes | None = ...,
    filter_size: Sizes | None = ...,
    padding: Sizes | str = ...,
    stride: Sizes = ...,
    dilation: Sizes = ...,
    groups: int | None = ...,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    use_cudnn: bool = ...,
    act: str | None = ...,
    name: str | None = ...,
    data_format: str = ...,
) -> Variable: ...
def conv3d(
    input: Variable,
    num_filters: int,
    filter_size: Sizes,
    stride: Sizes = ...,
    padding: Sizes | str = ...,
    dilation: Sizes = ...,
    groups: int | None = ...,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    use_cudnn: bool = ...,
    act: str | None = ...,
    name: str | None = ...,
    data_format: str = ...,
) -> Variable: ...
def conv3d_transpose(
    input: Variable,
    num_filters: int,
    output_size: Sizes | None = ...,
    filter_size: Sizes | None = ...,
    padding: Sizes | str = ...,
    stride: Sizes = ...,
    dilation: Sizes = ...,
    groups: int | None = ...,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    use_cudnn: bool = ...,
    act: str | None = ...,
    name: str | None = ...,
    data_format: str = ...,
) -> Variable: ...
def cos(x: Variable, name: str | None = ...) -> Variable: ...
def cos_sim(X: Variable, Y: Variable) -> Variable: ...
def cosine_decay(learning_rate: float, step_each_epoch: int, epochs: int) -> Variable: ...
def create_array(dtype: DTypeLike) -> Variable: ...
def create_global_var(
    shape: ShapeLike,
    value: float,
    dtype: DTypeLike,
    persistable: bool = ...,
    force_cpu: bool = ...,
    name: str | None = ...,
) -> Variable: ...
def create_parameter(
    shape: ShapeLike,
    dtype: DTypeLike,
    name: str | None = ...,
    attr: ParamAttrLike = ...,
    is_bias: bool = ...,
    default_initializer: Initializer | None = ...,
) -> Variable: ...
def create_py_reader_by_data(
    capacity: int,
    feed_list: list[Variable],
    name: str | None = ...,
    use_double_buffer: bool = ...,
) -> Variable: ...
def create_tensor(dtype: DTypeLike, name: str | None = ..., persistable: bool = ...) -> Variable: ...
def crop(
    x: Variable,
    shape: ShapeLike | None = ...,
    offsets: ShapeLike | None = ...,
    name: str | None = ...,
) -> Variable: ...
def crop_tensor(
    x: Variable,
    shape: ShapeLike | None = ...,
    offsets: ShapeLike | None = ...,
    name: str | None = ...,
) -> Variable: ...
def cross(input: Variable, other: Variable, dim: int | None = ...) -> Variable: ...
def cross_entropy(input: Variable, label: Variable, soft_label: bool = ..., ignore_index: int = ...) -> Variable: ...
def cumsum(
    x: Variable,
    axis: int | None = ...,
    exclusive: bool | None = ...,
    reverse: bool | None = ...,
) -> Variable: ...
def data(
    name: str,
    shape: list[int],
    append_batch_size: bool = ...,
    dtype: DTypeLike = ...,
    lod_level: int = ...,
    type: VarType = ...,
    stop_gradient: bool = ...,
) -> Variable: ...
def data_norm(
    input: Variable,
    act: str | None = ...,
    epsilon: float = ...,
    param_attr: ParamAttrLike = ...,
    data_layout: str = ...,
    in_place: bool = ...,
    name: str | None = ...,
    moving_mean_name: str | None = ...,
    moving_variance_name: str | None = ...,
    do_model_average_for_mean_and_var: bool = ...,
    slot_dim: int = ...,
    sync_stats: bool = ...,
    summary_decay_rate: float = ...,
    enable_scale_and_shift: bool = ...,
) -> Variable: ...
def diag(diagonal: Variable | np.ndarray) -> Variable: ...
def diag_embed(input: Variable, offset: int = ..., dim1: int = ..., dim2: int = ...) -> Variable: ...
def dice_loss(input: Variable, label: Variable, epsilon: float = ..., name: str | None = ...) -> Variable: ...
def dist(x: Variable, y: Variable, p: float = ...) -> Variable: ...
def dot(x: Variable, y: Variable, name: str | None = ...) -> Variable: ...
def double_buffer(reader: Variable, place: PlaceLike | None = ..., name: str | None = ...) -> Variable: ...
def dropout(
    x: Variable,
    dropout_prob: float,
    is_test: bool = ...,
    seed: int | None = ...,
    name: str | None = ...,
    dropout_implementation: str = ...,
) -> Variable: ...
def dynamic_gru(
    input: Variable,
    size: int,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    is_reverse: bool = ...,
    gate_activation: str = ...,
    candidate_activation: str = ...,
    h_0: Variable | None = ...,
    origin_mode: bool = ...,
) -> Variable: ...
def dynamic_lstm(
    input: Variable,
    size: int,
    h_0: Variable | None = ...,
    c_0: Variable | None = ...,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    use_peepholes: bool = ...,
    is_reverse: bool = ...,
    gate_activation: str = ...,
    cell_activation: str = ...,
    candidate_activation: str = ...,
    dtype: DTypeLike = ...,
    name: str | None = ...,
) -> tuple[Variable, Variable]: ...
def dynamic_lstmp(
    input: Variable,
    size: int,
    proj_size: int,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    use_peepholes: bool = ...,
    is_reverse: bool = ...,
    gate_activation: str = ...,
    cell_activation: str = ...,
    candidate_activation: str = ...,
    proj_activation: str = ...,
    dtype: DTypeLike = ...,
    name: str | None = ...,
    h_0: Variable | None = ...,
    c_0: Variable | None = ...,
    cell_clip: float | None = ...,
    proj_clip: float | None = ...,
) -> tuple[Variable, Variable]: ...
def edit_distance(
    input: Variable,
    label: Variable,
    normalized: bool = ...,
    ignored_tokens: list[int] | None = ...,
    input_length: Variable | None = ...,
    label_length: Variable | None = ...,
) -> tuple[Variable, Variable]: ...
def elementwise_add(
    x: Variable,
    y: Variable,
    axis: int = ...,
    act: str | None = ...,
    name: str | None = ...,
) -> Variable: ...
def elementwise_div(
    x: Variable,
    y: Variable,
    axis: int = ...,
    act: str | None = ...,
    name: str | None = ...,
) -> Variable: ...
def elementwise_equal(x: Variable, y: Variable, name: str | None = ...) -> Variable: ...
def elementwise_floordiv(
    x: Variable,
    y: Variable,
    axis: int = ...,
    act: str | None = ...,
    name: str | None = ...,
) -> Variable: ...
def elementwise_max(
    x: Variable,
    y: Variable,
    axis: int = ...,
    act: str | None = ...,
    name: str | None = ...,
) -> Variable: ...
def elementwise_min(
    x: Variable,
    y: Variable,
    axis: int = ...,
    act: str | None = ...,
    name: str | None = ...,
) -> Variable: ...
def elementwise_mod(
    x: Variable,
    y: Variable,
    axis: int = ...,
    act: str | None = ...,
    name: str | None = ...,
) -> Variable: ...
def elementwise_mul(
    x: Variable,
    y: Variable,
    axis: int = ...,
    act: str | None = ...,
    name: str | None = ...,
) -> Variable: ...
def elementwise_pow(
    x: Variable,
    y: Variable,
    axis: int = ...,
    act: str | None = ...,
    name: str | None = ...,
) -> Variable: ...
def elementwise_sub(
    x: Variable,
    y: Variable,
    axis: int = ...,
    act: str | None = ...,
    name: str | None = ...,
) -> Variable: ...
def elu(x: Variable, alpha: float = ..., name: str | None = ...) -> Variable: ...
def embedding(
    input: Variable,
    size: list[int],
    is_sparse: bool = ...,
    is_distributed: bool = ...,
    padding_idx: int | None = ...,
    param_attr: ParamAttrLike = ...,
    dtype: DTypeLike = ...,
) -> Variable: ...
def equal(x: Variable, y: Variable, cond: Variable | None = ...) -> Variable: ...
def erf(x: Variable) -> Variable: ...
def exp(x: Variable, name: str | None = ...) -> Variable: ...
def expand(x: Variable, expand_times: ShapeLike, name: str | None = ...) -> Variable: ...
def expand_as(x: Variable, target_tensor: Variable, name: str | None = ...) -> Variable: ...
def exponential_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = ...) -> Variable: ...
def eye(
    num_rows: int,
    num_columns: int | None = ...,
    batch_shape: list[int] | None = ...,
    dtype: DTypeLike = ...,
) -> Variable: ...
def fc(
    input: Variables,
    size: int,
    num_flatten_dims: int = ...,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    act: str | None = ...,
    name: str | None = ...,
) -> Variable: ...
def fill_constant(
    shape: ShapeLike,
    dtype: DTypeLike,
    value: float | Variable,
    force_cpu: bool = ...,
    out: Variable | None = ...,
) -> Variable: ...
def fill_constant_batch_size_like(
    input: Variable,
    shape: ShapeLike,
    dtype: DTypeLike,
    value: float | Variable,
    input_dim_idx: int = ...,
    output_dim_idx: int = ...,
    force_cpu: bool = ...,
) -> Variable: ...
def filter_by_instag(
    ins: Variable,
    ins_tag: Variable,
    filter_tag: Variable,
    is_lod: bool,
    out_val_if_empty: int = ...,
) -> list[Variable]: ...
def flatten(x: Variable, axis: int = ..., name: str | None = ...) -> Variable: ...
def flip(input: Variable, dims: list[int], name: str | None = ...) -> Variable: ...
def floor(x: Variable, name: str | None = ...) -> Variable: ...
def fsp_matrix(x: Variable, y: Variable) -> Variable: ...
def full(
    shape: ShapeLike,
    fill_value: float | Variable,
    out: Variable | None = ...,
    dtype: DTypeLike | None = ...,
    device: str | None = ...,
    stop_gradient: bool = ...,
    name: str | None = ...,
) -> Variable: ...
def full_like(
    input: Variable,
    fill_value: float | Variable,
    out: Variable | None = ...,
    dtype: DTypeLike | None = ...,
    device: str | None = ...,
    stop_gradient: bool = ...,
    name: str | None = ...,
) -> Variable: ...
def gather(input: Variable, index: Variable, overwrite: bool = ...) -> Variable: ...
def gather_nd(input: Variable, index: Variable, name: str | None = ...) -> Variable: ...
def gather_tree(ids: Variable, parents: Variable) -> Variable: ...
def gaussian_random(
    shape: ShapeLike,
    mean: float = ...,
    std: float = ...,
    seed: int = ...,
    dtype: DTypeLike = ...,
) -> Variable: ...
def gaussian_random_batch_size_like(
    input: Variable,
    shape: ShapeLike,
    input_dim_idx: int = ...,
    output_dim_idx: int = ...,
    mean: float = ...,
    std: float = ...,
    seed: int = ...,
    dtype: DTypeLike = ...,
) -> Variable: ...
def gelu(x: Variable, approximate: bool = ...) -> Variable: ...
def get_places(device_count: int | None = ..., device_type: str | None = ...) -> Variable: ...
def get_tensor_from_selected_rows(x: Variable, name: str | None = ...) -> Variable: ...
def greater_equal(x: Variable, y: Variable, cond: Variable | None = ...) -> Variable: ...
def greater_than(x: Variable, y: Variable, cond: Variable | None = ...) -> Variable: ...
def grid_sampler(x: Variable, grid: Variable, name: str | None = ...) -> Variable: ...
def group_norm(
    input: Variable,
    groups: int,
    epsilon: float = ...,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    act: str | None = ...,
    data_layout: str = ...,
    name: str | None = ...,
) -> Variable: ...
def gru_unit(
    input: Variable,
    hidden: Variable,
    size: int,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    activation: str = ...,
    gate_activation: str = ...,
    origin_mode: bool = ...,
) -> tuple[Variable, Variable, Variable]: ...
def hard_shrink(x: Variable, threshold: float | None = ...) -> Variable: ...
def hard_sigmoid(x: Variable, slope: float = ..., offset: float = ..., name: str | None = ...) -> Variable: ...
def hard_swish(
    x: Variable,
    threshold: float = ...,
    scale: float = ...,
    offset: float = ...,
    name: str | None = ...,
) -> Variable: ...
def has_inf(x: Variable) -> Variable: ...
def has_nan(x: Variable) -> Variable: ...
def hash(input: Variable, hash_size: int, num_hash: int = ..., name: str | None = ...) -> Variable: ...
def hsigmoid(
    input: Variable,
    label: Variable,
    num_classes: int,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    name: str | None = ...,
    path_table: Variable | None = ...,
    path_code: Variable | None = ...,
    is_custom: bool = ...,
    is_sparse: bool = ...,
) -> Variable: ...
def huber_loss(input: Variable, label: Variable, delta: float) -> Variable: ...
def im2sequence(
    input: Variable,
    filter_size: Sizes = ...,
    stride: Sizes = ...,
    padding: Sizes | str = ...,
    input_image_size: Variable | None = ...,
    out_stride: Sizes = ...,
    name: str | None = ...,
) -> Variable: ...
def image_resize(
    input: Variable,
    out_shape: ShapeLike | None = ...,
    scale: float | None = ...,
    name: str | None = ...,
    resample: str = ...,
    actual_shape: Variable | None = ...,
    align_corners: bool = ...,
    align_mode: int = ...,
    data_format: str = ...,
) -> Variable: ...
def image_resize_short(input: Variable, out_short_len: int, resample: str = ...) -> Variable: ...
def increment(x: Variable, value: float = ..., in_place: bool = ...) -> Variable: ...
def index_sample(x: Variable, index: Variable) -> Variable: ...
def index_select(input: Variable, index: Variable, dim: int = ...) -> Variable: ...
def inplace_abn(
    input: Variable,
    act: str | None = ...,
    is_test: bool = ...,
    momentum: float | Variable = ...,
    epsilon: float = ...,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    data_layout: str = ...,
    name: str | None = ...,
    moving_mean_name: str | None = ...,
    moving_variance_name: str | None = ...,
    do_model_average_for_mean_and_var: bool = ...,
    use_global_stats: bool = ...,
    act_alpha: float = ...,
) -> Variable: ...
def instance_norm(
    input: Variable,
    epsilon: float = ...,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    name: str | None = ...,
) -> Variable: ...
def interpolate(
    input: Variable,
    out_shape: ShapeLike | None = ...,
    scale: float | Variable | None = ...,
    name: str | None = ...,
    resample: str = ...,
    actual_shape: Variable | None = ...,
    align_corners: bool = ...,
    align_mode: int = ...,
    data_format: str = ...,
) -> Variable: ...
def inverse_time_decay(
    learning_rate: float,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = ...,
) -> Variable: ...
def is_empty(x: Variable, cond: Variable | None = ...) -> Variable: ...
def isfinite(x: Variable) -> Variable: ...
def kldiv_loss(x: Variable, target: Variable, reduction: str = ..., name: str | None = ...) -> Variable: ...
def kron(x: Variable, y: Variable, out: Variable | None = ..., name: str | None = ...) -> Variable: ...
def l2_normalize(x: Variable, axis: int | None, epsilon: float = ..., name: str | None = ...) -> Variable: ...
def label_smooth(
    label: Variable,
    prior_dist: Variable | None = ...,
    epsilon: float = ...,
    dtype: DTypeLike = ...,
    name: str | None = ...,
) -> Variable: ...
def layer_norm(
    input: Variable,
    scale: bool = ...,
    shift: bool = ...,
    begin_norm_axis: int = ...,
    epsilon: float = ...,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    act: str | None = ...,
    name: str | None = ...,
) -> Variable: ...
def leaky_relu(x: Variable, alpha: float = ..., name: str | None = ...) -> Variable: ...
def less_equal(x: Variable, y: Variable, cond: Variable | None = ...) -> Variable: ...
def less_than(x: Variable, y: Variable, force_cpu: bool | None = ..., cond: Variable | None = ...) -> Variable: ...
def linear_lr_warmup(
    learning_rate: float | Variable,
    warmup_steps: int,
    start_lr: float,
    end_lr: float,
) -> Variable: ...
def linspace(start: float | Variable, stop: float | Variable, num: int | Variable, dtype: DTypeLike) -> Variable: ...
def load(out: Variable, file_path: str, load_as_fp16: bool | None = ...) -> None: ...
def lod_append(x: Variable, level: list[int] | Variable) -> Variable: ...
def lod_rank_table(x: Variable, level: int = ...) -> Variable: ...
def lod_reset(x: Variable, y: Variable | None = ..., target_lod: list[int] | None = ...) -> Variable: ...
def lod_tensor_to_array(x: Variable, table: Variable) -> Variable: ...
def log(x: Variable, name: str | None = ...) -> Variable: ...
def log1p(x: Variable, out: Variable | None = ..., name: str | None = ...) -> Variable: ...
def log_loss(input: Variable, label: Variable, epsilon: float = ..., name: str | None = ...) -> Variable: ...
def log_softmax(
    input: Variable,
    axis: int | None = ...,
    dtype: DTypeLike | None = ...,
    name: str | None = ...,
) -> Variable: ...
def logical_and(x: Variable, y: Variable, out: Variable | None = ..., name: str | None = ...) -> Variable: ...
def logical_not(x: Variable, out: Variable | None = ..., name: str | None = ...) -> Variable: ...
def logical_or(x: Variable, y: Variable, out: Variable | None = ..., name: str | None = ...) -> Variable: ...
def logical_xor(x: Variable, y: Variable, out: Variable | None = ..., name: str | None = ...) -> Variable: ...
def logsigmoid(x: Variable, name: str | None = ...) -> Variable: ...
def logsumexp(
    x: Variable,
    dim: int | list[int] | None = ...,
    keepdim: bool = ...,
    out: Variable | None = ...,
    name: str | None = ...,
) -> Variable: ...
def lrn(
    input: Variable,
    n: int = ...,
    k: float = ...,
    alpha: float = ...,
    beta: float = ...,
    name: str | None = ...,
    data_format: str = ...,
) -> Variable: ...
def lstm(
    input: Variable,
    init_h: Variable,
    init_c: Variable,
    max_len: int,
    hidden_size: int,
    num_layers: int,
    dropout_prob: float = ...,
    is_bidirec: bool = ...,
    is_test: bool = ...,
    name: str | None = ...,
    default_initializer: Initializer | None = ...,
    seed: int = ...,
) -> tuple[Variable, Variable, Variable]: ...
def lstm_unit(
    x_t: Variable,
    hidden_t_prev: Variable,
    cell_t_prev: Variable,
    forget_bias: float = ...,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    name: str | None = ...,
) -> tuple[Variable, Variable]: ...
def margin_rank_loss(
    label: Variable,
    left: Variable,
    right: Variable,
    margin: float = ...,
    name: str | None = ...,
) -> Variable: ...
def matmul(
    x: Variable,
    y: Variable,
    transpose_x: bool = ...,
    transpose_y: bool = ...,
    alpha: float = ...,
    name: str | None = ...,
) -> Variable: ...
def max_sequence_len(rank_table: Variable) -> Variable: ...
def maxout(x: Variable, groups: int, name: str | None = ..., axis: int = ...) -> Variable: ...
def mean(x: Variable, name: str | None = ...) -> Variable: ...
def mean_iou(input: Variable, label: Variable, num_classes: int) -> tuple[Variable, Variable, Variable]: ...
def merge_lod_tensor(
    in_true: Variable,
    in_false: Variable,
    x: Variable,
    mask: Variable,
    level: int = ...,
) -> Variable: ...
def merge_selected_rows(x: Variable, name: str | None = ...) -> Variable: ...
def meshgrid(input: list[Variable], name: str | None = ...) -> list[Variable]: ...
def mish(x: Variable, threshold: float = ..., name: str | None = ...) -> Variable: ...
def mse_loss(input: Variable, label: Variable) -> Variable: ...
def mul(
    x: Variable,
    y: Variable,
    x_num_col_dims: int = ...,
    y_num_col_dims: int = ...,
    name: str | None = ...,
) -> Variable: ...
def multiplex(inputs: list[Variable], index: Variable) -> Variable: ...
def natural_exp_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = ...) -> Variable: ...
def nce(
    input: Variable,
    label: Variable,
    num_total_classes: int,
    sample_weight: Variable | None = ...,
    param_attr: ParamAttrLike = ...,
    bias_attr: ParamAttrLike = ...,
    num_neg_samples: int | None = ...,
    name: str | None = ...,
    sampler: str = ...,
    custom_dist: list[float] | None = ...,
    seed: int = ...,
    is_sparse: bool = ...,
) -> Variable: ...
def noam_decay(d_model: int, warmup_steps: int, learning_rate: float = ...) -> Variable: ...
def nonzero(input: Variable, as_tuple: bool = ...): ...
def not_equal(x: Variable, y: Variable, cond: Variable | None = ...) -> Variable: ...
def npair_loss(anchor: Variable, positive: Variable, labels: Variable, l2_reg: float = ...) -> Variable: ...
def one_hot(input: Variable, depth: int | Variable, allow_out_of_range: bool = ...) -> Variable: ...
def ones(shape: ShapeLike, dtype: DTypeLike, force_cpu: bool = ...) -> Variable: ...
def ones_like(x: Variable, out: Variable | None = ...) -> Variable: ...
def pad(x: Variable, paddings: list[int], pad_value: float = ..., name: str | None = ...) -> Variable: ...
def pad2d(
    input: Variable,
    paddings: ShapeLike = ...,
    mode: str = ...,
    pad_value: float = ...,
    data_format: str = ...,
    name: str | None = ...,
) -> Variable: ...
def pad_constant_like(x: Variable, y: Variable, pad_value: float = ..., name: str | None = ...) -> Variable: ...
def piecewise_decay(boundaries: list[int], values: list[float]) -> Variable: ...
def pixel_shuffle(x: Variable, upscale_factor: int) -> Variable: ...
def polynomial_decay(
    learning_rate: float,
    decay_steps: int,
    end_learning_rate: float = ...,
    power: float = ...,
    cycle: bool = ...,
) -> Variable: ...
def pool2d(
    input: Variable,
    pool_size: Sizes = ...,
    pool_type: str = ...,
    pool_stride: Sizes = ...,
    pool_padding: Sizes | str = ...,
    global_pooling: bool = ...,
    use_cudnn: bool = ...,
    ceil_mode: bool = ...,
    name: str | None = ...,
    exclusive: bool = ...,
    data_format: str = ...,
) -> Variable: ...
def pool3d(
    input: Variable,
    pool_size: Sizes = ...,
    pool_type: str = ...,
    pool_stride: Sizes = ...,
    pool_padding: Sizes | str = ...,
    global_pooling: bool = ...,
    use_cudnn: bool = ...,
    ceil_mode: bool = ...,
    name: str | None = ...,
    exclusive: bool = ...,
    data_format: str = ...,
) -> Variable: ...
def pow(x: Variable, factor: float | Variable = ..., name: str | None = ...) -> Variable: ...
def prelu(x: Variable, mode: str, param_attr: ParamAttrLike = ..., name: str | None = ...) -> Variable: ...
def py_reader(
    capacity: int,
    shapes: list,
    dtypes: list,
    lod_levels: list | None = ...,
    name: str | None = ...,
    use_double_buffer: bool = ...,
) -> Variable: ...
def randint(
    low: int,
    high: int | None = ...,
    shape: ShapeLike | None = ...,
    out: Variable | None = ...,
    dtype: DTypeLike | None = ...,
    device: str | None = ...,
    stop_gradient: bool = ...,
    seed: int = ...,
    name: str | None = ...,
) -> Variable: ...
def randn(
    shape: ShapeLike,
    out: Variable | None = ...,
    dtype: DTypeLike | None = ...,
    device: str | None = ...,
    stop_gradient: bool = ...,
    name: str | None = ...,
) -> Variable: ...
def random_crop(x: Variable, shape: list[int], seed: int | Variable | None = ...) -> Variable: ...
def randperm(
    n: int,
    out: Variable | None = ...,
    dtype: DTypeLike = ...,
    device: str | None = ...,
    stop_gradient: bool = ...,
    seed: int = ...,
) -> Variable: ...
def range(start: float | Variable, end: float | Variable, step: float | Variable, dtype: DTypeLike) -> Variable: ...
def rank(input: Variable) -> Variable: ...
def rank_loss(label: Variable, left: Variable, right: Variable, name: str | None = ...) -> Variable: ...
def read_file(reader: Variable) -> Variable | list[Variable]: ...
def reciprocal(x: Variable, name: str | None = ...) -> Variable: ...
def reduce_all(
    input: Variable,
    dim: int | list[int] | None = ...,
    keep_dim: bool = ...,
    name: str | None = ...,
) -> Variable: ...
def reduce_any(
    input: Variable,
    dim: int | list[int] | None = ...,
    keep_dim: bool = ...,
    name: str | None = ...,
) -> Variable: ...
def reduce_max(
    input: Variable,
    dim: int | list[int] | None = ...,
    keep_dim: bool = ...,
    name: str | None = ...,
) -> Variable: ...
def reduce_mean(
    input: Variable,
    dim: int | list[int] | None = ...,
    keep_dim: bool = ...,
    name: str | None = ...,
) -> Variable: ...
def reduce_min(
    input: Variable,
    dim: int | list[int] | None = ...,
    keep_dim: bool = ...,
    name: str | None = ...,
) -> Variable: ...
def reduce_prod(
    input: Variable,
    dim: int | list[int] | None = ...,
    keep_dim: bool = ...,
    name: str | None = ...,
) -> Variable: ...
def reduce_sum(
    input: Variable,
    dim: int | list[int] | None = ...,
    keep_dim: bool = ...,
    name: str | None = ...,
) -> Variable: ...
def relu(x: Variable, name: str | None = ...) -> Variable: ...
def relu6(x: Variable, threshold: float = ..., name: str | None = ...) -> Variable: ...
def reorder_lod_tensor_by_rank(x: Variable, rank_table: Variable) -> Variable: ...
def reshape(
    x: Variable,
    shape: ShapeLike,
    actual_shape: Variable | None = ...,
    act: str | None = ...,
    inplace: bool = ...,
    name: str | None = ...,
) -> Variable: ...
def resize_bilinear(
    input: Variable,
    out_shape: ShapeLike | None = ...,
    scale: float | Variable | None = ...,
    name: str | None = ...,
    actual_shape: Variable | None = ...,
    align_corners: bool = ...,
    align_mode: int = ...,
    data_format: str = ...,
) -> Variable: ...
def resize_nearest(
    input: Variable,
    out_shape: ShapeLike | None = ...,
    scale: float | Variable | None = ...,
    name: str | None = ...,
    actual_shape: Variable | None = ...,
    align_corners: bool = ...,
    data_format: str = ...,
) -> Variable: ...
def resize_trilinear(
    input: Variable,
    out_shape: ShapeLike | None = ...,
    scale: float | Variable | None = ...,
    name: str | None = ...,
    actual_shape: Variable | None = ...,
    align_corners: bool = ...,
    align_mode: int = ...,
    data_format: str = ...,
) -> Variable: ...
def reverse(x: Variable, axis: int | list[int]) -> Variable: ...
def roll(input: Variable, shifts: int | list[int], dims: int | list[int] | None = ...) -> Variable: ...
def round(x: Variable, name: str | None = ...) -> Variable: ...
def row_conv(
    input: Variable,
    future_context_size: int,
    param_attr: ParamAttrLike = ...,
    act: str | None = ...,
) -> Variable: ...
def rsqrt(x: Variable, name: str | None = ...) -> Variable: ...
def sampled_softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    num_samples: int,
    num_true: int = ...,
    remove_accidental_hits: bool = ...,
    use_customized_samples: bool = ...,
    customized_samples: Variable | None = ...,
    customized_probabilities: Variable | None = ...,
    seed: int = ...,
) -> Variable: ...
def sampling_id(
    x: Variable,
    min: float = ...,
    max: float = ...,
    seed: int = ...,
    dtype: DTypeLike = ...,
) -> Variable: ...
def scale(
    x: Variable,
    scale: float | Variable = ...,
    bias: float = ...,
    bias_after_scale: bool = ...,
    act: str | None = ...,
    name: str | None = ...,
) -> Variable: ...
def scatter(
    input: Variable,
    index: Variable,
    updates: Variable,
    name: str | None = ...,
    overwrite: bool = ...,
) -> Variable: ...
def scatter_nd(index: Variable, updates: Variable, shape: list[int], name: str | None = ...) -> Variable: ...
def scatter_nd_add(ref: Variable, index: Variable, updates: Variable, name: str | None = ...) -> Variable: ...
def select_input(inputs: list[Variable], mask: Variable) -> Variable: ...
def select_output(input: Variable, outputs: list[Variable], mask: Variable) -> list[Variable]: ...
def selu(x: Variable, scale: float | None = ..., alpha: float | None = ..., name: str | None = ...) -> Variable: ...
def sequence_concat(input: list[Variable], name: str | None = ...) -> Variable: ...
def sequence_conv(
    input: Variable,
    num_filters: int,
    filter_size: int = ...,
    filter_stride: int = ...,
    padding: bool | None = ...,
    padding_start: int | None = ...,
    bias_attr: ParamAttrLike = ...,
    param_attr: ParamAttrLike = ...,
    act: str | None = ...,
    name: str | None = ...,
) -> Variable: ...
def sequence_enumerate(input: Variable, win_size: int, pad_value: int = ..., name: str | None = ...) -> Variable: ...
def sequence_expand(x: Variable, y: Variable, ref_level: int = ..., name: str | None = ...) -> Variable: ...
def sequence_expand_as(x: Variable, y: Variable, name: str | None = ...) -> Variable: ...
def sequence_first_step(input: Variable) -> Variable: ...
def sequence_last_step(input: Variable) -> Variable: ...
def sequence_mask(
    x: Variable,
    maxlen: int | Variable | None = ...,
    dtype: DTypeLike = ...,
    name: str | None = ...,
) -> Variable: ...
def sequence_pad(
    x: Variable,
    pad_value: Variable,
    maxlen: int | None = ...,
    name: str | None = ...,
) -> tuple[Variable, Variable]: ...
def sequence_pool(input: Variable, pool_type: str, is_test: bool = ..., pad_value: float = ...) -> Variable: ...
def sequence_reshape(input: Variable, new_dim: int) -> Variable: ...
def sequence_reverse(x: Variable, name: str | None = ...) -> Variable: ...
def sequence_scatter(input: Variable, index: Variable, updates: Variable, name: str | None = ...) -> Variable: ...
def sequence_slice(input: Variable, offset: Variable, length: Variable, name: str | None = ...) -> Variable: ...
def sequence_softmax(input: Variable, use_cudnn: bool = ..., name: str | None = ...) -> Variable: ...
def sequence_unpad(x: Variable, length: Variable, name: str | None = ...) -> Variable: ...
def shape(input: Variable) -> Variable: ...
def shard_index(input: Variable, index_num: int, nshards: int, shard_id: int, ignore_value: int = ...) -> Variable: ...
def shrink_memory(x: Variable, i: Variable, table: Variable) -> Variable: ...
def shuffle_channel(x: Variable, group: int, name: str | None = ...) -> Variable: ...
def sigmoid(x: Variable, name: str | None = ...) -> Variable: ...
def sigmoid_cross_entropy_with_logits(
    x: Variable,
    label: Variable,
    ignore_index: int = ...,
    name: str | None = ...,
    normalize: bool = ...,
) -> Variable: ...
def sign(x: Variable | np.ndarray) -> Variable: ...
def sin(x: Variable, name: str | None = ...) -> Variable: ...
def size(input: Variable) -> Variable: ...
def slice(input: Variable, axes: list[int], starts: ShapeLike, ends: ShapeLike) -> Variable: ...
def smooth_l1(
    x: Variable,
    y: Variable,
    inside_weight: Variable | None = ...,
    outside_weight: Variable | None = ...,
    sigma: float | None = ...,
) -> Variable: ...
def soft_relu(x: Variable, threshold: float = ..., name: str | None = ...) -> Variable: ...
def softmax(input: Variable, use_cudnn: bool = ..., name: str | None = ..., axis: int = ...) -> Variable: ...
def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = ...,
    ignore_index: int = ...,
    numeric_stable_mode: bool = ...,
    return_softmax: bool = ...,
    axis: int = ...,
): ...
def softplus(x: Variable, name: str | None = ...) -> Variable: ...
def softshrink(x: Variable, alpha: float | None = ...) -> Variable: ...
def softsign(x: Variable, name: str | None = ...) -> Variable: ...
def space_to_depth(x: Variable, blocksize: int, name: str | None = ...) -> Variable: ...
def spectral_norm(
    weight: Variable,
    dim: int = ...,
    power_iters: int = ...,
    eps: float = ...,
    name: str | None = ...,
) -> Variable: ...
def split(
    input: Variable,
    num_or_sections: int | list[int],
    dim: int | Variable = ...,
    name: str | None = ...,
) -> list[Variable]: ...
def split_lod_tensor(input: Variable, mask: Variable, level: int = ...) -> tuple[Variable, Variable]: ...
def sqrt(x: Variable, name: str | None = ...) -> Variable: ...
def square(x: Variable, name: str | None = ...) -> Variable: ...
def square_error_cost(input: Variable, label: Variable) -> Variable: ...
def squeeze(input: Variable, axes: list[int], name: str | None = ...) -> Variable: ...
def stack(x: Variables, axis: int = ...) -> Variable: ...
def stanh(x: Variable, scale_a: float = ..., scale_b: float = ..., name: str | None = ...) -> Variable: ...
def strided_slice(
    input: Variable,
    axes: list[int],
    starts: ShapeLike,
    ends: ShapeLike,
    strides: ShapeLike,
) -> Variable: ...
def sum(x: Variables) -> Variable: ...
def sums(input: Variables, out: Variable | None = ...) -> Variable: ...
def swish(x: Variable, beta: float = ..., name: str | None = ...) -> Variable: ...
def switch_case(
    branch_index: Variable,
    branch_fns: list | dict,
    default: Callable | None = ...,
    name: str | None = ...,
) -> Any: ...
def t(input: Variable, name: str | None = ...) -> Variable: ...
def tanh(x: Variable, name: str | None = ...) -> Variable: ...
def tanh_shrink(x: Variable, name: str | None = ...) -> Variable: ...
def teacher_student_sigmoid_loss(
    input: Variable,
    label: Variable,
    soft_max_up_bound: float = ...,
    soft_max_lower_bound: float = ...,
) -> Variable: ...
def temporal_shift(x: Variable, seg_num: int, shift_ratio: float = ..., name: str | None = ...) -> Variable: ...
def tensor_array_to_tensor(
    input: Variable,
    axis: int = ...,
    name: str | None = ...,
    use_stack: bool = ...,
) -> tuple[Variable, Variable]: ...
def thresholded_relu(x: Variable, threshold: float | None = ...) -> Variable: ...
def topk(input: Variable, k: int | Variable, name: str | None = ...) -> tuple[Variable, Variable]: ...
def trace(
    input: Variable,
    offset: int = ...,
    dim1: int = ...,
    dim2: int = ...,
    out: Variable | None = ...,
    name: str | None = ...,
) -> Variable: ...
def transpose(x: Variable, perm: list[int], name: str | None = ...) -> Variable: ...
def tril(input: Variable, diagonal: int = ..., name: str | None = ...) -> Variable: ...
def triu(input: Variable, diagonal: int = ..., name: str | None = ...) -> Variable: ...
def unfold(
    x: Variable,
    kernel_sizes: Sizes,
    strides: Sizes = ...,
    paddings: Sizes = ...,
    dilations: Sizes = ...,
    name: str | None = ...,
) -> Variable: ...
def uniform_random(
    shape: ShapeLike,
    dtype: DTypeLike = ...,
    min: float = ...,
    max: float = ...,
    seed: int = ...,
) -> Variable: ...
def uniform_random_batch_size_like(
    input: Variable,
    shape: ShapeLike,
    dtype: DTypeLike = ...,
    input_dim_idx: int = ...,
    output_dim_idx: int = ...,
    min: float = ...,
    max: float = ...,
    seed: int = ...,
) -> Variable: ...
def unique(x: Variable, dtype: DTypeLike = ...) -> tuple[Variable, Variable]: ...
def unique_with_counts(x: Variable, dtype: DTypeLike = ...) -> tuple[Variable, Variable, Variable]: ...
def unsqueeze(input: Variable, axes: int | ShapeLike, name: str | None = ...) -> Variable: ...
def unstack(x: Variable, axis: int = ..., num: int | None = ...) -> list[Variable]: ...
def upsampling_bilinear2d(
    input: Variable,
    out_shape: ShapeLike | None = ...,
    scale: float | Variable | None = ...,
    name: str | None = ...,
) -> Variable: ...
def where(condition: Variable) -> Variable: ...
def while_loop(
    cond: Callable,
    body: Callable,
    loop_vars: list,
    is_test: bool = ...,
    name: str | None = ...,
) -> list: ...
def zeros(shape: ShapeLike, dtype: DTypeLike, force_cpu: bool = ...) -> Variable: ...
def zeros_like(x: Variable, out: Variable | None = ...) -> Variable: ...
