/* Elementwise ops, activations, reductions, fills, random numbers, comparisons. */
#define PD_OPS_MATH(X)                                                                                         \
    X(elementwise_add)                                                                                         \
    X(elementwise_add_grad)                                                                                    \
    X(elementwise_sub)                                                                                         \
    X(elementwise_sub_grad)                                                                                    \
    X(elementwise_mul)                                                                                         \
    X(elementwise_mul_grad)                                                                                    \
    X(elementwise_div)                                                                                         \
    X(elementwise_div_grad)                                                                                    \
    X(elementwise_max)                                                                                         \
    X(elementwise_max_grad)                                                                                    \
    X(elementwise_min)                                                                                         \
    X(elementwise_min_grad)                                                                                    \
    X(elementwise_pow)                                                                                         \
    X(elementwise_pow_grad)                                                                                    \
    X(elementwise_mod)                                                                                         \
    X(elementwise_floordiv)                                                                                    \
    X(mean)                                                                                                    \
    X(mean_grad)                                                                                               \
    X(sum)                                                                                                     \
    X(scale)                                                                                                   \
    X(sign)                                                                                                    \
    X(cast)                                                                                                    \
    X(assign)                                                                                                  \
    X(increment)                                                                                               \
    X(fill_constant)                                                                                           \
    X(fill_constant_batch_size_like)                                                                           \
    X(fill_zeros_like)                                                                                         \
    X(fill_zeros_like2)                                                                                        \
    X(fill_any_like)                                                                                           \
    X(fill)                                                                                                    \
    X(assign_value)                                                                                            \
    X(uniform_random)                                                                                          \
    X(gaussian_random)                                                                                         \
    X(truncated_gaussian_random)                                                                               \
    X(randint)                                                                                                 \
    X(uniform_random_batch_size_like)                                                                          \
    X(gaussian_random_batch_size_like)                                                                         \
    X(less_than)                                                                                               \
    X(less_equal)                                                                                              \
    X(greater_than)                                                                                            \
    X(greater_equal)                                                                                           \
    X(equal)                                                                                                   \
    X(not_equal)                                                                                               \
    X(logical_and)                                                                                             \
    X(logical_or)                                                                                              \
    X(logical_xor)                                                                                             \
    X(logical_not)                                                                                             \
    X(reduce_sum)                                                                                              \
    X(reduce_sum_grad)                                                                                         \
    X(reduce_mean)                                                                                             \
    X(reduce_mean_grad)                                                                                        \
    X(reduce_max)                                                                                              \
    X(reduce_max_grad)                                                                                         \
    X(reduce_min)                                                                                              \
    X(reduce_min_grad)                                                                                         \
    X(reduce_prod)                                                                                             \
    X(reduce_prod_grad)                                                                                        \
    X(reduce_all)                                                                                              \
    X(reduce_any)                                                                                              \
    X(clip)                                                                                                    \
    X(clip_grad)                                                                                               \
    X(clip_by_norm)                                                                                            \
    X(pow)                                                                                                     \
    X(pow_grad)                                                                                                \
    X(gelu)                                                                                                    \
    X(gelu_grad)                                                                                               \
    X(prelu)                                                                                                   \
    X(prelu_grad)                                                                                              \
    X(maxout)                                                                                                  \
    X(maxout_grad)                                                                                             \
    X(squared_l2_norm)                                                                                         \
    X(squared_l2_norm_grad)                                                                                    \
    X(l1_norm)                                                                                                 \
    X(l1_norm_grad)                                                                                            \
    X(squared_l2_distance)                                                                                     \
    X(squared_l2_distance_grad)                                                                                \
    X(norm)                                                                                                    \
    X(norm_grad)                                                                                               \
    X(isfinite)                                                                                                \
    X(isinf)                                                                                                   \
    X(isnan)                                                                                                   \
    X(cumsum)                                                                                                  \
    X(minus)                                                                                                   \
    X(dropout)                                                                                                 \
    X(dropout_grad)                                                                                            \
    X(one_hot)                                                                                                 \
    X(one_hot_v2)                                                                                              \
    X(label_smooth)                                                                                            \
    X(label_smooth_grad)                                                                                       \
    X(range)                                                                                                   \
    X(linspace)                                                                                                \
    X(eye)                                                                                                     \
    X(diag)                                                                                                    \
    X(shape)                                                                                                   \
    X(size)                                                                                                    \
    X(is_empty)                                                                                                \
    X(print)                                                                                                   \
    X(hash)                                                                                                    \
    PD_OPS_ACT(X)

/* Activations: each has a gradient op of its own. */
#define PD_OPS_ACT(X)                                                                                          \
    X(sigmoid) X(sigmoid_grad)                                                                                 \
    X(tanh) X(tanh_grad)                                                                                       \
    X(logsigmoid) X(logsigmoid_grad)                                                                           \
    X(softplus) X(softplus_grad)                                                                               \
    X(softsign) X(softsign_grad)                                                                               \
    X(tanh_shrink) X(tanh_shrink_grad)                                                                         \
    X(soft_relu) X(soft_relu_grad)                                                                             \
    X(elu) X(elu_grad)                                                                                         \
    X(stanh) X(stanh_grad)                                                                                     \
    X(swish) X(swish_grad)                                                                                     \
    X(selu) X(selu_grad)                                                                                       \
    X(relu) X(relu_grad)                                                                                       \
    X(relu6) X(relu6_grad)                                                                                     \
    X(brelu) X(brelu_grad)                                                                                     \
    X(leaky_relu) X(leaky_relu_grad)                                                                           \
    X(thresholded_relu) X(thresholded_relu_grad)                                                               \
    X(softshrink) X(softshrink_grad)                                                                           \
    X(hard_shrink) X(hard_shrink_grad)                                                                         \
    X(hard_sigmoid) X(hard_sigmoid_grad)                                                                       \
    X(hard_swish) X(hard_swish_grad)                                                                           \
    X(ceil) X(ceil_grad)                                                                                       \
    X(floor) X(floor_grad)                                                                                     \
    X(round) X(round_grad)                                                                                     \
    X(exp) X(exp_grad)                                                                                         \
    X(log) X(log_grad)                                                                                         \
    X(log1p) X(log1p_grad)                                                                                     \
    X(sqrt) X(sqrt_grad)                                                                                       \
    X(rsqrt) X(rsqrt_grad)                                                                                     \
    X(square) X(square_grad)                                                                                   \
    X(abs) X(abs_grad)                                                                                         \
    X(reciprocal) X(reciprocal_grad)                                                                           \
    X(cos) X(cos_grad)                                                                                         \
    X(sin) X(sin_grad)                                                                                         \
    X(acos) X(acos_grad)                                                                                       \
    X(asin) X(asin_grad)                                                                                       \
    X(atan) X(atan_grad)                                                                                       \
    X(erf) X(erf_grad)
