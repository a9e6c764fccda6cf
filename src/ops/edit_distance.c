/* edit_distance: how many changes lead from one sequence to another. */
#include "ops/out.h"
#include "ops/scratch.h"
#include "ops/seq.h"

enum { HYPS, REFS, HYPS_LENGTH, REFS_LENGTH };
enum { SEQUENCE_NUM, DISTANCE };

static pd_status infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, DISTANCE);
    int padded = c->in[HYPS_LENGTH].n && c->in[REFS_LENGTH].n;
    int64_t hyps = 0, refs = 0;
    PD_TRY(pd_seq_count(c, HYPS, padded ? HYPS_LENGTH : -1, &hyps));
    PD_TRY(pd_seq_count(c, REFS, padded ? REFS_LENGTH : -1, &refs));
    if (hyps != refs)
        return pd_fail(PD_SHAPE, "Hyps has %lld sequences and Refs has %lld; they must be as many",
                       (long long)hyps, (long long)refs);
    pd_out_number(c, SEQUENCE_NUM, PD_DTYPE_INT64);
    if (!out) return PD_OK;
    /* Programs declare the distances as int64; they are float32 when they come. */
    if (c->running || out->dtype == PD_DTYPE_NONE) out->dtype = PD_DTYPE_FP32;
    pd_meta_copy_dims(out, pd_infer_in(c, REFS));
    if (c->running) pd_meta_set_2d(out, refs, 1);
    return PD_OK;
}

/* One row of the table of distances is enough: `row` has room for m + 1. */
static int64_t distance(const int64_t *a, int64_t n, const int64_t *b, int64_t m, int64_t *row)
{
    for (int64_t j = 0; j <= m; j++)
        row[j] = j;
    for (int64_t i = 1; i <= n; i++) {
        int64_t corner = row[0];
        row[0] = i;
        for (int64_t j = 1; j <= m; j++) {
            int64_t best = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[m];
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *hyps = pd_run_in(r, HYPS), *refs = pd_run_in(r, REFS);
    int padded = r->in[HYPS_LENGTH].n && r->in[REFS_LENGTH].n;
    const struct pd_tensor *hyps_length = padded ? pd_run_in(r, HYPS_LENGTH) : NULL;
    const struct pd_tensor *refs_length = padded ? pd_run_in(r, REFS_LENGTH) : NULL;
    struct pd_tensor *out = pd_run_out(r, DISTANCE), *count = pd_run_out(r, SEQUENCE_NUM);
    int64_t sequences = out->meta.dim[0], n = 0, m = 0;
    const int64_t *a = NULL, *b = NULL;
    void *row = NULL;
    PD_TRY(pd_scratch(r, (size_t)(pd_tensor_numel(refs) + 1) * sizeof(int64_t), &row));
    for (int64_t i = 0; i < sequences; i++) {
        PD_TRY(pd_seq_at(hyps, hyps_length, "HypsLength", i, &a, &n));
        PD_TRY(pd_seq_at(refs, refs_length, "RefsLength", i, &b, &m));
        if (m == 0 && r->attr[0].b)
            return pd_fail(PD_RANGE, "reference %lld is empty, so its distance cannot be normalized",
                           (long long)i);
        float d = (float)distance(a, n, b, m, row);
        ((float *)out->data)[i] = r->attr[0].b ? d / (float)m : d;
    }
    if (count) *(int64_t *)count->data = sequences;
    return PD_OK;
}

const struct pd_op pd_op_edit_distance = {
    .type = "edit_distance",
    .doc =
        "Levenshtein distance of each pair of sequences, divided by the reference's length with normalized.",
    .inputs = (const struct pd_slot_def[]){{"Hyps", 0},
                                           {"Refs", 0},
                                           {"HypsLength", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"RefsLength", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"SequenceNum", 0}, {"Out", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_BOOL("normalized", 0), {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};
