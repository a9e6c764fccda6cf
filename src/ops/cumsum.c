/* cumsum: running sums along one dimension. */
#include "base/parallel.h"
#include "ops/axis.h"
#include "ops/check.h"
#include "ops/out.h"
#include "program/grad.h"

enum { X };
enum { OUT };
enum { AXIS, EXCLUSIVE, REVERSE };

static const struct pd_slot_def inputs[] = {{"X"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_attr_def attrs[] = {
    PD_DEF_INT("axis", -1), PD_DEF_BOOL("exclusive", 0), PD_DEF_BOOL("reverse", 0), {0}};

struct job {
    const void *x;
    void *out;
    int64_t n, post;
    int exclusive, reverse;
    enum pd_dtype dtype;
};

/* Unit u is one of the vectors: element k of it lies at base + k * post. The sum is read before the result is
 * written, so that both may be one array. */
static void part(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    PD_SWITCH_NUMBER(j->dtype, T, {
        for (int64_t u = begin; u < end; u++) {
            int64_t base = u / j->post * j->post * j->n + u % j->post;
            const T *x = (const T *)j->x + base;
            T *out = (T *)j->out + base;
            T total = 0;
            for (int64_t i = 0; i < j->n; i++) {
                int64_t k = (j->reverse ? j->n - 1 - i : i) * j->post;
                const T v = x[k], before = total;
                total = PD_ADD_WRAPPING(T, total, v);
                out[k] = j->exclusive ? before : total;
            }
        }
    })
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    int axis;
    PD_TRY(pd_axis_of(c->attr[AXIS].i, x->rank, &axis));
    return pd_out_infer_same(c);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    int axis = 0;
    PD_TRY(pd_axis_of(r->attr[AXIS].i, x->meta.rank, &axis));
    PD_TRY(pd_check_number_data(x, "X"));
    struct job j = {.x = x->data,
                    .out = pd_run_out(r, OUT)->data,
                    .n = x->meta.dim[axis],
                    .post = pd_meta_span(&x->meta, axis + 1, x->meta.rank),
                    .exclusive = r->attr[EXCLUSIVE].b,
                    .reverse = r->attr[REVERSE].b,
                    .dtype = x->meta.dtype};
    pd_parallel(pd_meta_span(&x->meta, 0, axis) * j.post, 16384 / (j.n + 1) + 1, part, &j);
    return PD_OK;
}

/* What an element adds to later sums comes back from later gradients: the same sum the other way round. */
static pd_status make_grad(struct pd_grad_maker *g)
{
    struct pd_opdesc *op;
    PD_TRY(pd_grad_from_table(g, "cumsum", "X=Out@", "Out=X@", &op));
    struct pd_attr reverse = {.type = PD_ATTR_BOOL, .b = !pd_opdesc_attr(g->op, "reverse")->b};
    pd_status status = pd_opdesc_set_attr(op, "reverse", &reverse, 1);
    if (status != PD_OK) {
        pd_opdesc_free(op);
        return status;
    }
    return g->emit(g, op);
}

const struct pd_op pd_op_cumsum = {
    .type = "cumsum",
    .doc = "Running sums along one dimension.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .make_grad = make_grad,
};
