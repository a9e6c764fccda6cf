/* The trainer's ops at work: send, recv, the barriers, and ps_exchange, which a plan puts in the place of
 * everything from send_barrier to the last recv. */
#include <string.h>

#include "exec/frame.h"
#include "pserver/client.h"
#include "pserver/op_run.h"

void pd_ps_state_free(void *state)
{
    pd_free(((struct pd_ps_state *)state)->numbers);
}

static const struct pd_attr *attr_of(const struct pd_run *r, const char *name)
{
    int i = pd_attr_index(r->op->attrs, name);
    return i < 0 ? NULL : &r->attr[i];
}

static pd_status client_of(const struct pd_run *r, struct pd_client **out)
{
    return pd_client_get(attr_of(r, "trainer_id")->i, out);
}

/* What the Program declares of an argument; NULL: nothing. */
static const struct pd_meta *declared(const struct pd_run *r, int is_output, int slot, int i)
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

static pd_status make_numbers(const struct pd_run *r, int n)
{
    struct pd_ps_state *state = r->state;
    state->numbers = pd_calloc((size_t)n, sizeof *state->numbers);
    return state->numbers ? PD_OK : pd_no_memory();
}

/* ---- send ---- */

/* A trainer's gradient goes by the name of the average that it becomes a part of: without ".trainer_1" at its
 * end. */
static pd_status push_name(struct pd_client *client, const struct pd_run *r, const char *endpoint,
                           const char *name, const struct pd_meta *meta, int *number)
{
    const char *suffix = strstr(name, ".trainer_");
    char plain[512];
    size_t n = suffix && strspn(suffix + 9, "0123456789") == strlen(suffix + 9) ? (size_t)(suffix - name)
                                                                                : strlen(name);
    if (n >= sizeof plain) return pd_fail(PD_RANGE, "the name '%.60s...' is too long to send", name);
    memcpy(plain, name, n);
    plain[n] = 0;
    return pd_client_name(client, r, endpoint, 0, plain, meta, number);
}

static pd_status send_names(const struct pd_run *r, struct pd_client *client)
{
    struct pd_ps_state *state = r->state;
    const struct pd_attr *epmap = attr_of(r, "epmap"), *names = attr_of(r, "send_varnames");
    int n = r->in[0].n;
    PD_TRY(make_numbers(r, n));
    for (int i = 0; i < n; i++) {
        const char *endpoint = endpoint_of(epmap, i),
                   *name = names->n == n ? names->strings[i] : r->step->name(r, 0, 0, i);
        if (!endpoint) return pd_fail(PD_INVALID, "send has no epmap: which server gets '%s'?", name);
        const struct pd_meta *meta = declared(r, 0, 0, i);
        struct pd_meta claim = meta ? *meta : (struct pd_meta){0};
        claim.kind = r->in[0].at[i]->tensor.meta.kind;
        if (pd_meta_numel(&claim) < 0 && claim.kind == PD_KIND_TENSOR) claim = r->in[0].at[i]->tensor.meta;
        PD_TRY(push_name(client, r, endpoint, name, &claim, &state->numbers[i]));
    }
    state->n = n;
    return PD_OK;
}

pd_status pd_ps_send_run(const struct pd_run *r)
{
    struct pd_ps_state *state = r->state;
    struct pd_client *client;
    PD_TRY(client_of(r, &client));
    if (!state->numbers) PD_TRY(send_names(r, client));
    for (int i = 0; i < r->in[0].n; i++) {
        const struct pd_value *v = r->in[0].at[i];
        const struct pd_meta *m = &v->tensor.meta;
        size_t row = (size_t)(m->rank > 1 ? pd_meta_span(m, 1, m->rank) : 1) * pd_dtype_size(m->dtype);
        if (pd_value_is_rows(v))
            PD_TRY(
                pd_client_push_rows(client, state->numbers[i], v->rows.n, v->rows.at, v->tensor.data, row));
        else
            PD_TRY(pd_client_push_dense(client, state->numbers[i], v->tensor.data,
                                        pd_tensor_bytes(&v->tensor), row));
    }
    return PD_OK;
}

/* One gradient cut by rows, without copying it. */
pd_status pd_ps_send_slices_run(const struct pd_run *r)
{
    struct pd_ps_state *state = r->state;
    const struct pd_attr *epmap = attr_of(r, "epmap"), *names = attr_of(r, "names"),
                         *sections = attr_of(r, "sections");
    const struct pd_tensor *x = pd_run_in(r, 0);
    struct pd_client *client;
    PD_TRY(client_of(r, &client));
    size_t row = (size_t)(x->meta.rank > 1 ? pd_meta_span(&x->meta, 1, x->meta.rank) : 1) *
                 pd_dtype_size(x->meta.dtype),
           at = 0;
    if (!state->numbers) {
        PD_TRY(make_numbers(r, names->n));
        for (int i = 0; i < names->n; i++) {
            struct pd_meta claim = x->meta;
            claim.dim[0] = sections->ints[i];
            PD_TRY(push_name(client, r, epmap->strings[i], names->strings[i], &claim, &state->numbers[i]));
        }
    }
    for (int i = 0; i < names->n; i++) {
        size_t bytes = (size_t)sections->ints[i] * row;
        if (at + bytes > pd_tensor_bytes(x))
            return pd_fail(PD_SHAPE, "the sections have more rows than X %s", pd_meta_dims_text(&x->meta));
        PD_TRY(pd_client_push_dense(client, state->numbers[i], (const char *)x->data + at, bytes, row));
        at += bytes;
    }
    return PD_OK;
}

/* ---- recv ---- */

/* Gives the output the size that the Program declares, unless it has memory of that size. */
static pd_status size_output(const struct pd_run *r, int i)
{
    struct pd_tensor *t = &r->out[0].at[i]->tensor;
    const struct pd_meta *want = declared(r, 1, 0, i);
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
    const struct pd_attr *epmap = attr_of(r, "epmap");
    PD_TRY(make_numbers(r, n));
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

pd_status pd_ps_recv_run(const struct pd_run *r)
{
    struct pd_ps_state *state = r->state;
    struct pd_client *client;
    PD_TRY(client_of(r, &client));
    if (!state->numbers) {
        const struct pd_attr *names = attr_of(r, "recv_varnames");
        if (names->n != r->out[0].n) names = attr_of(r, "varnames");
        PD_TRY(recv_names(r, client, names, r->out[0].n));
    }
    for (int i = 0; i < r->out[0].n; i++) {
        PD_TRY(size_output(r, i));
        struct pd_tensor *t = &r->out[0].at[i]->tensor;
        PD_TRY(pd_client_pull(client, state->numbers[i], t->data, pd_tensor_bytes(t)));
    }
    return pd_client_exchange(client, r, 0, NULL);
}

/* ---- barriers ---- */

pd_status pd_ps_send_barrier_run(const struct pd_run *r)
{
    struct pd_client *client;
    const struct pd_attr *endpoints = attr_of(r, "endpoints");
    PD_TRY(client_of(r, &client));
    return pd_client_exchange(client, r, endpoints->n, endpoints->strings);
}

/* recv waits by itself. */
pd_status pd_ps_fetch_barrier_run(const struct pd_run *r)
{
    (void)r;
    return PD_OK;
}

/* ---- all of it in one exchange ---- */

/* Each name fills the next bytes of the output that `into` gives for it. */
pd_status pd_ps_exchange_run(const struct pd_run *r)
{
    struct pd_ps_state *state = r->state;
    const struct pd_attr *endpoints = attr_of(r, "endpoints"), *names = attr_of(r, "names"),
                         *into = attr_of(r, "into"), *sizes = attr_of(r, "rows");
    struct pd_client *client;
    PD_TRY(client_of(r, &client));
    if (!state->numbers) PD_TRY(recv_names(r, client, names, names->n));
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
        PD_TRY(pd_client_pull(client, state->numbers[i], (char *)t->data + at, bytes));
        at += bytes;
    }
    return pd_client_exchange(client, r, endpoints->n, endpoints->strings);
}
