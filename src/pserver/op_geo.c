/* geo_sgd: a trainer that updates its parameters by itself tells servers what has changed, every so many
 * batches, and hears what others have (client/geo.h). It stands twice in a trainer: with `begins` behind what
 * brings the parameters in the startup Program, and behind the last update of the main Program. */
#include <string.h>

#include "pserver/client/client.h"
#include "pserver/client/geo.h"
#include "pserver/op_run.h"

enum { PARAM, IDS };

struct geo_state {
    struct pd_ps_state names; /* first: pd_ps_client_of */
    struct pd_geo_slice *slices;
    int n;
};

static void geo_free(void *state)
{
    struct geo_state *s = state;
    pd_ps_state_free(&s->names);
    pd_free(s->slices);
}

/* A slice is known at its server by two names: that of what is told, and its own. */
static pd_status find_slice(const struct pd_run *r, struct pd_client *client, int i, int64_t first,
                            struct pd_geo_slice *out)
{
    const char *endpoint = pd_ps_attr(r, "epmap")->strings[i];
    int param = pd_ps_attr(r, "into")->ints[i];
    const struct pd_tensor *t = pd_run_in_at(r, PARAM, param);
    struct pd_meta claim = t->meta;
    claim.lod = NULL;
    *out = (struct pd_geo_slice){.param = param, .first = first, .n = pd_ps_attr(r, "rows")->longs[i]};
    if (out->n >= 0) claim.dim[0] = out->n;
    if (pd_ps_attr(r, "is_sparse")->ints[param]) claim.kind = PD_KIND_SELECTED_ROWS;
    PD_TRY(pd_ps_push_name(client, r, endpoint, pd_ps_attr(r, "deltas")->strings[i], &claim, &out->push));
    return pd_client_name(client, r, endpoint, 1, pd_ps_attr(r, "slices")->strings[i], NULL, &out->pull);
}

static pd_status find_slices(const struct pd_run *r, struct pd_client *client)
{
    struct geo_state *s = r->state;
    const struct pd_attr *into = pd_ps_attr(r, "into"), *epmap = pd_ps_attr(r, "epmap");
    int n = into->n, previous = -1;
    int64_t first = 0;
    PD_TRY(pd_ps_check_id(r, client));
    PD_TRY(pd_client_expect(client, pd_ps_attr(r, "trainers")->i, epmap->n, epmap->strings));
    pd_free(s->slices); /* of a try that failed */
    s->slices = pd_calloc((size_t)n, sizeof *s->slices);
    if (!s->slices) return pd_no_memory();
    for (int i = 0; i < n; i++) {
        if (into->ints[i] != previous) first = 0;
        previous = into->ints[i];
        PD_TRY(find_slice(r, client, i, first, &s->slices[i]));
        first += s->slices[i].n;
    }
    PD_TRY(pd_client_reach(client, r, epmap->n, epmap->strings));
    s->n = n;
    s->names.n = n; /* pd_ps_client_of makes it 0 with another client */
    return PD_OK;
}

static pd_status geo_run(const struct pd_run *r)
{
    struct geo_state *s = r->state;
    struct pd_client *client;
    struct pd_value *const *params = r->in[PARAM].at;
    int n = r->in[PARAM].n;
    if (pd_ps_attr(r, "begins")->b) return pd_geo_begin(r, n, params, pd_ps_attr(r, "is_sparse")->ints);
    PD_TRY(pd_ps_client_of(r, 0, &client));
    if (!s->names.n) PD_TRY(find_slices(r, client));
    struct pd_geo_step step = {.n_slices = s->n,
                               .slices = s->slices,
                               .client = s->names.client,
                               .trainers = pd_ps_attr(r, "trainers")->i,
                               .every = pd_ps_attr(r, "every")->i,
                               .n_ids = r->in[IDS].n,
                               .ids = r->in[IDS].at,
                               .ids_of = pd_ps_attr(r, "ids_of")->ints};
    return pd_ps_done(r, client, pd_geo_batch(r, n, params, &step));
}

static pd_status check_slices(const struct pd_infer *c, const struct pd_attr *into,
                              const struct pd_attr *rows, const struct pd_attr *is_sparse)
{
    int64_t left = 0;
    for (int i = 0; i < into->n; i++) {
        int param = into->ints[i], is_new = i == 0 || param != into->ints[i - 1];
        if (param < 0 || param >= c->in[PARAM].n || (i && param < into->ints[i - 1]))
            return pd_fail(PD_RANGE,
                           "into[%d] is %d; it names the Param of a slice, of which there are %d, in "
                           "their order",
                           i, param, c->in[PARAM].n);
        const struct pd_meta *m = c->in[PARAM].at[param];
        if (is_sparse->ints[param] && m->rank != 2)
            return pd_fail(PD_SHAPE, "the sparse Param %d must have 2 dimensions, found %s", param,
                           pd_meta_dims_text(m));
        if (is_new) left = m->rank ? m->dim[0] : 1;
        left -= rows->longs[i] < 0 ? left : rows->longs[i];
        if (left < 0 || ((i + 1 == into->n || into->ints[i + 1] != param) && left))
            return pd_fail(PD_SHAPE, "the slices of Param %d do not add up to its rows %s", param,
                           pd_meta_dims_text(m));
    }
    return PD_OK;
}

enum {
    A_TRAINER,
    A_TRAINERS,
    A_EVERY,
    A_BEGINS,
    A_SPARSE,
    A_INTO,
    A_ROWS,
    A_DELTAS,
    A_SLICES,
    A_EPMAP,
    A_IDS_OF
};

static pd_status geo_infer(const struct pd_infer *c)
{
    int n = c->in[PARAM].n, slices = c->attr[A_INTO].n;
    for (int i = 0; i < c->out[0].n && i < n; i++)
        if (c->out[0].at[i]) pd_meta_like(c->out[0].at[i], c->in[PARAM].at[i]);
    if (c->attr[A_SPARSE].n != n)
        return pd_fail(PD_INVALID, "is_sparse has %d entries for %d Param; there must be one for each",
                       c->attr[A_SPARSE].n, n);
    if (c->attr[A_BEGINS].b) return PD_OK;
    if (c->attr[A_EVERY].i < 1 || c->attr[A_TRAINERS].i < 1)
        return pd_fail(PD_RANGE, "every is %d and trainers %d; both must be 1 or more", c->attr[A_EVERY].i,
                       c->attr[A_TRAINERS].i);
    if (!slices || c->attr[A_ROWS].n != slices || c->attr[A_DELTAS].n != slices ||
        c->attr[A_SLICES].n != slices || c->attr[A_EPMAP].n != slices)
        return pd_fail(
            PD_INVALID,
            "into has %d entries, rows %d, deltas %d, slices %d and epmap %d; there must be one of "
            "each for every slice",
            slices, c->attr[A_ROWS].n, c->attr[A_DELTAS].n, c->attr[A_SLICES].n, c->attr[A_EPMAP].n);
    if (c->attr[A_IDS_OF].n != c->in[IDS].n)
        return pd_fail(PD_INVALID, "there are %d Ids, and ids_of has %d entries", c->in[IDS].n,
                       c->attr[A_IDS_OF].n);
    for (int i = 0; i < c->in[IDS].n; i++) {
        int of = c->attr[A_IDS_OF].ints[i];
        enum pd_dtype dtype = c->in[IDS].at[i]->dtype;
        if (of < 0 || of >= n || !c->attr[A_SPARSE].ints[of])
            return pd_fail(PD_RANGE, "ids_of[%d] is %d, which is no sparse Param", i, of);
        if (dtype != PD_DTYPE_INT64 && dtype != PD_DTYPE_INT32)
            return pd_fail(PD_TYPE, "Ids %d must be int32 or int64, found %s", i, pd_dtype_name(dtype));
    }
    return check_slices(c, &c->attr[A_INTO], &c->attr[A_ROWS], &c->attr[A_SPARSE]);
}

const struct pd_op pd_op_geo_sgd = {
    .type = "geo_sgd",
    .doc = "Tells servers what a trainer has changed of its parameters, every so many batches, and adds what "
           "others have.",
    .inputs = (const struct pd_slot_def[]){{"Param", PD_SLOT_LIST | PD_SLOT_OWN_TYPE},
                                           {"Ids", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"ParamOut", PD_SLOT_LIST | PD_SLOT_OPTIONAL}, {0}},
    /* For each slice, those of a parameter together: the number of its Param (into), its rows (-1: all), what
       servers call its change (deltas) and itself (slices). ids_of: the Param whose rows each Ids are. */
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("trainer_id", 0),
                                          PD_DEF_INT("trainers", 1),
                                          PD_DEF_INT("every", 100),
                                          PD_DEF_BOOL("begins", 0),
                                          PD_DEF_INTS("is_sparse"),
                                          PD_DEF_INTS("into"),
                                          PD_DEF_LONGS("rows"),
                                          PD_DEF_STRINGS("deltas"),
                                          PD_DEF_STRINGS("slices"),
                                          PD_DEF_STRINGS("epmap"),
                                          PD_DEF_INTS("ids_of"),
                                          PD_DEF_STRINGS("job"),
                                          {0}},
    .flags = PD_OP_EFFECT | PD_OP_NO_GRAD | PD_OP_UPDATES,
    .infer = geo_infer,
    .run = geo_run,
    .state_size = sizeof(struct geo_state),
    .state_free = geo_free,
};
