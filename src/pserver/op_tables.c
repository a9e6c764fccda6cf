/* The ops that speak with servers: their slots, attributes and shapes. What they do when they run is in
 * op_run.h; only split_byref, which stays on this machine, runs from here.
 *
 * Attributes and defaults are those of Fluid 1.8.5. Names that only v0.12 to v1.3 had are accepted too, so
 * that such Programs can be read; they stand last in each table. */
#include <string.h>

#include "program/program.h"
#include "pserver/op_run.h"

#define EFFECT (PD_OP_EFFECT | PD_OP_NO_GRAD)
#define ANY (PD_SLOT_LIST | PD_SLOT_OPTIONAL)
#define DEFAULT_ENDPOINT "127.0.0.1:6164"
#define PD_DEF_ENDPOINTS(name_)                                                                              \
    {                                                                                                        \
        name_,                                                                                               \
        {                                                                                                    \
            .type = PD_ATTR_STRINGS, .n = 1, .strings = (const char *const[])                                \
            {                                                                                                \
                DEFAULT_ENDPOINT                                                                             \
            }                                                                                                \
        }                                                                                                    \
    }

static const struct pd_slot_def none[] = {{0}};
/* Variables that only say what must come before. */
static const struct pd_slot_def waits_for[] = {{"X", ANY | PD_SLOT_OWN_TYPE}, {0}};
static const struct pd_slot_def waited_for[] = {{"Out", ANY}, {0}};

/* An output that nobody declared is a mark for the order of ops and holds nothing. */
static pd_status infer_marks(const struct pd_infer *c)
{
    for (int i = 0; i < c->out[0].n; i++) {
        struct pd_meta *out = c->out[0].at[i];
        if (!out || out->rank || out->kind != PD_KIND_TENSOR) continue;
        if (out->dtype == PD_DTYPE_NONE) out->dtype = PD_DTYPE_FP32;
        pd_meta_set_1d(out, 0);
    }
    return PD_OK;
}

pd_status pd_ps_infer_nothing(const struct pd_infer *c)
{
    (void)c;
    return PD_OK;
}

/* ---- gradients out, parameters in ---- */

const struct pd_op pd_op_send = {
    .type = "send",
    .doc = "Sends each X to the server that epmap names for it; with sections, the rows of one X to several.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_LIST | PD_SLOT_KEEP | PD_SLOT_OWN_TYPE},
                                           {"RPCClient", PD_SLOT_OPTIONAL},
                                           {0}},
    .outputs = waited_for,
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("trainer_id", 0),
                                          PD_DEF_ENDPOINTS("epmap"),
                                          PD_DEF_LONGS("sections"),
                                          PD_DEF_STRINGS("send_varnames"),
                                          PD_DEF_STRINGS(PD_AT_SERVERS_ATTR),
                                          PD_DEF_INT("num", 0),
                                          PD_DEF_BOOL("merge_add", 0),
                                          PD_DEF_BOOL("use_send_handler", 1),
                                          PD_DEF_STRINGS("endpoints"),
                                          PD_DEF_BOOL("sync_mode", 1),
                                          PD_DEF_BOOL("sync_send", 0),
                                          PD_DEF_STRINGS("job"),
                                          PD_DEF_STRINGS(PD_KEPT_ATTR),
                                          {0}},
    .flags = EFFECT | PD_OP_SENDS,
    .infer = infer_marks,
    .run = pd_ps_send_run,
    .state_size = sizeof(struct pd_ps_state),
    .state_free = pd_ps_state_free,
};

const struct pd_op pd_op_recv = {
    .type = "recv",
    .doc = "Receives each Out from the server that epmap names for it.",
    .inputs = waits_for,
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_LIST}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_STRINGS("epmap"),
                                          PD_DEF_INT("trainer_id", 0),
                                          PD_DEF_INT("trainers", 0),
                                          PD_DEF_BOOL("with_barrier", 1),
                                          PD_DEF_STRINGS("varnames"),
                                          PD_DEF_STRINGS("recv_varnames"),
                                          PD_DEF_INT("do_not_run", 0),
                                          PD_DEF_BOOL("sync_mode", 1),
                                          PD_DEF_STRINGS("job"),
                                          {0}},
    .flags = EFFECT | PD_OP_DYNAMIC | PD_OP_RECEIVES,
    .infer = pd_ps_infer_nothing,
    .run = pd_ps_recv_run,
    .state_size = sizeof(struct pd_ps_state),
    .state_free = pd_ps_state_free,
};

const struct pd_op pd_op_send_barrier = {
    .type = "send_barrier",
    .doc = "Ends the gradients of a step: servers update when all trainers have come here.",
    .inputs = waits_for,
    .outputs = waited_for,
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("trainer_id", 0),
                                          PD_DEF_ENDPOINTS("endpoints"),
                                          PD_DEF_BOOL("half_async", 0),
                                          PD_DEF_BOOL("sync_mode", 1),
                                          {0}},
    .flags = EFFECT,
    .infer = infer_marks,
    .run = pd_ps_send_barrier_run,
};

const struct pd_op pd_op_fetch_barrier = {
    .type = "fetch_barrier",
    .doc = "Waits until all that was asked for has come.",
    .inputs = waits_for,
    .outputs = waited_for,
    .attrs =
        (const struct pd_attr_def[]){
            PD_DEF_INT("trainer_id", 0), PD_DEF_ENDPOINTS("endpoints"), PD_DEF_STRINGS("job"), {0}},
    .flags = EFFECT | PD_OP_UPDATES | PD_OP_RECEIVES, /* Out may name what has come */
    .infer = infer_marks,
    .run = pd_ps_fetch_barrier_run,
};

/* ---- the server ---- */

const struct pd_op pd_op_listen_and_serv = {
    .type = "listen_and_serv",
    .doc = "Serves parameters: takes the gradients X from trainers, runs their optimize blocks, hands values "
           "out.",
    .inputs = waits_for,
    .outputs = none,
    /* prepare_block_id: runs once a step, when all gradients have come, before the optimize blocks. A block
       number of -1: none. */
    .attrs = (const struct pd_attr_def[]){PD_DEF_STRING("endpoint", DEFAULT_ENDPOINT),
                                          PD_DEF_INT("pserver_id", -1),
                                          PD_DEF_STRINGS("grad_to_block_id"),
                                          PD_DEF_INT("distributed_mode", 0),
                                          PD_DEF_BOOL("dc_asgd", 0),
                                          PD_DEF_BLOCKS("optimize_blocks"),
                                          PD_DEF_STRINGS("prefetch_var_name_to_block_id"),
                                          PD_DEF_STRINGS("sparse_grad_to_param"),
                                          PD_DEF_INT("Fanin", 1),
                                          PD_DEF_INT("checkpint_block_id", -1),
                                          PD_DEF_INT("lr_decay_block_id", -1),
                                          PD_DEF_INT("prepare_block_id", -1),
                                          PD_DEF_STRINGS("slices"),
                                          PD_DEF_STRINGS("hashed_tables"),
                                          PD_DEF_STRING("placing", ""),
                                          PD_DEF_STRINGS("job"),
                                          PD_DEF_INT("rpc_get_thread_num", 1),
                                          PD_DEF_INT("rpc_send_thread_num", 1),
                                          PD_DEF_INT("rpc_prefetch_thread_num", 1),
                                          PD_DEF_STRINGS("endpoints"),
                                          PD_DEF_BOOL("sync_mode", 1),
                                          PD_DEF_BLOCK("OptimizeBlock"),
                                          PD_DEF_BLOCK("PrefetchBlock"),
                                          {0}},
    .flags = EFFECT | PD_OP_SERVES | PD_OP_ON_SERVER,
    .infer = pd_ps_infer_nothing,
    .run = pd_ps_listen_and_serv_run,
};

static pd_status sum_infer(const struct pd_infer *c)
{
    if (c->in[0].n != c->out[0].n || c->in[0].n != c->attr[2].n)
        return pd_fail(PD_INVALID,
                       "there are %d X, %d Out and %d groups; there must be one of each for every sum",
                       c->in[0].n, c->out[0].n, c->attr[2].n);
    for (int i = 0; i < c->out[0].n; i++)
        if (c->out[0].at[i] && c->in[0].at[i]) pd_meta_like(c->out[0].at[i], c->in[0].at[i]);
    return PD_OK;
}

const struct pd_op pd_op_ps_sum = {
    .type = "ps_sum",
    .doc = "Adds each X over the servers in endpoints; the first of them adds and hands the sums out.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_LIST | PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_LIST}, {0}},
    /* groups: a name for each X, the same on all servers. */
    .attrs =
        (const struct pd_attr_def[]){
            PD_DEF_STRINGS("endpoints"), PD_DEF_STRING("endpoint", ""), PD_DEF_STRINGS("groups"), {0}},
    .flags = EFFECT | PD_OP_ON_SERVER,
    .infer = sum_infer,
    .run = pd_ps_ps_sum_run,
};

/* ---- rows of tables ---- */

static pd_status prefetch_infer(const struct pd_infer *c)
{
    if (c->in[0].n != c->out[0].n)
        return pd_fail(PD_INVALID, "there are %d X and %d Out; each X has the rows of its ids in one Out",
                       c->in[0].n, c->out[0].n);
    return PD_OK;
}

const struct pd_op pd_op_prefetch = {
    .type = "prefetch",
    .doc = "Fetches the rows of a distributed table for each list of ids, from its server.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_LIST | PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_LIST}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("trainer_id", 0),
                                          PD_DEF_ENDPOINTS("epmap"),
                                          PD_DEF_STRING("table_name", ""),
                                          PD_DEF_LONG("padding_idx", -1),
                                          PD_DEF_BOOL("sync_mode", 1),
                                          {0}},
    .flags = EFFECT | PD_OP_DYNAMIC,
    .infer = prefetch_infer,
    .run = pd_ps_prefetch_run,
    .state_size = sizeof(struct pd_ps_lookup),
    .state_free = pd_ps_lookup_free,
};

enum { L_IDS, L_W };
enum { L_TABLES, L_HEIGHTS, L_ENDPOINTS, L_TRAINER, L_VERSION };

/* As lookup_table: the last dimension of the ids is 1 and becomes the width; as lookup_table_v2: the width is
 * added. */
static pd_status lookup_infer(const struct pd_infer *c)
{
    const struct pd_meta *w = pd_infer_in(c, L_W);
    int adds = strcmp(c->attr[L_VERSION].s, "lookup_table_v2") == 0;
    if (c->in[L_IDS].n != c->out[0].n)
        return pd_fail(PD_INVALID, "there are %d Ids and %d Outputs; each Ids has one", c->in[L_IDS].n,
                       c->out[0].n);
    if (w->rank != 2)
        return pd_fail(PD_SHAPE, "the table W must have 2 dimensions, found %s", pd_meta_dims_text(w));
    if (c->attr[L_TABLES].n != c->attr[L_ENDPOINTS].n || c->attr[L_TABLES].n != c->attr[L_HEIGHTS].n)
        return pd_fail(PD_INVALID,
                       "table_names has %d, height_sections %d and endpoints %d entries; there must be one "
                       "of each for every part of the table",
                       c->attr[L_TABLES].n, c->attr[L_HEIGHTS].n, c->attr[L_ENDPOINTS].n);
    for (int i = 0; i < c->out[0].n; i++) {
        const struct pd_meta *ids = c->in[L_IDS].at[i];
        struct pd_meta *out = c->out[0].at[i];
        if (!out) continue;
        if (ids->rank < 1 || (!adds && ids->dim[ids->rank - 1] != 1 && ids->dim[ids->rank - 1] != -1) ||
            ids->rank + adds > PD_MAX_RANK)
            return pd_fail(PD_SHAPE, "Ids %d has shape %s; %s", i, pd_meta_dims_text(ids),
                           adds ? "it needs 1 to 8 dimensions" : "its last dimension must be 1");
        out->dtype = w->dtype;
        pd_meta_copy_dims(out, ids);
        out->rank += adds;
        out->dim[out->rank - 1] = w->dim[1];
        pd_meta_share_lod(out, ids);
    }
    return PD_OK;
}

const struct pd_op pd_op_distributed_lookup_table = {
    .type = "distributed_lookup_table",
    .doc = "Rows of a table whose parts lie on servers, for several inputs of ids.",
    .inputs =
        (const struct pd_slot_def[]){{"Ids", PD_SLOT_LIST | PD_SLOT_OWN_TYPE}, {"W", PD_SLOT_META}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Outputs", PD_SLOT_LIST}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_STRINGS("table_names"),
                                          PD_DEF_LONGS("height_sections"),
                                          PD_DEF_STRINGS("endpoints"),
                                          PD_DEF_INT("trainer_id", 0),
                                          PD_DEF_STRING("lookup_table_version", "lookup_table"),
                                          PD_DEF_LONG("padding_idx", -1),
                                          PD_DEF_INT("dtype", PD_DTYPE_FP32),
                                          {0}},
    .flags = EFFECT | PD_OP_ASKS,
    .infer = lookup_infer,
    .run = pd_ps_distributed_lookup_table_run,
    .state_size = sizeof(struct pd_ps_lookup),
    .state_free = pd_ps_lookup_free,
};

/* ---- files ---- */

const struct pd_op pd_op_checkpoint_notify = {
    .type = "checkpoint_notify",
    .doc = "Asks servers to write their parts of a table below a folder on their own disks.",
    .inputs = none,
    .outputs = none,
    .attrs = (const struct pd_attr_def[]){PD_DEF_ENDPOINTS("epmap"),
                                          PD_DEF_STRING("dir", ""),
                                          PD_DEF_STRING("lookup_table", ""),
                                          PD_DEF_INT("trainer_id", 0),
                                          {0}},
    .flags = EFFECT,
    .infer = pd_ps_infer_nothing,
    .run = pd_ps_checkpoint_notify_run,
};

const struct pd_op pd_op_recv_save = {
    .type = "recv_save",
    .doc = "Receives the slices of a variable from servers and writes them to one file.",
    .inputs = none,
    .outputs = none,
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("dtype", PD_DTYPE_FP32),
                                          PD_DEF_BOOL("overwrite", 1),
                                          PD_DEF_STRING("file_path", ""),
                                          PD_DEF_LONGS("shape"),
                                          PD_DEF_STRINGS("slice_varnames"),
                                          PD_DEF_STRINGS("remote_varnames"),
                                          PD_DEF_STRINGS("slice_shapes"),
                                          PD_DEF_STRINGS("endpoints"),
                                          PD_DEF_INT("trainer_id", 0),
                                          {0}},
    .flags = EFFECT,
    .infer = pd_ps_infer_nothing,
    .run = pd_ps_recv_save_run,
};

/* The memory of a temporary goes when its last reader has run; a variable of the scope is the user's. */
static pd_status delete_nothing(const struct pd_run *r)
{
    (void)r;
    return PD_OK;
}

const struct pd_op pd_op_delete_var = {
    .type = "delete_var",
    .doc = "Says that X is no longer needed; the engine finds that out by itself.",
    .inputs = waits_for,
    .outputs = none,
    .flags = EFFECT,
    .infer = pd_ps_infer_nothing,
    .run = delete_nothing,
};

/* ---- split_byref ---- */

enum { SECTIONS, NUM };

/* Rows of output i. */
static pd_status rows_of(const struct pd_attr *attr, int64_t rows, int outputs, int i, int64_t *out)
{
    int64_t sum = 0;
    if (attr[NUM].i > 0) {
        if (attr[NUM].i != outputs || (rows >= 0 && rows % attr[NUM].i != 0))
            return pd_fail(PD_SHAPE, "num is %d, but there are %d outputs and %lld rows to share evenly",
                           attr[NUM].i, outputs, (long long)rows);
        *out = rows < 0 ? -1 : rows / attr[NUM].i;
        return PD_OK;
    }
    if (attr[SECTIONS].n != outputs)
        return pd_fail(PD_INVALID, "sections names %d parts, but there are %d outputs", attr[SECTIONS].n,
                       outputs);
    for (int k = 0; k < outputs; k++) {
        if (attr[SECTIONS].ints[k] < 0)
            return pd_fail(PD_INVALID, "sections[%d] is %d; a part has 0 rows or more", k,
                           attr[SECTIONS].ints[k]);
        sum += attr[SECTIONS].ints[k];
    }
    if (rows >= 0 && sum != rows)
        return pd_fail(PD_SHAPE, "the sections add up to %lld rows, but X has %lld", (long long)sum,
                       (long long)rows);
    *out = attr[SECTIONS].ints[i];
    return PD_OK;
}

static pd_status split_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, 0);
    if (x->rank < 1) return pd_fail(PD_SHAPE, "X has no rows to share");
    for (int i = 0; i < c->out[0].n; i++) {
        struct pd_meta *out = c->out[0].at[i];
        if (!out) continue;
        out->dtype = x->dtype;
        pd_meta_copy_dims(out, x);
        PD_TRY(rows_of(c->attr, x->dim[0], c->out[0].n, i, &out->dim[0]));
        pd_meta_take_lod(out, NULL);
    }
    return PD_OK;
}

static pd_status split_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, 0);
    size_t row = pd_meta_row_bytes(&x->meta), at = 0;
    for (int i = 0; i < r->out[0].n; i++) {
        struct pd_tensor *out = pd_run_out_at(r, 0, i);
        int64_t rows;
        PD_TRY(rows_of(r->attr, x->meta.dim[0], r->out[0].n, i, &rows));
        if (out && rows) memcpy(out->data, (const char *)x->data + at, (size_t)rows * row);
        at += (size_t)rows * row;
    }
    return PD_OK;
}

const struct pd_op pd_op_split_byref = {
    .type = "split_byref",
    .doc = "Cuts the rows of X into parts of the sizes in sections.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_LIST}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INTS("sections"), PD_DEF_INT("num", 0), {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = split_infer,
    .run = split_run,
};
