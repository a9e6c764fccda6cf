/* Reshaping, joining, cutting, gathering; control flow. */
#define PD_OPS_SHAPE(X)                                                                                        \
    X(reshape) X(reshape_grad) X(reshape2) X(reshape2_grad)                                                    \
    X(squeeze) X(squeeze_grad) X(squeeze2) X(squeeze2_grad)                                                    \
    X(unsqueeze) X(unsqueeze_grad) X(unsqueeze2) X(unsqueeze2_grad)                                            \
    X(flatten) X(flatten_grad) X(flatten2) X(flatten2_grad)                                                    \
    X(transpose) X(transpose_grad) X(transpose2) X(transpose2_grad)                                            \
    X(concat) X(concat_grad) X(split) X(stack) X(stack_grad) X(unstack) X(unstack_grad)                        \
    X(slice) X(slice_grad) X(strided_slice) X(strided_slice_grad)                                              \
    X(expand) X(expand_grad) X(expand_as) X(expand_as_grad)                                                    \
    X(gather) X(gather_grad) X(gather_nd) X(gather_nd_grad)                                                    \
    X(scatter) X(scatter_grad) X(scatter_nd_add) X(scatter_nd_add_grad)                                        \
    X(pad) X(pad_grad) X(pad_constant_like) X(pad_constant_like_grad) X(pad2d) X(pad2d_grad)                   \
    X(crop) X(crop_grad) X(crop_tensor) X(crop_tensor_grad)                                                    \
    X(conditional_block) X(while)
