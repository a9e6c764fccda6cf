/* Products, convolutions, pooling, normalisation, softmax, losses. */
#define PD_OPS_NN(X)
