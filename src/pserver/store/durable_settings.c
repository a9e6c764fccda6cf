/* Settings that are variables: a learning rate that no op computes. They are kept as all that lasts is, and a
 * log is done again with those of its snapshot. But a user who changes one in the script and starts the job
 * again means it: from then on it is the script's. */
#include <string.h>

#include "base/log.h"
#include "pserver/store/durable_private.h"

struct names {
    PD_VEC(const char *) all;
};

/* Adds what ops compute from the variables of the list. 1: an optimizer reads one of them as its rate. */
static int follow(const struct pd_block *block, const char *name, struct names *list, pd_status *status)
{
    for (int i = 0; i < block->ops.n; i++) {
        const struct pd_opdesc *op = block->ops.at[i];
        const struct pd_io *rate = pd_opdesc_slot(op, 0, "LearningRate");
        for (int k = 0; rate && k < rate->args.n; k++)
            if (strcmp(rate->args.at[k], name) == 0) return 1;
        for (int k = 0; pd_opdesc_names(op, 0, name) && k < op->out.n; k++)
            for (int j = 0; j < op->out.at[k].args.n; j++) {
                const char *out = op->out.at[k].args.at[j];
                int is_known = 0;
                for (int n = 0; n < list->all.n; n++)
                    is_known |= strcmp(list->all.at[n], out) == 0;
                if (!is_known && !pd_vec_push(&list->all, out)) *status = pd_no_memory();
            }
    }
    return 0;
}

/* Does an optimizer read it as its rate, as it is or through other ops (a parameter's factor)? */
static pd_status is_rate(const struct pd_program *program, const char *name, int *yes)
{
    struct names list = {0};
    pd_status status = pd_vec_push(&list.all, name) ? PD_OK : pd_no_memory();
    *yes = 0;
    for (int n = 0; n < list.all.n && !*yes; n++)
        for (int i = 0; i < program->blocks.n && !*yes; i++)
            *yes = follow(program->blocks.at[i], list.all.at[n], &list, &status);
    pd_vec_free(&list.all);
    return status;
}

/* A rate of one number, which nothing that the server runs ever writes. A parameter of one number that is not
 * trained is none: it may be drawn at random, anew at each start. */
static pd_status is_setting(const struct pd_durable *d, const struct kept *k, int *yes)
{
    *yes = 0;
    const struct pd_meta *m = &k->value->tensor.meta;
    if (!k->value->tensor.data || k->whole || m->kind != PD_KIND_TENSOR || pd_meta_numel(m) != 1 ||
        (m->dtype != PD_DTYPE_FP32 && m->dtype != PD_DTYPE_FP64))
        return PD_OK;
    for (int i = 0; i < d->server->engine.program->blocks.n; i++)
        if (pd_program_writes(d->server->engine.program, i, k->name)) return PD_OK;
    return is_rate(d->server->engine.program, k->name, yes);
}

static double number_of(const struct pd_tensor *t)
{
    return t->meta.dtype == PD_DTYPE_FP64 ? *(const double *)t->data : (double)*(const float *)t->data;
}

pd_status pd_settings_note(struct pd_durable *d)
{
    for (int i = 0; i < d->kept.n; i++) {
        struct kept *k = &d->kept.at[i];
        PD_TRY(is_setting(d, k, &k->is_setting));
        if (k->is_setting) k->setting = number_of(&k->value->tensor);
    }
    return PD_OK;
}

/* Does the log have steps that were done, or that all may have agreed on? Parts of others are void. */
static int has_log(const struct pd_durable *d)
{
    int n = d->taken.changes > 0;
    for (int l = 0; l < d->server->n_lanes; l++)
        n |= pd_durable_is_ready(d, l);
    return n;
}

pd_status pd_settings_take(struct pd_durable *d)
{
    for (int i = 0; i < d->kept.n; i++) {
        struct kept *k = &d->kept.at[i];
        struct pd_tensor *t = &k->value->tensor;
        if (!k->is_setting || number_of(t) == k->setting) continue;
        if (d->taken.is_open)
            return pd_fail(
                PD_INVALID,
                "'%s' is %.9g in this Program, and was %.9g in the snapshot of step %llu in '%s', which has "
                "parts of the next step that were done with that. Start the servers as they were, and their "
                "trainers, until the step is through. Then end them and start these",
                k->name, k->setting, number_of(t), (unsigned long long)d->taken.number, d->folder);
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
