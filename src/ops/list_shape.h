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
    X(space_to_depth) X(space_to_depth_grad) X(pixel_shuffle) X(pixel_shuffle_grad) X(reverse)                 \
    X(shuffle_channel) X(shuffle_channel_grad) X(temporal_shift) X(temporal_shift_grad)                        \
    X(multiplex) X(multiplex_grad) X(where) X(where_grad) X(where_index)                                       \
    X(argsort) X(argsort_grad) X(arg_max) X(arg_min) X(unique) X(unique_with_counts)                           \
    X(shard_index) X(random_crop) X(sampling_id) X(similarity_focus)                                           \
    X(im2sequence) X(im2sequence_grad) X(unfold) X(unfold_grad) X(fsp) X(fsp_grad) X(cvm) X(cvm_grad)          \
    X(conditional_block) X(conditional_block_grad) X(while) X(while_grad) X(select_input) X(select_output)     \
    X(get_places)                                                                                              \
    X(rnn_memory_helper) X(rnn_memory_helper_grad)                                                             \
    X(lod_rank_table) X(max_sequence_len) X(reorder_lod_tensor_by_rank) X(reorder_lod_tensor_by_rank_grad)     \
    X(shrink_rnn_memory) X(shrink_rnn_memory_grad)                                                             \
    X(write_to_array) X(read_from_array) X(lod_array_length) X(lod_tensor_to_array) X(array_to_lod_tensor)     \
    X(tensor_array_to_tensor) X(tensor_array_to_tensor_grad)
