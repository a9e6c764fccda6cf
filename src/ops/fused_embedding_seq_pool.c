/* fused_embedding_seq_pool: the rows of a table that the ids of a sequence name, added up. Ids of k columns
 * are k ids a place: each column is added up by itself, and the sums stand side by side. */
#include <string.h>

#include "base/parallel.h"
#include "kernels/rows.h"
#include "ops/check.h"
#include "ops/lookup_table.h"
#include "ops/rows.h"
#include "ops/scratch.h"
#include "ops/seq.h"

enum { W, IDS };
enum { OUT };
enum { COMBINER, PADDING, IS_SPARSE };

static int64_t columns_of(const struct pd_meta *ids)
{
    return ids->rank > 1 ? ids->dim[1] : 1;
}

static pd_status check_combiner(const struct pd_attr *attr)
{
    if (strcmp(attr->s, "sum") == 0) return PD_OK;
    return pd_fail(
        PD_UNSUPPORTED,
        "combiner is '%s', and only sum is there; for others put sequence_pool behind an embedding", attr->s);
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *w = pd_infer_in(c, W), *ids = pd_infer_in(c, IDS);
    struct pd_meta *out = pd_infer_out(c, OUT);
    PD_TRY(check_combiner(&c->attr[COMBINER]));
    PD_TRY(pd_check_float(w, "W"));
    PD_TRY(pd_check_index(ids, "Ids"));
    if (w->rank != 2)
        return pd_fail(PD_SHAPE, "the table W must have 2 dimensions [rows, width], found %s",
                       pd_meta_dims_text(w));
    if (ids->rank < 1 || ids->rank > 2)
        return pd_fail(PD_SHAPE, "Ids must have 1 or 2 dimensions [places, ids a place], found %s",
                       pd_meta_dims_text(ids));
    int64_t places = c->running ? ids->dim[0] : -1, columns = columns_of(ids);
    if (c->running && ids->lod) {
        const struct pd_lod_level *level;
        PD_TRY(pd_seq_level(c, IDS, &level));
        if (ids->lod->levels != 1)
            return pd_fail(PD_INVALID, "Ids have %d levels of sequences; 1 can be added up",
                           ids->lod->levels);
        places = level->n - 1;
    }
    out->dtype = w->dtype;
    return pd_meta_set_dims(out, 2,
                            (int64_t[]){places, columns < 0 || w->dim[1] < 0 ? -1 : columns * w->dim[1]});
}

/* Ids, and which rows of them are one sequence. */
struct job {
    const int64_t *ids, *offset; /* NULL: each place is a sequence */
    const void *from;
    void *to;
    int64_t columns, width, padding;
};

static pd_status open_job(const struct pd_run *r, const struct pd_tensor *ids, int64_t height, size_t extra,
                          struct job *j, void **memory)
{
    size_t room = pd_lookup_ids_room(ids);
    *memory = NULL;
    if (room || extra) PD_TRY(pd_scratch(r, extra + room, memory));
    j->columns = columns_of(&ids->meta);
    j->padding = r->attr[PADDING].l;
    j->offset = ids->meta.lod ? pd_seq_last(ids)->offset : NULL;
    return pd_lookup_ids(ids, height, j->padding, room ? (int64_t *)(void *)((char *)*memory + extra) : NULL,
                         &j->ids);
}

#define SUMS(T)                                                                                              \
    static void sums_##T(void *arg, int64_t begin, int64_t end)                                              \
    {                                                                                                        \
        const struct job *j = arg;                                                                           \
        const T *table = j->from;                                                                            \
        for (int64_t s = begin; s < end; s++)                                                                \
            for (int64_t c = 0; c < j->columns; c++) {                                                       \
                T *out = (T *)j->to + (s * j->columns + c) * j->width;                                       \
                int64_t at = j->offset ? j->offset[s] : s, stop = j->offset ? j->offset[s + 1] : s + 1;      \
                memset(out, 0, (size_t)j->width * sizeof *out);                                              \
                for (; at < stop; at++) {                                                                    \
                    int64_t id = j->ids[at * j->columns + c];                                                \
                    if (j->padding >= 0 && id == j->padding) continue;                                       \
                    const T *row = table + id * j->width;                                                    \
                    for (int64_t i = 0; i < j->width; i++)                                                   \
                        out[i] += row[i];                                                                    \
                }                                                                                            \
            }                                                                                                \
    }
SUMS(float)
SUMS(double)

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *w = pd_run_in(r, W), *ids = pd_run_in(r, IDS);
    struct pd_tensor *out = pd_run_out(r, OUT);
    struct job j = {.from = w->data, .to = out->data, .width = w->meta.dim[1]};
    void *memory;
    PD_TRY(open_job(r, ids, w->meta.dim[0], 0, &j, &memory));
    pd_parallel(out->meta.dim[0], 64, w->meta.dtype == PD_DTYPE_FP64 ? sums_double : sums_float, &j);
    return PD_OK;
}

/* ---- gradient ---- */

enum { G_W, G_IDS, G_OUT };

static pd_status infer_grad(const struct pd_infer *c)
{
    pd_rows_infer_grad(c, G_W, c->attr[IS_SPARSE].b);
    return PD_OK;
}

/* The gradient of each id: that of its sequence. */
static void spread(const struct job *j, int64_t sequences, size_t bytes)
{
    for (int64_t s = 0; s < sequences; s++) {
        int64_t at = j->offset ? j->offset[s] : s, stop = j->offset ? j->offset[s + 1] : s + 1;
        for (; at < stop; at++)
            for (int64_t c = 0; c < j->columns; c++) {
                int64_t id = at * j->columns + c;
                char *to = (char *)j->to + (size_t)id * bytes;
                if (j->padding >= 0 && j->ids[id] == j->padding)
                    memset(to, 0, bytes);
                else
                    memcpy(to, (const char *)j->from + (size_t)(s * j->columns + c) * bytes, bytes);
            }
    }
}

static pd_status run_grad(const struct pd_run *r)
{
    const struct pd_tensor *w = pd_run_in(r, G_W), *ids = pd_run_in(r, G_IDS), *from = pd_run_in(r, G_OUT);
    struct pd_value *to = pd_run_out_value(r, 0);
    if (!to) return PD_OK;
    int64_t height = w->meta.dim[0], n = pd_tensor_numel(ids);
    int is_sparse = r->attr[IS_SPARSE].b;
    struct job j = {.from = from->data, .width = w->meta.dim[1]};
    size_t bytes = (size_t)j.width * pd_dtype_size(from->meta.dtype);
    void *memory;
    PD_TRY(pd_check_float_data(from, "Out@GRAD"));
    PD_TRY(open_job(r, ids, height, is_sparse ? 0 : pd_scratch_round((size_t)n * bytes), &j, &memory));
    int64_t places = ids->meta.dim[0], sequences = j.offset ? pd_seq_last(ids)->n - 1 : places;
    if (pd_tensor_numel(from) != sequences * j.columns * j.width)
        return pd_fail(PD_SHAPE, "Out@GRAD has shape %s, but there are %lld sequences of %lld x %lld numbers",
                       pd_meta_dims_text(&from->meta), (long long)sequences, (long long)j.columns,
                       (long long)j.width);
    if (is_sparse) {
        PD_TRY(pd_rows_resize(to, n, height, from->meta.dtype, 2, (int64_t[]){n, j.width}));
        if (n) memcpy(to->rows.at, j.ids, (size_t)n * sizeof *j.ids);
        j.to = to->tensor.data;
        spread(&j, sequences, bytes);
        return PD_OK;
    }
    j.to = memory;
    spread(&j, sequences, bytes);
    memset(to->tensor.data, 0, (size_t)height * bytes);
    if (from->meta.dtype == PD_DTYPE_FP32)
        pd_rows_add_f32(to->tensor.data, j.width, j.ids, n, memory, 1, j.padding);
    else
        pd_rows_add_f64(to->tensor.data, j.width, j.ids, n, memory, 1, j.padding);
    return PD_OK;
}

static const struct pd_attr_def attrs[] = {PD_DEF_STRING("combiner", "sum"),
                                           PD_DEF_LONG("padding_idx", -1),
                                           PD_DEF_BOOL("is_sparse", 0),
                                           PD_DEF_BOOL("grad_inplace", 0),
                                           {0}};

const struct pd_op pd_op_fused_embedding_seq_pool = {
    .type = "fused_embedding_seq_pool",
    .doc =
        "The rows of the table W that the Ids of a sequence name, added up; without sequences those of one "
        "place. A padding id counts as zeros.",
    .inputs = (const struct pd_slot_def[]){{"W", 0}, {"Ids", PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "fused_embedding_seq_pool_grad",
    .grad_in = "W Ids Out@",
    .grad_out = "W@",
};

const struct pd_op pd_op_fused_embedding_seq_pool_grad = {
    .type = "fused_embedding_seq_pool_grad",
    .doc = "Gradient of fused_embedding_seq_pool: dense, or selected rows with is_sparse.",
    .inputs =
        (const struct pd_slot_def[]){{"W", PD_SLOT_META}, {"Ids", PD_SLOT_OWN_TYPE}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"W@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = infer_grad,
    .run = run_grad,
};
