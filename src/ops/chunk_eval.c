/* chunk_eval: precision, recall and F1 of chunks found in sequences of labels. */
#include <string.h>

#include "ops/check.h"
#include "ops/out.h"
#include "ops/seq.h"

enum { INFERENCE, LABEL, SEQ_LENGTH };
enum { PRECISION, RECALL, F1, N_INFER, N_LABEL, N_CORRECT };
enum { TYPES, SCHEME, EXCLUDED };

/* How a label says where a chunk starts and ends: label = type * tags + tag. -1: the scheme has no such tag.
 */
struct scheme {
    const char *name;
    int tags, begin, inside, end, single;
};

static const struct scheme schemes[] = {{"IOB", 2, 0, 1, -1, -1},
                                        {"IOE", 2, -1, 0, 1, -1},
                                        {"IOBES", 4, 0, 1, 2, 3},
                                        {"plain", 1, -1, -1, -1, -1}};

struct chunk {
    int64_t first, last, type;
};

/* Walks through a sequence of labels, chunk by chunk. */
struct walker {
    const struct scheme *s;
    const int64_t *label;
    int64_t n, i, types, tag, type, first;
    int open;
};

static struct walker walker_make(const struct scheme *s, int64_t types, const int64_t *label, int64_t n)
{
    return (struct walker){.s = s, .label = label, .n = n, .types = types, .tag = -1, .type = types};
}

static int ends_between(const struct walker *w, int64_t tag, int64_t type)
{
    const struct scheme *s = w->s;
    if (w->type == w->types) return 0;
    if (type != w->type) return 1;
    if (w->tag == s->begin || w->tag == s->inside) return tag == s->begin || tag == s->single;
    return w->tag == s->end || w->tag == s->single;
}

static int begins_at(const struct walker *w, int64_t tag, int64_t type)
{
    const struct scheme *s = w->s;
    if (type == w->types) return 0;
    if (w->type != type) return 1;
    if (tag == s->begin) return 1;
    if (tag == s->inside || tag == s->end) return w->tag == s->end || w->tag == s->single;
    return tag == s->single;
}

/* 1 and the next chunk; 0 at the end. */
static int walker_next(struct walker *w, struct chunk *out)
{
    while (w->i < w->n) {
        int64_t tag = w->label[w->i] % w->s->tags, type = w->label[w->i] / w->s->tags;
        int found = w->open && ends_between(w, tag, type);
        if (found) {
            *out = (struct chunk){w->first, w->i - 1, w->type};
            w->open = 0;
        }
        if (begins_at(w, tag, type)) {
            w->first = w->i;
            w->open = 1;
        }
        w->tag = tag;
        w->type = type;
        w->i++;
        if (found) return 1;
    }
    if (!w->open) return 0;
    *out = (struct chunk){w->first, w->n - 1, w->type};
    w->open = 0;
    return 1;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *a = pd_infer_in(c, INFERENCE), *b = pd_infer_in(c, LABEL);
    int64_t n = 0, m = 0;
    int padded = c->in[SEQ_LENGTH].n && !(c->running && b->lod);
    if (c->attr[TYPES].i < 1)
        return pd_fail(PD_INVALID, "num_chunk_types is %d; it must be at least 1", c->attr[TYPES].i);
    PD_TRY(pd_check_same_dims(a, "Inference", b, "Label"));
    PD_TRY(pd_seq_count(c, INFERENCE, padded ? SEQ_LENGTH : -1, &n));
    PD_TRY(pd_seq_count(c, LABEL, padded ? SEQ_LENGTH : -1, &m));
    if (c->running && !padded && !pd_lod_equal(a->lod, b->lod))
        return pd_fail(PD_SHAPE,
                       "Inference and Label have different LoDs; their sequences must be equally long");
    for (int i = PRECISION; i <= F1; i++)
        pd_out_number(c, i, PD_DTYPE_FP32);
    for (int i = N_INFER; i <= N_CORRECT; i++)
        pd_out_number(c, i, PD_DTYPE_INT64);
    return PD_OK;
}

static pd_status check_labels(const char *name, const int64_t *label, int64_t n, int64_t most)
{
    for (int64_t i = 0; i < n; i++)
        if (label[i] < 0 || label[i] > most)
            return pd_fail(PD_RANGE, "%s holds %lld; num_chunk_types and chunk_scheme allow 0 to %lld", name,
                           (long long)label[i], (long long)most);
    return PD_OK;
}

static int counted(const struct pd_attr *excluded, int64_t type)
{
    for (int i = 0; i < excluded->n; i++)
        if (excluded->ints[i] == type) return 0;
    return 1;
}

/* Adds to found[0] the inferred chunks, to found[1] the true ones, to found[2] the ones that agree. */
static void compare(struct walker *a, struct walker *b, const struct pd_attr *excluded, int64_t *found)
{
    struct chunk x, y;
    int has_x = walker_next(a, &x), has_y = walker_next(b, &y);
    while (has_x || has_y) {
        int take_x = has_x && (!has_y || x.last <= y.last), take_y = has_y && (!has_x || y.last <= x.last);
        if (take_x && take_y && x.first == y.first && x.type == y.type) found[2] += counted(excluded, x.type);
        if (take_x) {
            found[0] += counted(excluded, x.type);
            has_x = walker_next(a, &x);
        }
        if (take_y) {
            found[1] += counted(excluded, y.type);
            has_y = walker_next(b, &y);
        }
    }
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *inference = pd_run_in(r, INFERENCE), *label = pd_run_in(r, LABEL);
    const struct pd_tensor *lengths = label->meta.lod ? NULL : pd_run_in(r, SEQ_LENGTH);
    const struct scheme *s = NULL;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strcmp(schemes[i].name, r->attr[SCHEME].s) == 0) s = &schemes[i];
    if (!s)
        return pd_fail(PD_INVALID, "chunk_scheme is '%s'; it may be IOB, IOE, IOBES or plain",
                       r->attr[SCHEME].s);
    int64_t types = r->attr[TYPES].i,
            sequences = lengths ? pd_tensor_numel(lengths) : label->meta.lod->level[0].n - 1;
    int64_t found[3] = {0}, n = 0, m = 0;
    const int64_t *a = NULL, *b = NULL;
    for (int64_t i = 0; i < sequences; i++) {
        PD_TRY(pd_seq_at(inference, lengths, "SeqLength", i, &a, &n));
        PD_TRY(pd_seq_at(label, lengths, "SeqLength", i, &b, &m));
        PD_TRY(check_labels("Inference", a, n, types * s->tags));
        PD_TRY(check_labels("Label", b, m, types * s->tags));
        struct walker x = walker_make(s, types, a, n), y = walker_make(s, types, b, m);
        compare(&x, &y, &r->attr[EXCLUDED], found);
    }
    float precision = found[0] ? (float)found[2] / (float)found[0] : 0,
          recall = found[1] ? (float)found[2] / (float)found[1] : 0;
    float measures[3] = {precision, recall, found[2] ? 2 * precision * recall / (precision + recall) : 0};
    for (int i = 0; i < 3; i++) {
        if (pd_run_out(r, PRECISION + i)) *(float *)pd_run_out(r, PRECISION + i)->data = measures[i];
        if (pd_run_out(r, N_INFER + i)) *(int64_t *)pd_run_out(r, N_INFER + i)->data = found[i];
    }
    return PD_OK;
}

const struct pd_op pd_op_chunk_eval = {
    .type = "chunk_eval",
    .doc = "Precision, recall and F1 of chunks found in sequences of labels.",
    .inputs =
        (const struct pd_slot_def[]){
            {"Inference", 0}, {"Label", 0}, {"SeqLength", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Precision", 0},
                                            {"Recall", 0},
                                            {"F1-Score", 0},
                                            {"NumInferChunks", 0},
                                            {"NumLabelChunks", 0},
                                            {"NumCorrectChunks", 0},
                                            {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("num_chunk_types", 0),
                                          PD_DEF_STRING("chunk_scheme", "IOB"),
                                          PD_DEF_INTS("excluded_chunk_types"),
                                          {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};
