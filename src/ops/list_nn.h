/* Products, convolutions, pooling, normalisation, softmax, losses. Each line: an op and its gradient. */
#define PD_OPS_NN(X)                                                                                           \
    X(mul) X(mul_grad)                                                                                         \
    X(matmul) X(matmul_grad)                                                                                   \
    X(softmax) X(softmax_grad)                                                                                 \
    X(cross_entropy) X(cross_entropy_grad)                                                                     \
    X(cross_entropy2) X(cross_entropy_grad2)                                                                   \
    X(softmax_with_cross_entropy) X(softmax_with_cross_entropy_grad)                                           \
    X(conv2d) X(conv2d_grad)                                                                                   \
    X(depthwise_conv2d) X(depthwise_conv2d_grad)                                                               \
    X(conv3d) X(conv3d_grad)                                                                                   \
    X(conv2d_transpose) X(conv2d_transpose_grad)                                                               \
    X(depthwise_conv2d_transpose) X(depthwise_conv2d_transpose_grad)                                           \
    X(conv3d_transpose) X(conv3d_transpose_grad)                                                               \
    X(pool2d) X(pool2d_grad)                                                                                   \
    X(pool3d) X(pool3d_grad)                                                                                   \
    X(max_pool2d_with_index) X(max_pool2d_with_index_grad)                                                     \
    X(max_pool3d_with_index) X(max_pool3d_with_index_grad)                                                     \
    X(batch_norm) X(batch_norm_grad)
