/* Embeddings, sequences, selected rows, optimizers, metrics, files. */
#define PD_OPS_SPARSE(X)
