/* What saving and loading variables share. */
#ifndef PD_OPS_SAVE_LOAD_H
#define PD_OPS_SAVE_LOAD_H

#include "program/op.h"

/* Outputs keep their declared shapes; what a file brings is known only when it is read. */
pd_status pd_save_load_infer(const struct pd_infer *c);
/* `to` becomes `from`, which is float32 or float64, as float16. */
pd_status pd_save_load_half(struct pd_tensor *to, const struct pd_tensor *from);
/* What errno says about a file. */
pd_status pd_save_load_error(const char *doing, const char *path);

#endif
