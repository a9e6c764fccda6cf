/* print: shows a tensor on the standard output and passes it on. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "ops/out.h"
#include "program/grad.h"

enum { IN };
enum { OUT };
enum { FIRST_N, MESSAGE, SUMMARIZE, SHOW_NAME, SHOW_TYPE, SHOW_SHAPE, SHOW_LOD, PHASE, IS_FORWARD };

static const struct pd_slot_def inputs[] = {{"In"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_attr_def attrs[] = {
    PD_DEF_INT("first_n", -1),           PD_DEF_STRING("message", ""),
    PD_DEF_INT("summarize", -1),         PD_DEF_BOOL("print_tensor_name", 1),
    PD_DEF_BOOL("print_tensor_type", 1), PD_DEF_BOOL("print_tensor_shape", 1),
    PD_DEF_BOOL("print_tensor_lod", 1),  PD_DEF_STRING("print_phase", "BOTH"),
    PD_DEF_BOOL("is_forward", 1),        {0}};

struct state {
    int shown;
};

static void write_data(struct pd_buf *to, const struct pd_tensor *t, int most)
{
    int64_t n = pd_tensor_numel(t);
    if (most >= 0 && most < n) n = most;
    pd_buf_printf(to, "\tdata: ");
    PD_SWITCH_FLOAT(t->meta.dtype, T, {
        for (int64_t i = 0; i < n; i++)
            pd_buf_printf(to, "%g,", (double)((const T *)t->data)[i]);
    })
    if (!pd_dtype_is_float(t->meta.dtype)) {
        PD_SWITCH_ANY(t->meta.dtype, T, {
            for (int64_t i = 0; i < n; i++)
                pd_buf_printf(to, "%lld,", (long long)((const T *)t->data)[i]);
        })
    }
    pd_buf_printf(to, "\n");
}

static void write_lod(struct pd_buf *to, const struct pd_lod *lod)
{
    pd_buf_printf(to, "\tLoD: [");
    for (int level = 0; level < lod->levels; level++) {
        pd_buf_printf(to, "[");
        for (int64_t i = 0; i < lod->level[level].n; i++)
            pd_buf_printf(to, "%s%lld", i ? "," : "", (long long)lod->level[level].offset[i]);
        pd_buf_printf(to, "]");
    }
    pd_buf_printf(to, "]\n");
}

static pd_status show(const struct pd_run *r, const struct pd_tensor *t)
{
    struct pd_buf text = {0};
    pd_buf_printf(&text, "%lld\t%s\t", (long long)time(NULL), r->attr[MESSAGE].s);
    if (r->attr[SHOW_NAME].b) pd_buf_printf(&text, "Tensor[%s]", r->step->name(r, 0, IN, 0));
    pd_buf_printf(&text, "\n");
    if (r->attr[SHOW_SHAPE].b) pd_buf_printf(&text, "\tshape: %s\n", pd_meta_dims_text(&t->meta));
    if (r->attr[SHOW_TYPE].b) pd_buf_printf(&text, "\tdtype: %s\n", pd_dtype_name(t->meta.dtype));
    if (r->attr[SHOW_LOD].b && t->meta.lod) write_lod(&text, t->meta.lod);
    write_data(&text, t, r->attr[SUMMARIZE].i);
    if (text.failed) {
        pd_buf_free(&text);
        return pd_no_memory();
    }
    fwrite(text.at, 1, text.n, stdout);
    fflush(stdout);
    pd_buf_free(&text);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *in = pd_run_in(r, IN);
    struct pd_tensor *out = pd_run_out(r, OUT);
    struct state *state = r->state;
    const char *other = r->attr[IS_FORWARD].b ? "BACKWARD" : "FORWARD";
    int most = r->attr[FIRST_N].i;
    if (strcasecmp(r->attr[PHASE].s, other) != 0 && (most <= 0 || state->shown < most)) {
        state->shown++;
        PD_TRY(show(r, in));
    }
    if (out->data != in->data && pd_tensor_numel(in)) memcpy(out->data, in->data, pd_tensor_bytes(in));
    return PD_OK;
}

static pd_status make_grad(struct pd_grad_maker *g)
{
    struct pd_opdesc *op;
    PD_TRY(pd_grad_from_table(g, "print", "In=Out@", "Out=In@", &op));
    pd_status status =
        pd_opdesc_set_attr(op, "is_forward", &(struct pd_attr){.type = PD_ATTR_BOOL, .b = 0}, 1);
    if (status != PD_OK) {
        pd_opdesc_free(op);
        return status;
    }
    return g->emit(g, op);
}

const struct pd_op pd_op_print = {
    .type = "print",
    .doc = "Prints a tensor and passes it on.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .flags = PD_OP_EFFECT,
    .infer = pd_out_infer_same,
    .run = run,
    .make_grad = make_grad,
    .state_size = sizeof(struct state),
};
