/* See grad_check.h. */
#include "exec/grad_check.h"

#include <stdio.h>
#include <string.h>

/* Two that must be alike: what the forward op makes, or what the gradient op gets as S; and what it gets. */
struct pair {
    const char *is_name, *has_name; /* of their slots */
    struct pd_metas is, has;
    int unset; /* `has` may hold nothing yet */
};

/* An input of the forward op that the gradient op does not get. */
struct stand_in {
    struct pd_metas of;   /* has its shape */
    struct pd_metas like; /* one of the gradient op's; none: it is one number */
    int skip, drop;       /* dimensions of `like` at its beginning and end that do not count */
};

struct pd_grad_check {
    const struct pd_infer *infer; /* of the gradient op */
    struct pd_infer forward;      /* .op is NULL: it cannot be asked */
    struct pd_metas typed;        /* the first gradients among the inputs */
    const char *uneven;           /* an input slot with more or fewer variables than its gradient; or NULL */
    PD_VEC(struct pair) pairs;
    PD_VEC(struct stand_in) stand_ins;
    struct pd_attr *attrs;
    struct pd_metas *slots;
    const struct pd_value *const **values;
    struct pd_meta *made; /* outputs of the forward op, and stand-ins */
    struct pd_meta **made_at;
    int n_made;
};

void pd_grad_check_free(struct pd_grad_check *c)
{
    if (!c) return;
    pd_vec_free(&c->pairs);
    pd_vec_free(&c->stand_ins);
    pd_free(c->attrs);
    pd_free(c->slots);
    pd_free(c->values);
    pd_free(c->made);
    pd_free(c->made_at);
    pd_free(c);
}

/* ---- once ---- */

static int grad_slot(const struct pd_slot_def *slots, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; slots && slots[i].name; i++)
        if (strncmp(slots[i].name, name, n) == 0 && strcmp(slots[i].name + n, PD_GRAD_SUFFIX) == 0) return i;
    return -1;
}

/* The word INPUT=... for this input; NULL: there is none. */
static const char *like_word(const struct pd_op *forward, const char *input)
{
    size_t n = strlen(input);
    for (const char *at = forward->grad_like; at && *at; at += strcspn(at, " "), at += *at == ' ')
        if (strncmp(at, input, n) == 0 && at[n] == '=') return at + n + 1;
    return NULL;
}

/* What has the shape of this input of the forward op. Returns whether that can be known. */
static int find_like(const struct pd_grad_check *c, const struct pd_plan_op *op, const char *input,
                     struct stand_in *found)
{
    const char *word = like_word(op->forward, input);
    char slot[96] = "XShape";
    if (!word && strcmp(input, "X") != 0) return 0;
    if (word && *word == '1') return 1;
    if (word) {
        size_t length = strcspn(word, " ");
        int is_grad = word[length - 1] == '@';
        found->drop = word[length - 1] == '-';
        snprintf(slot, sizeof slot, "%.*s%s", (int)length - is_grad - found->drop, word,
                 is_grad ? PD_GRAD_SUFFIX : "");
    }
    found->skip = !word;
    int at = pd_slot_index(op->def->inputs, slot);
    if (at >= 0) found->like = c->infer->in[at];
    return found->like.n == 1;
}

/* Does the table of the gradient name the slot? */
static int has_word(const char *words, const char *slot)
{
    size_t n = strlen(slot);
    for (const char *at = words; at && *at; at += strcspn(at, " "), at += *at == ' ')
        if (strncmp(at, slot, n) == 0 && (at[n] == ' ' || !at[n])) return 1;
    return 0;
}

/* Does an input that the gradient op does not have, or of which it keeps no data, leave the sizes open? */
static int leaves_open(const struct pd_plan_op *op, const struct pd_slot_def *input, int at, int n)
{
    if (at < 0) return (input->flags & (PD_SLOT_SIZES | PD_SLOT_META)) || !(input->flags & PD_SLOT_OPTIONAL);
    if (!n && !(input->flags & PD_SLOT_OPTIONAL)) return 1;
    return (input->flags & PD_SLOT_SIZES) && (op->def->inputs[at].flags & PD_SLOT_META) &&
           (n || !has_word(op->forward->grad_in, input->name));
}

/* `n` places for what the forward op makes, or for stand-ins. */
static struct pd_metas make(struct pd_grad_check *c, int n)
{
    struct pd_metas found = {n, c->made_at + c->n_made};
    for (int i = 0; i < n; i++, c->n_made++)
        c->made_at[c->n_made] = &c->made[c->n_made];
    return found;
}

/* The inputs of the forward op, as far as the gradient op has them. *known: that is all. */
static pd_status take_inputs(struct pd_grad_check *c, const struct pd_plan_op *op, struct pd_metas *in,
                             int *known)
{
    const struct pd_slot_def *slots = op->forward->inputs;
    for (int s = 0; slots && slots[s].name; s++) {
        int at = pd_slot_index(op->def->inputs, slots[s].name), n = at < 0 ? 0 : c->infer->in[at].n;
        struct stand_in stand_in = {0};
        if (!n && find_like(c, op, slots[s].name, &stand_in)) {
            int out = grad_slot(op->def->outputs, slots[s].name);
            in[s] = stand_in.of =
                make(c, slots[s].flags & PD_SLOT_LIST && out >= 0 ? c->infer->out[out].n : 1);
            if (!pd_vec_push(&c->stand_ins, stand_in)) return pd_no_memory();
        } else if (leaves_open(op, &slots[s], at, n)) {
            *known = 0;
        } else if (n) {
            in[s] = c->infer->in[at];
            c->values[s] = c->infer->in_values[at];
        }
    }
    return PD_OK;
}

static pd_status add_pair(struct pd_grad_check *c, const char *is_name, struct pd_metas is, int has)
{
    const struct pd_slot_def *slot = &c->infer->op->inputs[has];
    struct pair pair = {is_name, slot->name, is, c->infer->in[has], slot->flags & PD_SLOT_UNSET};
    if (!pair.is.n || !pair.has.n) return PD_OK;
    return pd_vec_push(&c->pairs, pair) ? PD_OK : pd_no_memory();
}

/* The outputs of the forward op: what the gradient op gets must be like them. */
static pd_status take_outputs(struct pd_grad_check *c, const struct pd_plan_op *op, struct pd_metas *out)
{
    const struct pd_slot_def *slots = op->forward->outputs;
    for (int s = 0; slots && slots[s].name; s++) {
        int same = pd_slot_index(op->def->inputs, slots[s].name),
            grad = grad_slot(op->def->inputs, slots[s].name), n = 0;
        if (grad >= 0) n = c->infer->in[grad].n;
        if (same >= 0 && !n) n = c->infer->in[same].n;
        if (!n) n = !(slots[s].flags & (PD_SLOT_OPTIONAL | PD_SLOT_HIDDEN));
        out[s] = make(c, n);
        if (same >= 0) PD_TRY(add_pair(c, slots[s].name, out[s], same));
        if (grad >= 0) PD_TRY(add_pair(c, slots[s].name, out[s], grad));
    }
    return PD_OK;
}

/* S and S@GRAD among the inputs. */
static pd_status pair_inputs(struct pd_grad_check *c, const struct pd_op *def)
{
    for (int s = 0; def->inputs && def->inputs[s].name; s++) {
        int grad = grad_slot(def->inputs, def->inputs[s].name);
        if (grad >= 0) PD_TRY(add_pair(c, def->inputs[s].name, c->infer->in[s], grad));
    }
    return PD_OK;
}

/* X and X@GRAD, which the op makes, have as many variables. Ops that only plans have may join some. */
static const char *find_uneven(const struct pd_grad_check *c, const struct pd_plan_op *op)
{
    const struct pd_slot_def *slots = op->def->inputs;
    for (int s = 0; s < op->n_in && !(op->forward->flags & PD_OP_NO_GRAD); s++) {
        int grad = grad_slot(op->def->outputs, slots[s].name), n = grad < 0 ? 0 : c->infer->out[grad].n;
        if (n && c->infer->in[s].n && c->infer->in[s].n != n) return slots[s].name;
    }
    return NULL;
}

/* Can the forward op be asked at all? One whose gradient op has slots of other names cannot. */
static int can_ask(const struct pd_plan_op *op)
{
    const struct pd_op *forward = op->forward;
    return forward->infer && !(forward->flags & PD_OP_DYNAMIC) &&
           !(forward->grad_in && strchr(forward->grad_in, '='));
}

static pd_status prepare(struct pd_grad_check *c, const struct pd_plan_op *op)
{
    int n_in = pd_slot_count(op->forward->inputs), n_out = pd_slot_count(op->forward->outputs), n_attrs,
        known = can_ask(op), n = n_in + n_out;
    for (int s = 0; s < op->n_in; s++) {
        n += op->in[s].n;
        if (!c->typed.n && strstr(op->def->inputs[s].name, PD_GRAD_SUFFIX)) c->typed = c->infer->in[s];
    }
    for (int s = 0; s < op->n_out; s++)
        n += op->out[s].n;
    if (known) {
        c->slots = pd_calloc((size_t)(n_in + n_out) + 1, sizeof *c->slots);
        c->values = pd_calloc((size_t)n_in + 1, sizeof *c->values);
        c->made = pd_calloc((size_t)n, sizeof *c->made);
        c->made_at = pd_calloc((size_t)n, sizeof *c->made_at);
        if (!c->slots || !c->values || !c->made || !c->made_at) return pd_no_memory();
        PD_TRY(take_inputs(c, op, c->slots, &known));
    }
    if (!known) return pair_inputs(c, op->def);
    PD_TRY(pd_opdesc_bind_attrs_of(op->desc, op->forward, &c->attrs, &n_attrs));
    c->forward = (struct pd_infer){.op = op->forward,
                                   .attr = c->attrs,
                                   .in = c->slots,
                                   .out = c->slots + n_in,
                                   .in_values = c->values,
                                   .running = 1};
    return take_outputs(c, op, c->slots + n_in);
}

pd_status pd_grad_check_new(const struct pd_plan_op *op, const struct pd_infer *infer,
                            struct pd_grad_check **out)
{
    if (!op->forward || pd_opdesc_sub_block(op->desc, 0) >= 0) return PD_OK;
    struct pd_grad_check *c = pd_calloc(1, sizeof *c);
    if (!c) return pd_no_memory();
    c->infer = infer;
    c->uneven = find_uneven(c, op);
    pd_status status = prepare(c, op);
    if (status == PD_OK && (c->pairs.n || c->forward.op || c->uneven)) {
        *out = c;
        return PD_OK;
    }
    pd_grad_check_free(c);
    return status;
}

/* ---- each time ---- */

/* "X@GRAD", or "input 2 of X@GRAD". */
static const char *name_of(const struct pair *p, int i, char *text, size_t size)
{
    if (p->has.n == 1) return p->has_name;
    snprintf(text, size, "input %d of %s", i, p->has_name);
    return text;
}

static pd_status compare(const struct pair *p)
{
    if (p->is.n != p->has.n)
        return pd_fail(PD_SHAPE, "%s has %d variables, %s has %d; they must be as many", p->is_name, p->is.n,
                       p->has_name, p->has.n);
    for (int i = 0; i < p->is.n; i++) {
        const struct pd_meta *is = p->is.at[i], *has = p->has.at[i];
        char text[128];
        if (!is || !has || is->kind != PD_KIND_TENSOR) continue;
        if (p->unset && has->dtype == PD_DTYPE_NONE) continue;
        if (has->kind != PD_KIND_TENSOR)
            return pd_fail(PD_TYPE, "%s is a %s; a tensor is needed", name_of(p, i, text, sizeof text),
                           pd_kind_name(has->kind));
        /* The gradient of a loss is one number, whatever the rank of the loss. */
        if (!pd_meta_dims_match(is, has) && !(pd_meta_numel(is) == 1 && pd_meta_numel(has) == 1))
            return p->is_name == p->has_name || strcmp(p->is_name, p->has_name) == 0
                       ? pd_fail(PD_SHAPE, "%s has shape %s; with the op's other inputs it must be %s",
                                 name_of(p, i, text, sizeof text), pd_meta_dims_text(has),
                                 pd_meta_dims_text(is))
                       : pd_fail(PD_SHAPE, "%s has shape %s, %s has shape %s; they must be equal", p->is_name,
                                 pd_meta_dims_text(is), name_of(p, i, text, sizeof text),
                                 pd_meta_dims_text(has));
        if (is->dtype != has->dtype && is->dtype != PD_DTYPE_NONE && has->dtype != PD_DTYPE_NONE)
            return pd_fail(PD_TYPE, "%s is %s; it must be %s: cast it", name_of(p, i, text, sizeof text),
                           pd_dtype_name(has->dtype), pd_dtype_name(is->dtype));
    }
    return PD_OK;
}

static pd_status fill_stand_in(const struct pd_grad_check *c, const struct stand_in *s)
{
    static const struct pd_meta number = {.kind = PD_KIND_TENSOR, .rank = 1, .dim = {1}};
    const struct pd_meta *like = s->like.n ? s->like.at[0] : &number,
                         *typed = c->typed.n ? c->typed.at[0] : NULL;
    int rank = like ? like->rank - s->skip - s->drop : -1;
    if (rank < 0) return pd_fail(PD_SHAPE, "XShape has no dimensions; it must have those of X and one more");
    for (int i = 0; i < s->of.n; i++) {
        struct pd_meta *of = s->of.at[i];
        PD_TRY(pd_meta_set_dims(of, rank, like->dim + s->skip));
        of->dtype = typed ? typed->dtype : like->dtype;
        pd_meta_share_lod(of, like);
    }
    return PD_OK;
}

static pd_status ask(const struct pd_grad_check *c)
{
    for (int i = 0; i < c->n_made; i++)
        c->made[i] = (struct pd_meta){.kind = PD_KIND_TENSOR, .dtype = PD_DTYPE_NONE};
    for (int i = 0; i < c->stand_ins.n; i++)
        PD_TRY(fill_stand_in(c, &c->stand_ins.at[i]));
    for (int s = 0; c->forward.op->inputs[s].name; s++)
        for (int i = 0; i < c->forward.in[s].n; i++)
            if (!c->forward.in[s].at[i])
                return pd_fail(PD_INVALID, "input %d of %s is not there", i, c->forward.op->inputs[s].name);
    return c->forward.op->infer(&c->forward);
}

pd_status pd_grad_check_run(const struct pd_grad_check *c)
{
    if (c->uneven)
        return pd_fail(PD_INVALID,
                       "%s and %s" PD_GRAD_SUFFIX " have different numbers of variables; give as many",
                       c->uneven, c->uneven);
    pd_status status = c->forward.op ? ask(c) : PD_OK;
    for (int i = 0; i < c->pairs.n && status == PD_OK; i++)
        status = compare(&c->pairs.at[i]);
    for (int i = 0; i < c->n_made; i++)
        pd_meta_take_lod(&c->made[i], NULL);
    return status;
}
