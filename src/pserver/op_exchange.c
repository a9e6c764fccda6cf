/* The trainer's ops at work: send, recv, the barriers, and what a plan puts in their place: ps_send, for a
 * gradient that is cut into slices and sent, and ps_exchange, for everything from send_barrier to the last
 * recv. */
#include <stdio.h>
#include <string.h>

#include "exec/frame.h"
#include "pserver/client/client.h"
#include "pserver/client/communicator.h"
#include "pserver/op_run.h"

void pd_ps_state_free(void *state)
{
    pd_free(((struct pd_ps_state *)state)->numbers);
    pd_free_aligned(((struct pd_ps_state *)state)->rows);
}

pd_status pd_ps_client(const struct pd_run *r, int pushes, uint64_t *known, int *is_new,
                       struct pd_client **out)
{
    int is_taken = 0;
    r->step->over = pd_client_run_over;
    if (pushes) PD_TRY(pd_comm_takes(r->step, &is_taken));
    PD_TRY(pd_client_get(pd_ps_attr(r, "trainer_id")->i, r, pushes && !is_taken, out));
    if (!known) return PD_OK;
    *is_new = *known != pd_client_incarnation(*out);
    *known = pd_client_incarnation(*out);
    return PD_OK;
}

pd_status pd_ps_done(const struct pd_run *r, struct pd_client *client, pd_status status)
{
    if (status == PD_OK) pd_client_rest(client, r);
    return status;
}

/* ---- by the run itself, or by the communicator ---- */

static pd_status push_dense(const struct pd_run *r, struct pd_client *client, int number, enum pd_dtype dtype,
                            const void *data, size_t bytes, size_t row)
{
    return pd_comm_has(r->step) ? pd_comm_push_dense(r->step, number, dtype, data, bytes, row)
                                : pd_client_push_dense(client, number, data, bytes, row);
}

static pd_status push_rows(const struct pd_run *r, struct pd_client *client, int number, enum pd_dtype dtype,
                           int64_t n, const int64_t *rows, const void *data, size_t row, int is_slice)
{
    return pd_comm_has(r->step) ? pd_comm_push_rows(r->step, number, dtype, n, rows, data, row, is_slice)
                                : pd_client_push_rows(client, number, n, rows, data, row, is_slice);
}

static pd_status exchange(const struct pd_run *r, struct pd_client *client, struct pd_ask *ask, int n,
                          const char *const *endpoints)
{
    if (pd_comm_has(r->step)) return pd_comm_exchange(client, r, ask, n, endpoints);
    PD_TRY(pd_client_exchange(client, r, ask, n, endpoints));
    pd_comm_began();
    return PD_OK;
}

/* One op of a trainer's Program tells what the job trains. */
static pd_status say_job(const struct pd_run *r, struct pd_client *client)
{
    const struct pd_attr *job = pd_ps_attr(r, "job");
    return job->n > 1 ? pd_client_trains(client, job->strings[0], job->n - 1, job->strings + 1) : PD_OK;
}

pd_status pd_ps_client_of(const struct pd_run *r, int pushes, struct pd_client **out)
{
    struct pd_ps_state *state = r->state;
    int is_new;
    PD_TRY(pd_ps_client(r, pushes, &state->client, &is_new, out));
    if (!is_new) return PD_OK;
    state->n = 0; /* names are looked up again */
    return say_job(r, *out);
}

const struct pd_meta *pd_ps_declared(const struct pd_run *r, int is_output, int slot, int i)
{
    const struct pd_frame_op *op = r->frame;
    const struct pd_plan *plan = op->frame->plan;
    const struct pd_plan_slot *s = is_output ? &op->plan->out[slot] : &op->plan->in[slot];
    int number = i < s->n ? plan->args.at[s->first + i] : -1;
    const struct pd_var *var = number < 0 ? NULL : plan->vars.at[number].desc;
    return var ? &var->meta : NULL;
}

static const char *endpoint_of(const struct pd_attr *epmap, int i)
{
    return epmap && epmap->n ? epmap->strings[i < epmap->n ? i : epmap->n - 1] : NULL;
}

/* A process is one trainer until it says goodbye. */
pd_status pd_ps_check_id(const struct pd_run *r, const struct pd_client *client)
{
    const struct pd_attr *id = pd_ps_attr(r, "trainer_id");
    int mine = pd_client_id(client);
    if (!id || id->i < 0 || mine < 0 || id->i == mine) return PD_OK;
    return pd_fail(
        PD_INVALID,
        "this Program is that of trainer %d, and this process has begun to train as trainer %d: give each a "
        "process of its own, or call close() of the executor between them",
        (int)id->i, mine);
}

static pd_status make_numbers(const struct pd_run *r, int n)
{
    struct pd_ps_state *state = r->state;
    pd_free(state->numbers); /* of a try that failed */
    state->numbers = pd_calloc((size_t)n, sizeof *state->numbers);
    return state->numbers ? PD_OK : pd_no_memory();
}

/* ---- send ---- */

enum { NAME_ROOM = 512 }; /* of a name in OPEN */

/* What the servers call what is sent: the gradient that it becomes a part of. Where the Program does not say,
 * they call it as the trainer does. */
static const struct pd_attr *names_of(const struct pd_run *r, int n)
{
    const struct pd_attr *names = pd_ps_attr(r, PD_AT_SERVERS_ATTR);
    return names->n == n ? names : pd_ps_attr(r, "send_varnames");
}

pd_status pd_ps_push_name(struct pd_client *client, const struct pd_run *r, const char *endpoint,
                          const char *name, const struct pd_meta *meta, int *number)
{
    if (strlen(name) >= NAME_ROOM) return pd_fail(PD_RANGE, "the name '%.60s...' is too long to send", name);
    return pd_client_name(client, r, endpoint, 0, name, meta, number);
}

static pd_status push_whole(const struct pd_run *r, struct pd_client *client, int number,
                            const struct pd_value *v, int is_slice)
{
    const struct pd_tensor *t = &v->tensor;
    size_t row = pd_meta_row_bytes(&t->meta);
    return pd_value_is_rows(v)
               ? push_rows(r, client, number, t->meta.dtype, v->rows.n, v->rows.at, t->data, row, is_slice)
               : push_dense(r, client, number, t->meta.dtype, t->data, pd_tensor_bytes(t), row);
}

static pd_status send_names(const struct pd_run *r, struct pd_client *client)
{
    struct pd_ps_state *state = r->state;
    int n = r->in[0].n;
    const struct pd_attr *epmap = pd_ps_attr(r, "epmap"), *names = names_of(r, n);
    PD_TRY(pd_ps_check_id(r, client));
    PD_TRY(make_numbers(r, n));
    PD_TRY(pd_client_expect(client, 0, epmap->n, epmap->strings));
    for (int i = 0; i < n; i++) {
        const char *endpoint = endpoint_of(epmap, i),
                   *name = names->n == n ? names->strings[i] : r->step->name(r, 0, 0, i);
        if (!endpoint) return pd_fail(PD_INVALID, "send has no epmap: which server gets '%s'?", name);
        const struct pd_meta *meta = pd_ps_declared(r, 0, 0, i);
        struct pd_meta claim = meta ? *meta : (struct pd_meta){0};
        claim.kind = r->in[0].at[i]->tensor.meta.kind;
        if (pd_meta_numel(&claim) < 0 && claim.kind == PD_KIND_TENSOR) claim = r->in[0].at[i]->tensor.meta;
        PD_TRY(pd_ps_push_name(client, r, endpoint, name, &claim, &state->numbers[i]));
    }
    state->n = n;
    return PD_OK;
}

/* ---- a gradient cut by rows ---- */

/* Rows [first, first + n) of one X under a name of their own. */
struct cut {
    int n;
    const char *const *names;
    const struct pd_attr *epmap, *sections; /* ints or longs */
};

static int64_t section(const struct cut *cut, int i)
{
    return cut->sections->type == PD_ATTR_INTS ? cut->sections->ints[i] : cut->sections->longs[i];
}

static pd_status cut_names(const struct pd_run *r, struct pd_client *client, const struct cut *cut)
{
    struct pd_ps_state *state = r->state;
    PD_TRY(pd_ps_check_id(r, client));
    PD_TRY(make_numbers(r, cut->n));
    PD_TRY(pd_client_expect(client, 0, cut->epmap->n, cut->epmap->strings));
    for (int i = 0; i < cut->n; i++) {
        struct pd_meta claim = r->in[0].at[0]->tensor.meta;
        const char *endpoint = endpoint_of(cut->epmap, i);
        if (!endpoint)
            return pd_fail(PD_INVALID, "%s has no epmap: which server gets '%s'?", r->op->type,
                           cut->names[i]);
        claim.dim[0] = section(cut, i);
        PD_TRY(pd_ps_push_name(client, r, endpoint, cut->names[i], &claim, &state->numbers[i]));
    }
    state->n = cut->n;
    return PD_OK;
}

/* Without copying it. */
static pd_status push_cut_dense(const struct pd_run *r, struct pd_client *client, const struct cut *cut)
{
    const struct pd_ps_state *state = r->state;
    const struct pd_tensor *x = pd_run_in(r, 0);
    size_t row = pd_meta_row_bytes(&x->meta), at = 0;
    for (int i = 0; i < cut->n; i++) {
        size_t bytes = (size_t)section(cut, i) * row;
        if (at + bytes > pd_tensor_bytes(x))
            return pd_fail(PD_SHAPE, "the sections have more rows than X %s", pd_meta_dims_text(&x->meta));
        PD_TRY(
            push_dense(r, client, state->numbers[i], x->meta.dtype, (const char *)x->data + at, bytes, row));
        at += bytes;
    }
    return PD_OK;
}

/* The rows of each slice together, numbered from its first one. They stay until the exchange is over. */
static pd_status push_cut_rows(const struct pd_run *r, struct pd_client *client, const struct cut *cut)
{
    struct pd_ps_state *state = r->state;
    const struct pd_value *x = r->in[0].at[0];
    size_t row = pd_meta_row_bytes(&x->tensor.meta), n = (size_t)x->rows.n,
           size = n * (sizeof(int64_t) + row);
    if (!pd_room_aligned(&state->rows, &state->rows_size, size)) return pd_no_memory();
    int64_t *numbers = state->rows, first = 0;
    char *data = (char *)state->rows + n * sizeof(int64_t);
    size_t used = 0;
    for (int i = 0; i < cut->n; i++) {
        int64_t end = first + section(cut, i);
        size_t from = used;
        for (size_t k = 0; k < n; k++) {
            if (x->rows.at[k] < first || x->rows.at[k] >= end) continue;
            numbers[used] = x->rows.at[k] - first;
            memcpy(data + used++ * row, (const char *)x->tensor.data + k * row, row);
        }
        PD_TRY(push_rows(r, client, state->numbers[i], x->tensor.meta.dtype, (int64_t)(used - from),
                         numbers + from, data + from * row, row, n > 0));
        first = end;
    }
    if (used == n) return PD_OK;
    return pd_fail(PD_RANGE, "%s cuts X at %lld rows, but %zu of its rows lie outside", r->op->type,
                   (long long)first, n - used);
}

static pd_status push_cut(const struct pd_run *r, struct pd_client *client, const struct cut *cut)
{
    if (cut->sections->n != cut->n)
        return pd_fail(PD_INVALID, "%s has %d sections for %d names; there must be one for each", r->op->type,
                       cut->sections->n, cut->n);
    if (!((struct pd_ps_state *)r->state)->n) PD_TRY(cut_names(r, client, cut));
    return pd_value_is_rows(r->in[0].at[0]) ? push_cut_rows(r, client, cut) : push_cut_dense(r, client, cut);
}

pd_status pd_ps_send_run(const struct pd_run *r)
{
    struct pd_ps_state *state = r->state;
    const struct pd_attr *names = pd_ps_attr(r, "send_varnames");
    struct pd_client *client;
    PD_TRY(pd_ps_client_of(r, 1, &client));
    if (r->in[0].n == 1 && names->n > 1)
        return push_cut(r, client,
                        &(struct cut){names->n, names_of(r, names->n)->strings, pd_ps_attr(r, "epmap"),
                                      pd_ps_attr(r, "sections")});
    if (!state->n) PD_TRY(send_names(r, client));
    int has_rows = 0; /* several X are slices of one gradient */
    for (int i = 0; i < r->in[0].n; i++)
        has_rows |= pd_value_is_rows(r->in[0].at[i]) && r->in[0].at[i]->rows.n;
    for (int i = 0; i < r->in[0].n; i++)
        PD_TRY(push_whole(r, client, state->numbers[i], r->in[0].at[i], has_rows));
    return PD_OK;
}

pd_status pd_ps_send_slices_run(const struct pd_run *r)
{
    const struct pd_attr *names = pd_ps_attr(r, "names");
    struct pd_client *client;
    PD_TRY(pd_ps_client_of(r, 1, &client));
    return push_cut(
        r, client,
        &(struct cut){names->n, names->strings, pd_ps_attr(r, "epmap"), pd_ps_attr(r, "sections")});
}

/* ---- recv ---- */

/* Gives the output the size that the Program declares, unless it has memory of that size. */
static pd_status size_output(const struct pd_run *r, int i)
{
    struct pd_tensor *t = &r->out[0].at[i]->tensor;
    const struct pd_meta *want = pd_ps_declared(r, 1, 0, i);
    if (!want || pd_meta_numel(want) < 0) {
        if (t->data) return PD_OK;
        return pd_fail(PD_SHAPE, "'%s' has no declared shape to receive into", r->step->name(r, 1, 0, i));
    }
    if (t->data && t->meta.dtype == want->dtype && pd_meta_same_dims(&t->meta, want)) return PD_OK;
    return pd_tensor_resize(t, want->dtype, want->rank, want->dim);
}

static pd_status recv_names(const struct pd_run *r, struct pd_client *client, const struct pd_attr *names,
                            int n)
{
    struct pd_ps_state *state = r->state;
    const struct pd_attr *epmap = pd_ps_attr(r, "epmap");
    PD_TRY(make_numbers(r, n));
    PD_TRY(pd_client_expect(client, pd_ps_attr(r, "trainers")->i, epmap->n, epmap->strings));
    for (int i = 0; i < n; i++) {
        const char *endpoint = endpoint_of(epmap, i),
                   *name = names && names->n == n ? names->strings[i] : r->step->name(r, 1, 0, i);
        if (!endpoint)
            return pd_fail(PD_INVALID, "%s has no epmap: which server holds '%s'?", r->op->type, name);
        PD_TRY(pd_client_name(client, r, endpoint, 1, name, NULL, &state->numbers[i]));
    }
    state->n = n;
    return PD_OK;
}

/* One Out from several names: slices of equal height, the last one of what is left. */
static pd_status pull_slices(const struct pd_run *r, struct pd_client *client, const struct pd_attr *names,
                             struct pd_ask *ask)
{
    struct pd_ps_state *state = r->state;
    if (!state->n) PD_TRY(recv_names(r, client, names, names->n));
    PD_TRY(size_output(r, 0));
    struct pd_tensor *t = &r->out[0].at[0]->tensor;
    int64_t rows = t->meta.rank ? t->meta.dim[0] : 1, each = (rows + names->n - 1) / names->n, first = 0;
    for (int i = 0; i < names->n; i++, first += each) {
        int64_t n = rows - first < each ? rows - first : each;
        if (n < 1)
            return pd_fail(PD_SHAPE, "'%s' has %lld rows; they do not suffice for %d slices",
                           r->step->name(r, 1, 0, 0), (long long)rows, names->n);
        PD_TRY(pd_ask_value(client, ask, state->numbers[i],
                            (char *)t->data + (size_t)first * pd_meta_row_bytes(&t->meta),
                            (size_t)n * pd_meta_row_bytes(&t->meta)));
    }
    return PD_OK;
}

pd_status pd_ps_recv_run(const struct pd_run *r)
{
    struct pd_ps_state *state = r->state;
    const struct pd_attr *names = pd_ps_attr(r, "recv_varnames");
    struct pd_client *client;
    PD_ASK(ask);
    if (!pd_comm_has(r->step)) PD_TRY(pd_comm_flush_for(r));
    PD_TRY(pd_ps_client_of(r, 0, &client));
    if (r->out[0].n == 1 && names->n > 1) {
        PD_TRY(pull_slices(r, client, names, &ask));
        return pd_ps_done(r, client, exchange(r, client, &ask, 0, NULL));
    }
    if (!state->n) {
        if (names->n != r->out[0].n) names = pd_ps_attr(r, "varnames");
        PD_TRY(recv_names(r, client, names, r->out[0].n));
    }
    for (int i = 0; i < r->out[0].n; i++) {
        PD_TRY(size_output(r, i));
        struct pd_tensor *t = &r->out[0].at[i]->tensor;
        PD_TRY(pd_ask_value(client, &ask, state->numbers[i], t->data, pd_tensor_bytes(t)));
    }
    return pd_ps_done(r, client, exchange(r, client, &ask, 0, NULL));
}

/* ---- barriers ---- */

pd_status pd_ps_send_barrier_run(const struct pd_run *r)
{
    struct pd_client *client;
    const struct pd_attr *endpoints = pd_ps_attr(r, "endpoints");
    PD_ASK(ask);
    PD_TRY(pd_ps_client(r, 1, NULL, NULL, &client));
    return pd_ps_done(r, client, exchange(r, client, &ask, endpoints->n, endpoints->strings));
}

/* recv waits by itself. Servers that hold nothing, or only rows, learn here that this trainer is in the job.
 */
pd_status pd_ps_fetch_barrier_run(const struct pd_run *r)
{
    struct pd_client *client;
    const struct pd_attr *endpoints = pd_ps_attr(r, "endpoints");
    PD_TRY(pd_ps_client(r, 0, NULL, NULL, &client));
    PD_TRY(say_job(r, client));
    return pd_ps_done(r, client, pd_client_reach(client, r, endpoints->n, endpoints->strings));
}

/* ---- all of it in one exchange ---- */

/* Each name fills the next bytes of the output that `into` gives for it. */
pd_status pd_ps_exchange_run(const struct pd_run *r)
{
    struct pd_ps_state *state = r->state;
    const struct pd_attr *endpoints = pd_ps_attr(r, "endpoints"), *names = pd_ps_attr(r, "names"),
                         *into = pd_ps_attr(r, "into"), *sizes = pd_ps_attr(r, "rows");
    /* A startup Program only asks for values: what a communicator has queued goes first. */
    int asks_only = !endpoints->n && pd_comm_is_beside(r->step);
    struct pd_client *client;
    PD_ASK(ask);
    if (asks_only) PD_TRY(pd_comm_flush_for(r));
    PD_TRY(pd_ps_client_of(r, !asks_only, &client));
    if (!state->n) {
        const struct pd_attr *all = pd_ps_attr(r, "all");
        PD_TRY(pd_client_expect(client, pd_ps_attr(r, "trainers")->i, all->n, all->strings));
        PD_TRY(recv_names(r, client, names, names->n));
        PD_TRY(pd_client_reach(client, r, all->n, all->strings));
    }
    int previous = -1;
    size_t at = 0;
    for (int i = 0; i < names->n; i++) {
        int out = into->ints[i];
        struct pd_tensor *t = &r->out[0].at[out]->tensor;
        if (out != previous) {
            PD_TRY(size_output(r, out));
            at = 0;
        }
        previous = out;
        size_t whole = pd_tensor_bytes(t),
               row = t->meta.rank ? whole / (size_t)(t->meta.dim[0] ? t->meta.dim[0] : 1) : whole;
        size_t bytes = sizes->longs[i] < 0 ? whole : (size_t)sizes->longs[i] * row;
        if (at + bytes > whole)
            return pd_fail(PD_SHAPE, "the slices of '%s' are larger than it is", r->step->name(r, 1, 0, out));
        PD_TRY(pd_ask_value(client, &ask, state->numbers[i], (char *)t->data + at, bytes));
        at += bytes;
    }
    return pd_ps_done(r, client, exchange(r, client, &ask, endpoints->n, endpoints->strings));
}
