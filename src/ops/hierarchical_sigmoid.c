/* hierarchical_sigmoid: classes are leaves of a binary tree, and the cost is that of the turns on the way to
 * the right one. Without PathTable and PathCode the tree is the complete one: class c has the code c +
 * num_classes, whose prefixes are the nodes and whose bits are the turns. PreOut is log(1 + e^z) of each
 * turn; turns past the end count log 2, as z is 0 there. */
#include <math.h>
#include <string.h>

#include "ops/check.h"
#include "ops/label.h"
#include "ops/lookup_table.h"
#include "ops/out.h"
#include "ops/rows.h"
#include "ops/scratch.h"

enum { X, W, LABEL, PATH_TABLE, PATH_CODE, BIAS };
enum { OUT, PRE_OUT, W_OUT };
enum { CLASSES, IS_SPARSE, EPMAP = 5 };
enum { GRAD_PRE_OUT = 6, GRAD_DOUT };
enum { DX, DW, D_BIAS };

static const struct pd_attr_def attrs[] = {
    PD_DEF_INT("num_classes", 2),      PD_DEF_BOOL("is_sparse", 0),
    PD_DEF_BOOL("remote_prefetch", 0), PD_DEF_INT("trainer_id", 0),
    PD_DEF_LONGS("height_sections"),   PD_DEF_STRINGS("epmap"),
    PD_DEF_STRINGS("table_names"),     {0},
};

static int bits_of(uint64_t n)
{
    return n ? 64 - __builtin_clzll(n) : 0;
}

/* As far as the sizes are known. */
static pd_status check_sizes(const struct pd_meta *x, const struct pd_meta *w, const struct pd_meta *label,
                             const struct pd_meta *table, const struct pd_meta *bias)
{
    int64_t rows = x->dim[0], labels = pd_meta_numel(label), biases = bias ? pd_meta_numel(bias) : -1;
    if (!table && rows >= 0 && labels >= 0 && labels != rows)
        return pd_fail(PD_SHAPE, "Label %s must hold one class for each row of X %s.",
                       pd_meta_dims_text(label), pd_meta_dims_text(x));
    if (table && rows >= 0 && table->dim[0] >= 0 && table->dim[0] != rows)
        return pd_fail(PD_SHAPE, "PathTable %s must have one row for each row of X %s.",
                       pd_meta_dims_text(table), pd_meta_dims_text(x));
    if (biases >= 0 && w->dim[0] >= 0 && biases != w->dim[0])
        return pd_fail(PD_SHAPE, "Bias %s must hold one number for each row of W %s.",
                       pd_meta_dims_text(bias), pd_meta_dims_text(w));
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *w = pd_infer_in(c, W), *label = pd_infer_in(c, LABEL);
    const struct pd_meta *table = pd_infer_in(c, PATH_TABLE), *code = pd_infer_in(c, PATH_CODE);
    struct pd_meta *out = pd_infer_out(c, OUT), *pre = pd_infer_out(c, PRE_OUT),
                   *w_out = pd_infer_out(c, W_OUT);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_same_type(x, "X", w, "W"));
    PD_TRY(pd_label_check_index(label, "Label"));
    PD_TRY(pd_check_rank(x, "X", 2, 2));
    PD_TRY(pd_check_rank(w, "W", 2, 2));
    if (x->dim[1] >= 0 && w->dim[1] >= 0 && x->dim[1] != w->dim[1])
        return pd_fail(PD_SHAPE, "X %s and W %s must have equally many columns.", pd_meta_dims_text(x),
                       pd_meta_dims_text(w));
    if (!table != !code)
        return pd_fail(PD_INVALID, "PathTable and PathCode come together: give both or none.");
    if (table) {
        PD_TRY(pd_check_rank(table, "PathTable", 2, 2));
        PD_TRY(pd_label_check_index(table, "PathTable"));
        PD_TRY(pd_label_check_index(code, "PathCode"));
        PD_TRY(pd_check_same_dims(table, "PathTable", code, "PathCode"));
    } else if (c->attr[CLASSES].i < 2) {
        return pd_fail(PD_INVALID, "num_classes is %d: give at least 2.", c->attr[CLASSES].i);
    }
    PD_TRY(check_sizes(x, w, label, table, pd_infer_in(c, BIAS)));
    if (out) {
        out->dtype = x->dtype;
        pd_meta_set_2d(out, x->dim[0], 1);
        pd_meta_share_lod(out, x);
    }
    if (w_out && w_out != w) pd_meta_like(w_out, w); /* as a rule it is W itself */
    if (pre) {
        pre->dtype = x->dtype;
        pd_meta_set_2d(pre, x->dim[0], table ? table->dim[1] : bits_of((uint64_t)c->attr[CLASSES].i - 1));
    }
    return PD_OK;
}

/* Ways to the classes of all rows. */
struct tree {
    const struct pd_tensor *label, *table, *code;
    int64_t classes, width, nodes;
};

/* Node and turn number j of row i; 0 past the end of the way. */
static inline int step_of(const struct tree *t, int64_t i, int64_t j, int64_t *node, int *turn)
{
    if (t->table) {
        *node = pd_label_at(t->table, i * t->width + j);
        *turn = pd_label_at(t->code, i * t->width + j) != 0;
        return *node >= 0;
    }
    uint64_t code = (uint64_t)(pd_label_at(t->label, i) + t->classes);
    *node = (int64_t)(code >> (j + 1)) - 1;
    *turn = (int)(code >> j & 1);
    return j < bits_of(code) - 1;
}

static pd_status tree_make(const struct pd_run *r, struct tree *t)
{
    const struct pd_tensor *x = pd_run_in(r, X), *bias = pd_run_in(r, BIAS);
    int64_t rows = x->meta.dim[0], node;
    int turn;
    *t = (struct tree){pd_run_in(r, LABEL), pd_run_in(r, PATH_TABLE), pd_run_in(r, PATH_CODE),
                       r->attr[CLASSES].i, .nodes = pd_run_in(r, W)->meta.dim[0]};
    t->width = t->table ? t->table->meta.dim[1] : bits_of((uint64_t)t->classes - 1);
    PD_TRY(check_sizes(&x->meta, &pd_run_in(r, W)->meta, &t->label->meta, t->table ? &t->table->meta : NULL,
                       bias ? &bias->meta : NULL));
    if (!t->table) PD_TRY(pd_label_check_range(t->label, rows, t->classes, 0));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < t->width && step_of(t, i, j, &node, &turn); j++)
            if (node >= t->nodes)
                return pd_fail(PD_RANGE, "The way of row %lld leads over node %lld, but W has %lld rows.",
                               (long long)i, (long long)node, (long long)t->nodes);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X), *bias = pd_run_in(r, BIAS);
    struct pd_tensor *w_out = pd_run_out(r, W_OUT);
    int64_t rows = x_in->meta.dim[0], dim = x_in->meta.dim[1];
    struct tree t;
    PD_TRY(pd_lookup_is_here(&r->attr[EPMAP]));
    PD_TRY(tree_make(r, &t));
    if (w_out && w_out != pd_run_in(r, W)) memcpy(w_out->data, pd_run_in(r, W)->data, pd_tensor_bytes(w_out));
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *w = pd_run_in(r, W)->data;
        T *out = pd_run_out(r, OUT)->data;
        T *pre = pd_run_out(r, PRE_OUT)->data;
        for (int64_t i = 0; i < rows; i++) {
            double sum = 0;
            int on_way = 1;
            for (int64_t j = 0; j < t.width; j++) {
                int64_t node;
                int turn;
                double z = 0;
                on_way = on_way && step_of(&t, i, j, &node, &turn);
                if (on_way) {
                    T dot = bias ? ((const T *)bias->data)[node] : 0;
                    for (int64_t k = 0; k < dim; k++)
                        dot += x[i * dim + k] * w[node * dim + k];
                    z = dot < -40 ? -40 : dot > 40 ? 40 : (double)dot;
                    if (turn) sum -= z;
                }
                double soft = log1p(exp(z));
                pre[i * t.width + j] = (T)soft;
                sum += soft;
            }
            out[i] = (T)sum;
        }
    })
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    struct pd_meta *dw = pd_infer_out(c, DW);
    pd_out_like(c, DX, X);
    pd_out_like(c, D_BIAS, BIAS);
    if (!dw) return PD_OK;
    dw->kind = c->attr[IS_SPARSE].b ? PD_KIND_SELECTED_ROWS : PD_KIND_TENSOR;
    dw->dtype = pd_infer_in(c, W)->dtype;
    pd_meta_copy_dims(dw, pd_infer_in(c, W));
    return PD_OK;
}

/* Sparse gradient of W: the nodes on the way, each once; *place says which of them each turn belongs to. */
static pd_status make_rows(const struct pd_run *r, const struct tree *t, int64_t rows, int64_t dim,
                           struct pd_value *dw, const int64_t **place)
{
    int64_t n = 0, node;
    int turn;
    void *block;
    PD_TRY(pd_scratch(r, (size_t)(rows * t->width) * sizeof(int64_t) + pd_rows_make_scratch(rows * t->width),
                      &block));
    int64_t *nodes = block;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < t->width && step_of(t, i, j, &node, &turn); j++)
            nodes[n++] = node;
    PD_TRY(pd_rows_make(dw, nodes, n, t->nodes, dim, pd_run_in(r, X)->meta.dtype, nodes + rows * t->width));
    *place = nodes + rows * t->width;
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X);
    struct pd_tensor *dx = pd_run_out(r, DX), *db = pd_run_in(r, BIAS) ? pd_run_out(r, D_BIAS) : NULL;
    struct pd_value *dw = pd_run_out_value(r, DW);
    int64_t rows = x_in->meta.dim[0], dim = x_in->meta.dim[1], taken = 0;
    const int64_t *place = NULL;
    int sparse = r->attr[IS_SPARSE].b;
    struct tree t;
    PD_TRY(tree_make(r, &t));
    if (dx) memset(dx->data, 0, pd_tensor_bytes(dx));
    if (db) memset(db->data, 0, pd_tensor_bytes(db));
    if (dw && sparse) PD_TRY(make_rows(r, &t, rows, dim, dw, &place));
    if (dw && !sparse) memset(dw->tensor.data, 0, pd_tensor_bytes(&dw->tensor));
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *w = pd_run_in(r, W)->data;
        const T *pre = pd_run_in(r, GRAD_PRE_OUT)->data;
        const T *g = pd_run_in(r, GRAD_DOUT)->data;
        for (int64_t i = 0; i < rows; i++) {
            int64_t node;
            int turn;
            for (int64_t j = 0; j < t.width && step_of(&t, i, j, &node, &turn); j++) {
                T d = (T)((1 - exp(-(double)pre[i * t.width + j]) - turn) * (double)g[i]);
                if (db) ((T *)db->data)[node] += d;
                T *to_w = dw ? (T *)dw->tensor.data + (sparse ? place[taken++] : node) * dim : NULL;
                for (int64_t k = 0; to_w && k < dim; k++)
                    to_w[k] += d * x[i * dim + k];
                for (int64_t k = 0; dx && k < dim; k++)
                    ((T *)dx->data)[i * dim + k] += d * w[node * dim + k];
            }
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_hierarchical_sigmoid = {
    .type = "hierarchical_sigmoid",
    .doc = "Cost of the way to a class in a binary tree of classes.",
    .inputs = (const struct pd_slot_def[]){{"X", 0},
                                           {"W", 0},
                                           {"Label", PD_SLOT_OWN_TYPE},
                                           {"PathTable", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"PathCode", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"Bias", PD_SLOT_OPTIONAL},
                                           {0}},
    .outputs =
        (const struct pd_slot_def[]){
            {"Out", 0}, {"PreOut", PD_SLOT_HIDDEN}, {"W_Out", PD_SLOT_HIDDEN | PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "hierarchical_sigmoid_grad",
    .grad_in = "X W Label PathTable PathCode Bias PreOut Out@",
    .grad_out = "X@ W@ Bias@",
};

const struct pd_op pd_op_hierarchical_sigmoid_grad = {
    .type = "hierarchical_sigmoid_grad",
    .doc = "Gradient of hierarchical_sigmoid: of W dense, or selected rows with is_sparse.",
    .inputs = (const struct pd_slot_def[]){{"X", 0},
                                           {"W", 0},
                                           {"Label", PD_SLOT_OWN_TYPE},
                                           {"PathTable", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"PathCode", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"Bias", PD_SLOT_META | PD_SLOT_OPTIONAL},
                                           {"PreOut", 0},
                                           {"Out@GRAD", 0},
                                           {0}},
    .outputs =
        (const struct pd_slot_def[]){
            {"X@GRAD", PD_SLOT_OPTIONAL}, {"W@GRAD", PD_SLOT_OPTIONAL}, {"Bias@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = grad_infer,
    .run = grad_run,
};
