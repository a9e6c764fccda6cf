/* Elementwise ops, activations, reductions, fills, random numbers, comparisons. */
#define PD_OPS_MATH(X)
