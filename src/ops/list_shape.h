/* Reshaping, joining, cutting, gathering; control flow. */
#define PD_OPS_SHAPE(X)
