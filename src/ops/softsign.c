/* softsign: a smooth sign of X. */
#include "ops/act.h"

/* Formulas: clang-format would take their products for declarations. */
/* clang-format off */
PD_ACT_X(softsign, "Out = X / (1 + |X|).", x / (1 + pd_abs(x)), dout / ((1 + pd_abs(x)) * (1 + pd_abs(x))))
/* clang-format on */
