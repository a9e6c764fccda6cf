"""Networks that are put together from several layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle.fluid import layers, suggest
from paddle.fluid.framework import Variable
from paddle.fluid.layers.build import older

if TYPE_CHECKING:
    from paddle.fluid.hints import ParamAttrLike, Sizes

__all__ = [
    "simple_img_conv_pool",
    "sequence_conv_pool",
    "glu",
    "scaled_dot_product_attention",
    "img_conv_group",
]


@older(drop=("use_mkldnn",))
def simple_img_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: Sizes,
    pool_size: Sizes,
    pool_stride: Sizes,
    pool_padding: Sizes | str = 0,
    pool_type: str = "max",
    global_pooling: bool = False,
    conv_stride: Sizes = 1,
    conv_padding: Sizes | str = 0,
    conv_dilation: Sizes = 1,
    conv_groups: int = 1,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    act: str | None = None,
    use_cudnn: bool = True,
) -> Variable:
    """One convolution and one pooling.

    Args:
        input: images, of shape [batch, channels, height, width].
        num_filters: the number of channels of the result.
        filter_size: of the convolution, one number or two.
        pool_size: of the pooling, one number or two.
        pool_stride: of the pooling, one number or two.
        pool_padding: around the pooled image.
        pool_type: 'max' or 'avg'.
        global_pooling: one window as large as the image.
        conv_stride: of the convolution.
        conv_padding: around the image.
        conv_dilation: the distance of the window's elements.
        conv_groups: input and output channels are cut into so many groups.
        param_attr: how the filter is made.
        bias_attr: how the bias is made; False: no bias.
        act: the activation between convolution and pooling.
        use_cudnn: has no effect.

    Returns:
        images with num_filters channels.

    >>> image = fluid.layers.data(name='image', shape=[1, 28, 28])
    >>> fluid.nets.simple_img_conv_pool(image, 20, filter_size=5, pool_size=2, pool_stride=2).shape
    (-1, 20, 12, 12)
    """
    image = layers.conv2d(
        input,
        num_filters,
        filter_size,
        stride=conv_stride,
        padding=conv_padding,
        dilation=conv_dilation,
        groups=conv_groups,
        param_attr=param_attr,
        bias_attr=bias_attr,
        act=act,
        use_cudnn=use_cudnn,
    )
    return layers.pool2d(
        image,
        pool_size=pool_size,
        pool_type=pool_type,
        pool_stride=pool_stride,
        pool_padding=pool_padding,
        global_pooling=global_pooling,
        use_cudnn=use_cudnn,
    )


@older(drop=("use_mkldnn",))
def img_conv_group(
    input: Variable,
    conv_num_filter: list[int],
    pool_size: Sizes,
    conv_padding: Sizes | str = 1,
    conv_filter_size: Sizes = 3,
    conv_act: str | None = None,
    param_attr: ParamAttrLike = None,
    conv_with_batchnorm: bool | list[bool] = False,
    conv_batchnorm_drop_rate: float | list[float] = 0.0,
    pool_stride: Sizes = 1,
    pool_type: str = "max",
    use_cudnn: bool = True,
) -> Variable:
    """Several convolutions, each with batch norm and dropout if wanted, and one pooling: a stage of VGG.

    What is not a list counts for all convolutions.

    Args:
        input: images, of shape [batch, channels, height, width].
        conv_num_filter: the number of channels of each convolution.
        pool_size: of the pooling.
        conv_padding: around the image, one for all or a list.
        conv_filter_size: of the windows, one for all or a list.
        conv_act: the activation of the convolutions.
        param_attr: how the filters are made, one for all or a list.
        conv_with_batchnorm: with batch norm, one for all or a list.
        conv_batchnorm_drop_rate: the share that is dropped after it, one for all or a list.
        pool_stride: of the pooling.
        pool_type: 'max' or 'avg'.
        use_cudnn: has no effect.

    Returns:
        images.
    """
    if not isinstance(conv_num_filter, (list, tuple)):
        raise TypeError(
            f"img_conv_group: conv_num_filter must be a list or a tuple, but {conv_num_filter!r} was given."
        )
    count = len(conv_num_filter)

    def per_conv(value, arg: str) -> list:
        if not hasattr(value, "__len__"):
            return [value] * count
        if len(value) != count:
            raise ValueError(
                f"img_conv_group: {arg} must have {count} entries, one for each convolution, "
                f"but it has {len(value)}."
            )
        return list(value)

    paddings, sizes = per_conv(conv_padding, "conv_padding"), per_conv(conv_filter_size, "conv_filter_size")
    attrs, normed = per_conv(param_attr, "param_attr"), per_conv(conv_with_batchnorm, "conv_with_batchnorm")
    drops = per_conv(conv_batchnorm_drop_rate, "conv_batchnorm_drop_rate")
    image = input
    for i, filters in enumerate(conv_num_filter):
        image = layers.conv2d(
            image,
            filters,
            sizes[i],
            padding=paddings[i],
            param_attr=attrs[i],
            act=None if normed[i] else conv_act,
            use_cudnn=use_cudnn,
        )
        if normed[i]:
            image = layers.batch_norm(image, act=conv_act)
            if abs(drops[i]) > 1e-5:
                image = layers.dropout(image, dropout_prob=drops[i])
    return layers.pool2d(
        image, pool_size=pool_size, pool_type=pool_type, pool_stride=pool_stride, use_cudnn=use_cudnn
    )


def sequence_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: int,
    param_attr: ParamAttrLike = None,
    act: str = "sigmoid",
    pool_type: str = "max",
    bias_attr: ParamAttrLike = None,
) -> Variable:
    """One convolution over sequences, and one row per sequence from it.

    Args:
        input: sequences.
        num_filters: the number of columns of the result.
        filter_size: the length of the window.
        param_attr: how the filter is made.
        act: the activation between convolution and pooling.
        pool_type: as sequence_pool has them.
        bias_attr: how the bias is made; False: no bias.

    Returns:
        a row for each sequence.
    """
    steps = layers.sequence_conv(
        input, num_filters, filter_size, param_attr=param_attr, bias_attr=bias_attr, act=act
    )
    return layers.sequence_pool(steps, pool_type)


def glu(input: Variable, dim: int = -1) -> Variable:
    """A gated linear unit: one half of the input times the sigmoid of the other.

    Args:
        input: with an even size at dim.
        dim: along which the input is halved.

    Returns:
        half the input's size at dim.
    """
    half, gate = layers.split(input, num_or_sections=2, dim=dim)
    return layers.elementwise_mul(x=half, y=layers.sigmoid(x=gate))


def scaled_dot_product_attention(
    queries: Variable, keys: Variable, values: Variable, num_heads: int = 1, dropout_rate: float = 0.0
) -> Variable:
    """softmax(queries * keys^T / sqrt(width)) * values, over one head or several.

    All three have the dimensions batch, length and width. With several heads each of the three goes
    through an fc layer first.

    Args:
        queries: of shape [batch, length, width].
        keys: of shape [batch, other length, width].
        values: of shape [batch, other length, width of values].
        num_heads: the number of heads, a divisor of the widths.
        dropout_rate: the share of weights that is dropped.

    Returns:
        of shape [batch, length, width of values].
    """
    given = {"queries": queries, "keys": keys, "values": values}
    for arg, each in given.items():
        if not isinstance(each, Variable):
            raise TypeError(f"scaled_dot_product_attention: {arg} must be a Variable.")
        if each.dtype != queries.dtype:
            raise TypeError(
                f"scaled_dot_product_attention: all inputs must have one dtype, but {arg} differs."
            )
        if len(each.shape) != 3:
            raise ValueError(
                f"scaled_dot_product_attention: {arg} must have 3 dimensions, but its shape is {each.shape}."
            )
    if queries.shape[-1] != keys.shape[-1] or keys.shape[-2] != values.shape[-2]:
        raise ValueError(
            f"scaled_dot_product_attention: queries and keys must be equally wide, keys and values "
            f"equally long, but the shapes are {queries.shape}, {keys.shape} and "
            f"{values.shape}."
        )
    if keys.shape[-1] % num_heads or values.shape[-1] % num_heads:
        raise ValueError(
            f"scaled_dot_product_attention: the widths {keys.shape[-1]} and {values.shape[-1]} cannot be "
            f"split into {num_heads} heads."
        )
    parts = [queries, keys, values]
    if num_heads > 1:
        parts = [layers.fc(each, size=each.shape[-1], num_flatten_dims=2) for each in parts]
        for i, each in enumerate(parts):
            width = each.shape[-1] // num_heads
            split = layers.reshape(each, shape=[*each.shape[:-1], num_heads, width])
            parts[i] = layers.transpose(split, perm=[0, 2, 1, 3])
    query, key, value = parts
    product = layers.matmul(
        layers.scale(query, scale=(keys.shape[-1] // num_heads) ** -0.5), key, transpose_y=True
    )
    weights = layers.reshape(product, shape=[-1, product.shape[-1]], act="softmax")
    weights = layers.reshape(weights, shape=list(product.shape))
    if dropout_rate:
        weights = layers.dropout(weights, dropout_prob=dropout_rate, is_test=False)
    context = layers.matmul(weights, value)
    if num_heads == 1:
        return context
    joined = layers.transpose(context, perm=[0, 2, 1, 3])
    batch, length, heads, width = joined.shape
    return layers.reshape(joined, shape=[batch, length, heads * width])


suggest.make_helpful(__all__, globals())
