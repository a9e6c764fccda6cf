/* Settings that are variables: a learning rate that no op computes. They are kept as all that lasts is, and a
 * log is done again with those of its snapshot. But a user who changes one in the script and starts the job
 * again means it: from then on it is the script's. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "pserver/durable_private.h"

/* One number, which nothing that the server runs ever writes. */
static int is_setting(const struct pd_durable *d, const struct kept *k)
{
    const struct pd_meta *m = &k->value->tensor.meta;
    if (!k->value->tensor.data || k->whole || m->kind != PD_KIND_TENSOR || pd_meta_numel(m) != 1 ||
        (m->dtype != PD_DTYPE_FP32 && m->dtype != PD_DTYPE_FP64))
        return 0;
    for (int i = 0; i < d->server->program->blocks.n; i++)
        if (pd_program_writes(d->server->program, i, k->name)) return 0;
    return 1;
}

static double number_of(const struct pd_tensor *t)
{
    return t->meta.dtype == PD_DTYPE_FP64 ? *(const double *)t->data : (double)*(const float *)t->data;
}

void pd_settings_note(struct pd_durable *d)
{
    for (int i = 0; i < d->kept.n; i++) {
        struct kept *k = &d->kept.at[i];
        k->is_setting = is_setting(d, k);
        if (k->is_setting) k->setting = number_of(&k->value->tensor);
    }
}

static int has_log(const struct pd_durable *d)
{
    int n = d->taken.changes > 0;
    for (int l = 0; l < d->server->n_lanes; l++)
        n |= pd_durable_waits(d, l);
    return n;
}

pd_status pd_settings_take(struct pd_durable *d)
{
    for (int i = 0; i < d->kept.n; i++) {
        struct kept *k = &d->kept.at[i];
        struct pd_tensor *t = &k->value->tensor;
        if (!k->is_setting || number_of(t) == k->setting) continue;
        if (has_log(d))
            return pd_fail(
                PD_INVALID,
                "'%s' is %.9g in this Program, and was %.9g in the snapshot of step %llu in '%s', whose log "
                "has steps that were done with that. Start the servers as they were, without trainers, and "
                "end them with SIGTERM: that makes a snapshot of all that they have. Then start these",
                k->name, k->setting, number_of(t), (unsigned long long)d->taken.number, d->folder);
        pd_log(PD_LOG_WARNING, "'%s' is %.9g in this Program, and was %.9g in the snapshot: it is %.9g now",
               k->name, k->setting, number_of(t), k->setting);
        if (t->meta.dtype == PD_DTYPE_FP64)
            *(double *)t->data = k->setting;
        else
            *(float *)t->data = (float)k->setting;
        d->taken.is_changed = 1;
    }
    return PD_OK;
}
