"""Arguments of the layers that work on numbers: element by element, reductions, comparisons, random numbers."""

TEXT = """
sigmoid logsigmoid exp tanh atan tanh_shrink sqrt rsqrt abs ceil floor cos acos asin sin round reciprocal square softplus softsign
        relu log
    -> of the shape of x.

softshrink hard_shrink thresholded_relu gelu erf log1p elu relu6 stanh hard_sigmoid swish hard_swish mish brelu leaky_relu soft_relu
    alpha: the number in the formula.
    threshold: the limit in the formula.
    approximate: use the tanh approximation.
    scale_a: the number in the formula.
    scale_b: the number in the formula.
    slope: the number in the formula.
    offset: the number in the formula.
    beta: the number in the formula.
    scale: the number in the formula.
    t_min: the lower limit.
    t_max: the upper limit.
    -> of the shape of x.

selu
    scale: the number in the formula; None: 1.0507.
    alpha: the number in the formula; None: 1.6733.
    -> of the shape of x.

pow
    factor: the power: a number, or a Variable of one element.
    -> of the shape of x.

cumsum
    axis: along which the sums run; None: the last.
    exclusive: an element's sum leaves out the element itself.
    reverse: the sums run from the end.
    -> of the shape of x.

prelu
    mode: 'all' (one factor), 'channel' (one for each channel) or 'element' (one for each element of a sample).
    param_attr: how the factor is made; None: 0.25.
    -> of the shape of x.

sign
    x: a Variable or a numpy array.
    -> of the shape of x.

maxout
    x: images, of 4 dimensions.
    groups: so many neighbouring channels become one.
    axis: where the channels are: 1, or 3 (-1) for 'NHWC'.
    -> of the shape of x with channels / groups channels.

elementwise_add elementwise_div elementwise_sub elementwise_mul elementwise_max elementwise_min elementwise_pow
        elementwise_mod elementwise_floordiv
    x: the first tensor; it has at least as many dimensions as y.
    y: the second tensor.
    axis: the dimension of x at which the dimensions of y begin.
    -> of the shape of x.

logical_and logical_or logical_xor logical_not
    x: a tensor of bools.
    y: a tensor of bools of the same shape.
    -> a tensor of bools.

elementwise_equal
    y: a tensor of the shape of x.
    -> a tensor of bools.

less_than less_equal greater_than greater_equal equal not_equal
    x: a tensor.
    y: a tensor of the same dtype, of the shape of x or one that repeats to it.
    -> a tensor of bools.

scale
    scale: a number, or a Variable of one element.
    bias: what is added.
    bias_after_scale: add the bias after the multiplication; else before it.
    -> of the shape of x.

clip
    min: the lower limit.
    max: the upper limit.
    -> of the shape of x.

clamp
    min: the lower limit: a number or a Variable of one element; None: none.
    max: the upper limit: a number or a Variable of one element; None: none.
    output: the Variable to write to; None: a new one.
    -> of the shape of the input.

clip_by_norm
    max_norm: the largest norm, above 0.
    -> of the shape of x.

addcmul
    tensor1: a tensor.
    tensor2: a tensor.
    value: what the product is multiplied by.
    -> of the shape of the input.

kron
    x: a tensor.
    y: a tensor.
    -> a tensor whose sizes are the products of theirs.

allclose
    other: the tensor to compare with.
    rtol: the difference that is allowed for each unit of size.
    atol: the difference that is allowed anyway.
    equal_nan: NaN equals NaN.
    -> one bool, of shape [1].

dist
    y: a tensor that x repeats to, or that repeats to x.
    p: the order of the norm; inf and -inf give the largest and the smallest difference.
    -> one number, of shape [1].

reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_all reduce_any
    dim: one dimension or a list of them; negative ones count from the end; None: all.
    keep_dim: keep the reduced dimensions with size 1.
    -> what is left; of shape [1] when nothing is.

mean
    -> one number, of shape [1].

logsumexp
    dim: one dimension or a list of them; None: all.
    keepdim: keep the reduced dimensions with size 1.
    -> what is left; of shape [1] when nothing is.

topk
    k: how many, a number or a Variable of one element.
    -> the values and their positions (int64), both with k in the last dimension.

argmin argmax
    axis: along which to look; negative ones count from the end.
    -> int64, the shape of x without the axis.

argsort
    axis: along which to sort.
    descending: the largest first.
    -> the sorted values and their old positions (int64).

uniform_random
    shape: of the result: a list, a tuple or a Variable.
    min: the lower limit, which can occur.
    max: the upper limit, which cannot.
    -> a tensor of this shape.

gaussian_random
    shape: of the result: a list, a tuple or a Variable.
    mean: the middle of the distribution.
    std: its standard deviation.
    -> a tensor of this shape.

uniform_random_batch_size_like gaussian_random_batch_size_like
    input: the tensor that gives the size.
    shape: of the result, before the size is put in.
    input_dim_idx: the dimension of the input whose size is taken.
    output_dim_idx: the dimension of the result that gets it.
    min: the lower limit.
    max: the upper limit.
    mean: the middle of the distribution.
    std: its standard deviation.
    -> a tensor of this shape.

sampling_id
    x: probabilities, of shape [batch, classes].
    min: the smallest random number that is drawn.
    max: the largest random number that is drawn.
    -> a column number for each row, of shape [batch].

random_crop
    shape: of the piece, without the batch.
    seed: the first seed: a number, or a Variable that keeps it.
    -> of shape [batch, *shape].

randint
    low: the smallest number, or the limit when high is None.
    high: the limit, which cannot occur.
    shape: of the result; None: [1].
    dtype: 'int32' or 'int64'; None: 'int64'.
    -> a tensor of this shape.

randn
    shape: of the result: a list or a tuple.
    dtype: 'float32' or 'float64'; None: 'float32'.
    -> a tensor of this shape.

randperm
    n: how many numbers.
    -> a tensor of shape [n].

dropout
    dropout_prob: the share of elements that become 0.
    is_test: behave as in tests.
    seed: of the mask; None: the program's. The same seed gives the same mask at each run.
    dropout_implementation: 'downgrade_in_infer' or 'upscale_in_train'.
    -> of the shape of x.
"""
