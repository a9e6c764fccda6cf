"""Arguments of the layers with parameters, of convolutions, norms, recurrent layers and pictures."""

TEXT = """
fc
    input: a Variable, or a list of them; each has a weight of its own.
    size: the number of columns of the result.
    num_flatten_dims: so many dimensions of the input stay; the others are the features. -1: all but the last stay.
    -> the dimensions that stay, then size.

embedding
    input: the ids, int64, of shape [..., 1].
    size: [number of ids, width of a row].
    is_sparse: the gradient holds only the rows that were looked up.
    is_distributed: the table lies on the parameter servers of the job.
    padding_idx: ids equal to it give zeros and are not trained; a negative one counts from the end.
    param_attr: how the table is made: a ParamAttr, a name, an initializer; None: Xavier.
    -> the rows, of shape [..., width].

cos_sim
    X: a matrix.
    Y: a matrix of as many rows, or of one.
    -> a cosine for each row, of shape [rows, 1].

softmax log_softmax
    input: the scores.
    axis: along which the results add up (of log_softmax: their exponentials).
    dtype: the input is cast to it first; None: it stays.
    -> of the shape of the input.

matmul
    x: a tensor of at least 1 dimension.
    y: a tensor of at least 1 dimension.
    transpose_x: swap the last two dimensions of x first.
    transpose_y: swap the last two dimensions of y first.
    alpha: a number that multiplies the product.
    -> the product; leading dimensions of 1 are repeated as needed.

mul
    x: a tensor of at least 2 dimensions.
    y: a tensor of at least 2 dimensions.
    x_num_col_dims: so many dimensions of x are the rows of its matrix, the others its columns.
    y_num_col_dims: the same for y.
    -> the row dimensions of x, then the column dimensions of y.

bmm
    x: matrices, of shape [batch, m, k].
    y: matrices, of shape [batch, k, n].
    -> the products, of shape [batch, m, n].

addmm
    input: what is added, of the shape of the product or one that repeats to it.
    x: a matrix of shape [m, k].
    y: a matrix of shape [k, n].
    alpha: a number that multiplies the product.
    beta: a number that multiplies the input.
    -> a matrix of shape [m, n].

dot
    x: a vector, or a matrix.
    y: the same shape.
    -> one product for each row.

cross
    input: a tensor with a dimension of size 3.
    other: the same shape.
    dim: that dimension; None: the first of size 3.
    -> of the shape of the input.

sum
    x: a Variable, or a list of Variables of one shape.
    -> their sum.

one_hot
    input: the ids, int32 or int64, of shape [..., 1].
    depth: the width of a row, a number or a Variable of one element.
    allow_out_of_range: an id that is not below depth gives zeros; else it is an error.
    -> float32, of shape [..., depth].

label_smooth
    label: one-hot labels, of shape [..., classes].
    prior_dist: the distribution to mix in, of shape [1, classes]; None: an even one.
    epsilon: the share of the prior.
    -> of the shape of the label.

autoincreased_step_counter
    counter_name: the variable's name; None: '@STEP_COUNTER@'.
    begin: its value at the first run.
    step: what each run adds.
    -> int64, of shape [1].

merge_selected_rows get_tensor_from_selected_rows
    x: selected rows, such as a sparse gradient.
    -> selected rows (merge_selected_rows) or a tensor of their values.

bilinear_tensor_product
    x: a matrix of shape [batch, m].
    y: a matrix of shape [batch, n].
    size: the number of learned m x n matrices.
    -> a matrix of shape [batch, size].

add_position_encoding
    input: a sequence, or a tensor of shape [batch, steps, width].
    alpha: what the input is multiplied by.
    beta: what the waves are multiplied by.
    -> of the shape of the input.

fsp_matrix
    x: images, of shape [batch, c1, height, width].
    y: images of the same height and width, of shape [batch, c2, height, width].
    -> a matrix for each pair of images, of shape [batch, c1, c2].

continuous_value_model
    input: embeddings whose first two columns are the counts of shows and clicks.
    cvm: those counts, of shape [batch, 2].
    use_cvm: keep the two columns, as logarithms; else they are cut off.
    -> of the shape of the input, less 2 columns without use_cvm.

filter_by_instag
    ins: the samples.
    ins_tag: the tags of each sample, int64.
    filter_tag: the wanted tags, int64.
    is_lod: samples are sequences.
    out_val_if_empty: what fills the result when no sample is left.
    -> the samples that are left, and a weight for the loss of each.

conv2d conv3d
    input: images, of shape [batch, channels, height, width], or volumes with a depth before the height.
    num_filters: the number of channels of the result.
    filter_size: of the window, one number or one for each dimension.
    stride: of the window, one number or one for each dimension.
    padding: zeros around the input: one number, one for each dimension, two for each (before and after), 'SAME' or 'VALID'.
    dilation: the distance of the window's elements, one number or one for each dimension.
    groups: input and output channels are cut into so many groups that do not mix; None: 1.
    param_attr: how the filter is made, of shape [num_filters, channels / groups, *filter_size]; None: a normal distribution by
        the size of the window.
    -> images (or volumes) with num_filters channels.

conv2d_transpose conv3d_transpose
    input: images, of shape [batch, channels, height, width], or volumes with a depth before the height.
    num_filters: the number of channels of the result.
    output_size: of the result, one number or one for each dimension; None: as filter, stride and padding give it.
    filter_size: of the window, one number or one for each dimension; None: as output_size gives it.
    padding: what is cut off the result's border: one number, one for each dimension, two for each, 'SAME' or 'VALID'.
    stride: how far the windows lie apart in the result.
    dilation: the distance of the window's elements.
    groups: input and output channels are cut into so many groups that do not mix; None: 1.
    -> images (or volumes) with num_filters channels.

pool2d pool3d
    input: images, of shape [batch, channels, height, width], or volumes with a depth before the height.
    pool_size: of the window, one number or one for each dimension; -1 goes with global_pooling.
    pool_type: 'max' or 'avg'.
    pool_stride: of the window, one number or one for each dimension.
    pool_padding: around the input: one number, one for each dimension, two for each, 'SAME' or 'VALID'.
    global_pooling: one window as large as the image.
    ceil_mode: a window that is partly outside counts too.
    exclusive: padding does not count in a mean.
    -> images (or volumes) with as many channels.

adaptive_pool2d adaptive_pool3d
    input: images, of shape [batch, channels, height, width], or volumes with a depth before the height.
    pool_size: of the result, one number or one for each dimension.
    pool_type: 'max' or 'avg'.
    require_index: also give the places of the largest values; for 'max' only.
    -> images (or volumes) of size pool_size; with require_index, these and the places.

row_conv
    input: sequences, or a tensor of shape [batch, steps, width].
    future_context_size: so many later steps count.
    -> of the shape of the input.

batch_norm inplace_abn
    input: of 2 to 5 dimensions; the channels are dimension 1, or the last one with data_layout 'NHWC'.
    act: an activation that goes over the result; None: none. inplace_abn takes None, 'leaky_relu', 'elu' or 'identity'.
    is_test: use the moving statistics, and do not change them.
    momentum: the share of the old value when the moving statistics follow the batch; a number or a Variable.
    param_attr: how the scale is made, which starts as 1.
    bias_attr: how the shift is made, which starts as 0.
    in_place: lets the result take the place of the input.
    moving_mean_name: the name of the moving mean, for sharing it; None: an automatic one.
    moving_variance_name: the name of the moving variance; None: an automatic one.
    do_model_average_for_mean_and_var: ModelAverage averages the moving statistics too.
    use_global_stats: use the moving statistics in training too.
    act_alpha: the number that 'leaky_relu' and 'elu' take.
    -> of the shape of the input.

instance_norm
    input: of shape [batch, channels, ...].
    param_attr: how the scale is made, one for each channel, which starts as 1.
    bias_attr: how the shift is made, which starts as 0; False is refused.
    -> of the shape of the input.

data_norm
    input: a matrix of features, or images.
    param_attr: a dict of starting values; None: 1e4 for batch_size, 0 for batch_sum and 1e4 for batch_square.
    in_place: lets the result take the place of the input.
    moving_mean_name: has no effect.
    moving_variance_name: has no effect.
    do_model_average_for_mean_and_var: has no effect here.
    slot_dim: the width of a slot, whose first column counts shows; slots without shows are left alone. -1: no slots.
    sync_stats: add the sums of all devices up.
    summary_decay_rate: what the sums are multiplied by at each step.
    enable_scale_and_shift: a learned scale and shift for each feature.
    -> of the shape of the input.

layer_norm
    input: of at least 2 dimensions.
    scale: multiply by a learned scale.
    shift: add a learned shift.
    begin_norm_axis: the dimensions from this one on are normalized together.
    param_attr: how the scale is made, which starts as 1.
    bias_attr: how the shift is made, which starts as 0.
    -> of the shape of the input.

group_norm
    input: of shape [batch, channels, ...].
    groups: the number of groups that the channels are cut into.
    param_attr: how the scale is made; None or False: no scale.
    bias_attr: how the shift is made; None or False: no shift.
    -> of the shape of the input.

spectral_norm
    weight: the parameter to normalize.
    dim: the dimension of its outputs: 0 for fc, 1 for transposed convolutions.
    power_iters: how many rounds of power iteration each run makes.
    eps: keeps the norms from 0.
    -> of the shape of the weight.

lrn
    input: images, of 4 dimensions.
    n: how many neighbouring channels count.
    k: what is added to the sum.
    alpha: what the sum of the squares is multiplied by.
    beta: the power.
    -> of the shape of the input.

l2_normalize
    axis: along which the norm is taken; None: 1.
    -> of the shape of x.

dynamic_lstm dynamic_lstmp
    input: sequences of `size` columns.
    size: 4 times the width of the cell.
    proj_size: the width of the projected state.
    h_0: the hidden states before the first step, a row for each sequence; None: zeros. Goes with c_0.
    c_0: the cells before the first step; None: zeros.
    param_attr: how the weight from state to gates is made (dynamic_lstmp: and the projection).
    bias_attr: how the bias is made, of 4 parts, 7 with peepholes.
    use_peepholes: the gates see the cell.
    is_reverse: go from the last step to the first.
    gate_activation: of the three gates: 'sigmoid', 'tanh', 'relu' or 'identity'.
    cell_activation: of the cell on its way out.
    candidate_activation: of the new content of the cell.
    proj_activation: of the projection.
    cell_clip: cells are cut to +- this; None: they are not.
    proj_clip: projections are cut to +- this; None: they are not.
    -> the hidden states (projections) and the cells, as sequences.

dynamic_gru
    input: sequences of 3 * size columns.
    size: the width of the hidden state.
    param_attr: how the weight is made, of shape [size, 3 * size].
    is_reverse: go from the last step to the first.
    gate_activation: of the update and reset gates.
    candidate_activation: of the new content.
    h_0: the hidden states before the first step; None: zeros.
    origin_mode: the update gate keeps the old state, as in the first paper, instead of letting the new one in.
    -> the hidden states, as sequences of `size` columns.

gru_unit
    input: a row of `size` columns for each sample.
    hidden: the state before, of size / 3 columns.
    size: 3 times the width of the state.
    activation: of the new content.
    gate_activation: of the gates.
    origin_mode: the update gate keeps the old state, instead of letting the new one in.
    -> the new hidden state, the old one after the reset gate, and the gates.

lstm_unit
    x_t: the features of this step, a row for each sample.
    hidden_t_prev: the hidden state before.
    cell_t_prev: the cell before.
    forget_bias: what is added to the forget gate's bias.
    -> the new hidden state and the new cell.

lstm
    input: of shape [steps, batch, width].
    init_h: the first hidden states, of shape [layers, batch, hidden_size].
    init_c: the first cells, of the same shape.
    max_len: the largest number of steps.
    hidden_size: the width of the state.
    num_layers: how many layers lie on one another.
    dropout_prob: the share of elements dropped between layers.
    is_bidirec: a second LSTM goes backward; the first dimension of the states doubles.
    default_initializer: of the weight; None: Xavier.
    -> the output of shape [steps, batch, hidden_size], the last hidden states, the last cells.

beam_search
    pre_ids: the ids that the step before chose, of shape [beams, 1].
    pre_scores: the scores of these beams.
    ids: the candidates of each beam; None: the columns of scores.
    scores: the scores of the candidates.
    beam_size: how many beams go on for each source sentence.
    end_id: the id that ends a sentence.
    level: the level of the LoD that says which beams belong to one source.
    is_accumulated: scores hold the whole sentence; else they hold the probability of the last id.
    return_parent_idx: also give the beam that each chosen id continues.
    -> the chosen ids and their scores; with return_parent_idx, also their parents.

beam_search_decode
    ids: the array of the ids that each step chose.
    scores: the array of their scores.
    beam_size: the beam size of the steps.
    end_id: the id that ends a sentence.
    -> the sentences and their scores, with two levels of LoD: source, then sentence.

image_resize interpolate resize_bilinear resize_nearest resize_trilinear upsampling_bilinear2d
    input: images, of shape [batch, channels, height, width], or volumes with a depth before the height.
    out_shape: the new height and width (and depth), as a list, a tuple or a Variable.
    scale: the factor of the size, when out_shape is None.
    resample: 'BILINEAR', 'NEAREST' or 'TRILINEAR'; interpolate also takes 'BICUBIC'.
    actual_shape: the size as a Variable, which wins at run time; out_shape is the newer form.
    align_corners: the outermost pixels of input and result lie on each other.
    align_mode: where align_corners is False: 0 counts pixels by their middles, 1 by their corners.
    -> images (or volumes) of the new size.

image_resize_short
    input: images, of shape [batch, channels, height, width].
    out_short_len: the length of the shorter side.
    resample: 'BILINEAR' or 'NEAREST'.
    -> images of the new size.

affine_grid
    theta: a 2 x 3 matrix for each image, of shape [batch, 2, 3].
    out_shape: [batch, channels, height, width] of the images to make, as a list or a Variable.
    -> the places, of shape [batch, height, width, 2].

affine_channel
    x: of shape [batch, channels, ...].
    scale: one number for each channel.
    bias: one number for each channel.
    -> of the shape of x.

grid_sampler
    x: images, of shape [batch, channels, height, width].
    grid: places from -1 to 1, of shape [batch, height, width, 2].
    -> of the shape of x.

pixel_shuffle
    x: images, of shape [batch, channels, height, width].
    upscale_factor: height and width grow by it; the channels shrink by its square.
    -> of shape [batch, channels / upscale_factor^2, height * upscale_factor, width * upscale_factor].

space_to_depth
    x: images, of shape [batch, channels, height, width].
    blocksize: height and width shrink by it; the channels grow by its square.
    -> of shape [batch, channels * blocksize^2, height / blocksize, width / blocksize].

shuffle_channel
    x: images, of shape [batch, channels, height, width].
    group: the number of groups, a divisor of the channels.
    -> of the shape of x.

temporal_shift
    x: frames, of shape [batch * seg_num, channels, height, width].
    seg_num: the number of frames of a video.
    shift_ratio: the share of channels that comes from the frame before, and again from the one after.
    -> of the shape of x.

unfold
    x: images, of shape [batch, channels, height, width].
    kernel_sizes: of the window, one number or two.
    strides: of the window, one number or two.
    paddings: around the image: one number, two, or four (top, left, bottom, right).
    dilations: the distance of the window's elements, one number or two.
    -> of shape [batch, channels * window, number of windows].

im2sequence
    input: images, of shape [batch, channels, height, width].
    filter_size: of the window, one number or two.
    stride: of the window, one number or two.
    padding: around the image: one number, two, or four.
    input_image_size: the true size of each image, of shape [batch, 2]; None: they are all as large as the tensor.
    out_stride: how much smaller the tensor is than those sizes.
    -> a sequence of windows for each image.
"""
