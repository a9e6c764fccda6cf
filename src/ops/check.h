/* What ops ask of their inputs. Messages name the slot, what was found and what is needed.
 *
 * Checks of a meta are for infer(): a type that is not known yet passes. Those of a tensor are for run(), of
 * inputs whose type the Program may not have told. */
#ifndef PD_OPS_CHECK_H
#define PD_OPS_CHECK_H

#include "program/op.h"

/* float32 or float64. */
pd_status pd_check_float(const struct pd_meta *meta, const char *slot);
pd_status pd_check_float_data(const struct pd_tensor *t, const char *slot);
/* int64 or int32. */
pd_status pd_check_index(const struct pd_meta *meta, const char *slot);
pd_status pd_check_index_data(const struct pd_tensor *t, const char *slot);
/* float32, float64, int32 or int64. */
pd_status pd_check_number_data(const struct pd_tensor *t, const char *slot);
/* int64, as ids are. */
pd_status pd_check_ids_data(const struct pd_tensor *t, const char *slot);

pd_status pd_check_same_type(const struct pd_meta *a, const char *a_slot, const struct pd_meta *b,
                             const char *b_slot);
/* Of dimensions that are known. */
pd_status pd_check_same_dims(const struct pd_meta *a, const char *a_slot, const struct pd_meta *b,
                             const char *b_slot);
/* low to high dimensions. */
pd_status pd_check_rank(const struct pd_meta *meta, const char *slot, int low, int high);

/* The element type that an integer attribute names. */
pd_status pd_check_dtype(int number, const char *attr, enum pd_dtype *dtype);

#endif
