/* FLAGS_check_nan_inf of servers: a gradient with NaN or Inf is refused. Where servers say that they do so,
 * the trainer looks at all of its gradients before it sends any of a step. So nobody has a part of a step
 * that another one refuses, and the step can still be that of another batch. Servers look as well. */
#include <stdio.h>

#include "pserver/client/client_private.h"
#include "tensor/finite.h"

static pd_status check_piece(const struct pd_client *c, const struct wire *w, const struct piece *p)
{
    const struct name *name = &c->names.at[p->name];
    enum pd_dtype dtype = name->meta.dtype;
    size_t item = name->meta.kind ? pd_dtype_size(dtype) : 0; /* 0: the Program does not say what it is */
    int64_t n = item ? (int64_t)(p->bytes / item) : 0;
    int64_t bad = n ? pd_first_not_finite(dtype, p->data, n) : -1;
    char where[64] = "";
    if (bad < 0) return PD_OK;
    if (p->rows)
        snprintf(where, sizeof where, "row %lld of ", (long long)p->row_numbers[bad / (n / p->rows)]);
    return pd_fail(PD_NOT_FINITE,
                   "trainer %d pushes NaN or Inf in %s'%s' in step %llu: refused (flag check_nan_inf is on). "
                   "Nothing of the step was sent",
                   c->id, where, name->text, (unsigned long long)w->step);
}

pd_status pd_group_check_finite(const struct pd_client *c, const struct group *group)
{
    if (!group->checks) return PD_OK;
    PD_EACH_WIRE_OF(c, group, w)
        for (int j = 0; j < w->push.pieces.n; j++)
            PD_TRY(check_piece(c, w, &w->push.pieces.at[j]));
    return PD_OK;
}
