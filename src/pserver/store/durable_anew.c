/* A job that goes on with another optimizer or schedule: a state that the snapshot has not starts as the
 * startup Program made it, when the user has said so. Parameters never do, trained or not. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "pserver/store/durable_private.h"

static int is_of_slot(const struct pd_opdesc *op, int is_output, const char *slot, const char *name)
{
    const struct pd_io *io = pd_opdesc_slot(op, is_output, slot);
    for (int i = 0; io && i < io->args.n; i++)
        if (strcmp(io->args.at[i], name) == 0) return 1;
    return 0;
}

/* A state of this optimizer, or what it counts its steps by? Rates are told as settings. */
static int is_state_of(const struct pd_opdesc *op, const char *name)
{
    if (!pd_opdesc_slot(op, 0, "Param") || is_of_slot(op, 0, "Param", name) ||
        is_of_slot(op, 0, "LearningRate", name))
        return 0;
    return pd_opdesc_names(op, 0, name) || pd_opdesc_names(op, 1, name);
}

static int is_parameter(const struct pd_program *program, const char *name)
{
    for (int i = 0; i < program->blocks.n; i++)
        for (int k = 0; k < program->blocks.at[i]->ops.n; k++)
            if (is_of_slot(program->blocks.at[i]->ops.at[k], 0, "Param", name)) return 1;
    return 0;
}

/* Of what the server runs, only optimizers and schedules write what lasts. */
static int may_start_anew(const struct pd_program *program, const struct kept *k)
{
    int is_written = k->is_setting;
    for (int i = 0; i < program->blocks.n && !is_written; i++)
        is_written = pd_program_writes(program, i, k->name);
    return is_written && !is_parameter(program, k->name);
}

/* The states of one optimizer belong together: those that another had by the same name are not its own. */
static void spread(struct pd_durable *d, const struct pd_opdesc *op)
{
    int is_anew = 0;
    for (int i = 0; i < d->kept.n; i++)
        is_anew |= d->kept.at[i].is_anew && is_state_of(op, d->kept.at[i].name);
    for (int i = 0; i < d->kept.n && is_anew; i++)
        if (is_state_of(op, d->kept.at[i].name)) d->kept.at[i].is_anew = 1;
}

/* ---- which optimizers ---- */

static int has_kind(const char *kinds, const char *type)
{
    char word[128];
    snprintf(word, sizeof word, " %.120s ", type);
    return strstr(kinds, word) != NULL;
}

static void put_kind(struct pd_buf *out, const char *type)
{
    if (!out->n) pd_buf_text(out, " ");
    if (*type && !out->failed && !has_kind(out->at, type)) pd_buf_printf(out, "%s ", type);
}

void pd_anew_put_kinds(const struct pd_program *program, struct pd_buf *out)
{
    put_kind(out, "");
    for (int i = 0; i < program->blocks.n; i++)
        for (int k = 0; k < program->blocks.at[i]->ops.n; k++) {
            const struct pd_opdesc *op = program->blocks.at[i]->ops.at[k];
            if (pd_opdesc_slot(op, 0, "Param")) put_kind(out, op->type);
        }
}

/* The next word of a list of them, and what is behind it; NULL: there is none. */
static const char *next_kind(const char *from, char type[128])
{
    from += strspn(from, " ");
    size_t n = strcspn(from, " ");
    snprintf(type, 128, "%.*s", (int)n, from);
    return n ? from + n : NULL;
}

void pd_anew_add_kinds(const char *kinds, struct pd_buf *out)
{
    char type[128];
    put_kind(out, "");
    while ((kinds = next_kind(kinds, type)))
        put_kind(out, type);
}

/* The states of an optimizer that the job did not have are not its own, whatever they are called. */
static void mark_kinds(struct pd_durable *d, const char *kinds)
{
    const struct pd_program *program = d->server->engine.program;
    for (int i = 0; i < program->blocks.n; i++)
        for (int k = 0; k < program->blocks.at[i]->ops.n; k++) {
            const struct pd_opdesc *op = program->blocks.at[i]->ops.at[k];
            if (!pd_opdesc_slot(op, 0, "Param") || has_kind(kinds, op->type)) continue;
            for (int v = 0; v < d->kept.n; v++)
                if (d->kept.at[v].value->tensor.data && is_state_of(op, d->kept.at[v].name))
                    d->kept.at[v].is_anew = 1;
        }
}

/* Does the snapshot tell of another set of them? One of another server may tell of more. */
static pd_status check_kinds(struct pd_durable *d, const char *kinds, int is_own)
{
    struct pd_buf mine = {0};
    pd_anew_put_kinds(d->server->engine.program, &mine);
    pd_status status = mine.failed ? pd_no_memory() : PD_OK;
    int is_same = 1;
    for (int turn = 0; turn < 1 + is_own && status == PD_OK; turn++) {
        const char *from = turn ? kinds : mine.at, *in = turn ? mine.at : kinds;
        char type[128];
        while ((from = next_kind(from, type)))
            is_same &= has_kind(in, type);
    }
    if (status == PD_OK && !is_same && !d->server->config.accepts_anew)
        status = pd_fail(PD_INVALID,
                         "what '%s' holds was trained by%s, and this server has%s. Start it as it was; or "
                         "set FLAGS_ps_accept_anew=1 on all servers to go on with these parameters and other "
                         "optimizers, whose states start anew then",
                         d->folder, kinds, mine.at);
    pd_buf_free(&mine);
    return status;
}

pd_status pd_anew_mark(struct pd_durable *d, int (*has)(const void *snapshots, const struct kept *k),
                       const void *snapshots, const char *kinds, int is_own)
{
    const struct pd_program *program = d->server->engine.program;
    if (kinds) PD_TRY(check_kinds(d, kinds, is_own));
    for (int i = 0; i < d->kept.n; i++) {
        struct kept *k = &d->kept.at[i];
        k->is_anew = k->value->tensor.data && !has(snapshots, k) && may_start_anew(program, k);
    }
    if (kinds) mark_kinds(d, kinds);
    for (int i = 0; i < program->blocks.n; i++)
        for (int j = 0; j < program->blocks.at[i]->ops.n; j++)
            spread(d, program->blocks.at[i]->ops.at[j]);
    return PD_OK;
}

pd_status pd_anew_tell(struct pd_durable *d)
{
    const char *first = NULL;
    struct pd_buf names = {0};
    int n = 0, has_begun = d->taken.is_open || d->taken.changes;
    for (int i = 0; i < d->kept.n; i++) {
        const struct kept *k = &d->kept.at[i];
        if (!k->is_anew) continue;
        pd_buf_printf(&names, "%s'%s'", n++ ? ", " : "", k->name);
        if (!first) first = k->name;
    }
    pd_status status = names.failed ? pd_no_memory() : PD_OK;
    if (status == PD_OK && n && has_begun)
        status = pd_fail(
            PD_INVALID,
            "the snapshot in '%s' has no '%s', and steps behind it were done without it: start the servers "
            "as they were, and their trainers, until the step is through. Then end them and start these",
            d->folder, first);
    else if (status == PD_OK && n && !d->server->config.accepts_anew)
        status = pd_fail(
            PD_NOT_FOUND,
            "the snapshot in '%s' has no %s, which this optimizer or schedule keeps: the job had another "
            "one. Start it as it was; or set FLAGS_ps_accept_anew=1 on all servers to go on with this one "
            "and the parameters of the snapshot, states that it has not start anew then",
            d->folder, names.at);
    if (status == PD_OK && n) {
        pd_log(PD_LOG_WARNING,
               "the job goes on with another optimizer or schedule than it had, whose states its snapshot "
               "has not: %s start%s anew",
               names.at, n == 1 ? "s" : "");
        d->taken.is_changed = 1;
    }
    pd_buf_free(&names);
    return status;
}
