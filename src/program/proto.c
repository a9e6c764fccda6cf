/* Programs on disk: upstream's ProgramDesc, written and read through protobuf-c.
 *
 * Reading trusts nothing: block numbers, parents, kinds and names are checked, so that a foreign or damaged
 * file gives an error and never a Program that trips the engine. Ops of a type we do not know are kept as
 * they are. */
#include <string.h>

#include "program/framework.pb-c.h"
#include "program/program.h"

/* ---- writing ---- */

/* An arena for the messages of one write: freed at once. */
struct arena {
    PD_VEC(void *) blocks;
    int failed;
};

static void *take(struct arena *a, size_t count, size_t size)
{
    void *memory = pd_calloc(count + 1, size);
    if (!memory || !pd_vec_push(&a->blocks, memory)) {
        pd_free(memory);
        a->failed = 1;
        return NULL;
    }
    return memory;
}

static void arena_free(struct arena *a)
{
    for (int i = 0; i < a->blocks.n; i++)
        pd_free(a->blocks.at[i]);
    pd_vec_free(&a->blocks);
}

static Pd__OpDesc__Attr *attr_message(struct arena *a, const struct pd_named_attr *attr)
{
    Pd__OpDesc__Attr *m = take(a, 1, sizeof *m);
    if (!m) return NULL;
    pd__op_desc__attr__init(m);
    const struct pd_attr *v = &attr->value;
    size_t n = (size_t)v->n;
    m->name = (char *)attr->name;
    m->type = (Pd__AttrType)v->type;
    switch (v->type) {
    case PD_ATTR_INT:
        m->has_i = 1, m->i = v->i;
        break;
    case PD_ATTR_FLOAT:
        m->has_f = 1, m->f = v->f;
        break;
    case PD_ATTR_STRING:
        m->s = (char *)v->s;
        break;
    case PD_ATTR_BOOL:
        m->has_b = 1, m->b = v->b;
        break;
    case PD_ATTR_BLOCK:
        m->has_block_idx = 1, m->block_idx = v->block;
        break;
    case PD_ATTR_LONG:
        m->has_l = 1, m->l = v->l;
        break;
    case PD_ATTR_INTS:
        m->n_ints = n, m->ints = (int32_t *)v->ints;
        break;
    case PD_ATTR_FLOATS:
        m->n_floats = n, m->floats = (float *)v->floats;
        break;
    case PD_ATTR_STRINGS:
        m->n_strings = n, m->strings = (char **)v->strings;
        break;
    case PD_ATTR_BLOCKS:
        m->n_blocks_idx = n, m->blocks_idx = (int32_t *)v->blocks;
        break;
    case PD_ATTR_LONGS:
        m->n_longs = n, m->longs = (int64_t *)v->longs;
        break;
    case PD_ATTR_BOOLS:
        m->n_bools = n;
        m->bools = take(a, n, sizeof *m->bools);
        for (size_t i = 0; m->bools && i < n; i++)
            m->bools[i] = v->bools[i];
        break;
    }
    return m;
}

static Pd__OpDesc__Var **side_message(struct arena *a, const struct pd_io *at, int n)
{
    Pd__OpDesc__Var **list = take(a, (size_t)n, sizeof *list);
    for (int i = 0; list && i < n; i++) {
        list[i] = take(a, 1, sizeof **list);
        if (!list[i]) return NULL;
        pd__op_desc__var__init(list[i]);
        list[i]->parameter = (char *)at[i].slot;
        list[i]->n_arguments = (size_t)at[i].args.n;
        list[i]->arguments = (char **)at[i].args.at;
    }
    return list;
}

/* The op that a gradient op belongs to by its name. NULL: it is no gradient op, or runs a block. Gradients of
 * loops are not those of upstream, which must go on refusing them. */
static const struct pd_op *forward_of(const struct pd_opdesc *op)
{
    char type[128];
    size_t n = strlen(op->type), suffix = strlen("_grad");
    if (!op->def || n <= suffix || n >= sizeof type || strcmp(op->type + n - suffix, "_grad") != 0)
        return NULL;
    if (pd_opdesc_sub_block(op, 0) >= 0) return NULL;
    memcpy(type, op->type, n - suffix);
    type[n - suffix] = 0;
    return pd_op_find(op->program->op_set, type);
}

static int has_attr(const Pd__OpDesc *m, const char *name)
{
    for (size_t i = 0; i < m->n_attrs; i++)
        if (m->attrs[i] && strcmp(m->attrs[i]->name, name) == 0) return 1;
    return 0;
}

/* Upstream fills in what an op leaves out, but not for gradient ops, which have the attributes of their
 * forward op: these are written out. */
static void attr_messages(struct arena *a, const struct pd_opdesc *op, Pd__OpDesc *m)
{
    static const struct pd_attr_def hints[] = {
        PD_DEF_BOOL("use_mkldnn", 0), PD_DEF_BOOL("use_cudnn", 0), {0}};
    const struct pd_op *forward = forward_of(op);
    const struct pd_attr_def *const tables[] = {forward ? op->def->attrs : NULL,
                                                forward ? forward->attrs : NULL, forward ? hints : NULL};
    int most = op->attrs.n;
    for (int t = 0; t < 3; t++)
        most += pd_attr_count(tables[t]);
    m->attrs = take(a, (size_t)most, sizeof *m->attrs);
    if (!m->attrs) return;
    for (int i = 0; i < op->attrs.n; i++)
        m->attrs[m->n_attrs++] = attr_message(a, &op->attrs.at[i]);
    for (int t = 0; t < 3; t++)
        for (const struct pd_attr_def *def = tables[t]; def && def->name; def++)
            if (!has_attr(m, def->name))
                m->attrs[m->n_attrs++] = attr_message(a, &(struct pd_named_attr){def->name, def->value});
}

static Pd__OpDesc *op_message(struct arena *a, const struct pd_opdesc *op)
{
    Pd__OpDesc *m = take(a, 1, sizeof *m);
    if (!m) return NULL;
    pd__op_desc__init(m);
    m->type = (char *)op->type;
    m->n_inputs = (size_t)op->in.n;
    m->inputs = side_message(a, op->in.at, op->in.n);
    m->n_outputs = (size_t)op->out.n;
    m->outputs = side_message(a, op->out.at, op->out.n);
    attr_messages(a, op, m);
    if (op->is_target) m->has_is_target = m->is_target = 1;
    return m;
}

static Pd__VarType__TensorDesc *tensor_message(struct arena *a, const struct pd_meta *meta)
{
    Pd__VarType__TensorDesc *m = take(a, 1, sizeof *m);
    if (!m) return NULL;
    pd__var_type__tensor_desc__init(m);
    m->data_type = meta->dtype == PD_DTYPE_NONE ? PD_DTYPE_FP32 : (int32_t)meta->dtype;
    m->n_dims = (size_t)meta->rank;
    m->dims = (int64_t *)meta->dim;
    return m;
}

static void *arena_alloc(void *arena, size_t size)
{
    return take(arena, 1, size);
}
static void arena_leave(void *arena, void *memory)
{
    (void)arena, (void)memory;
}

/* What a file said of a reader or a tuple; only passed on. */
static void add_extra(struct arena *a, const struct pd_var *var, Pd__VarType *t)
{
    ProtobufCAllocator from_arena = {arena_alloc, arena_leave, a};
    const Pd__VarType *was =
        var->extra.n ? pd__var_type__unpack(&from_arena, var->extra.n, (const uint8_t *)var->extra.at) : NULL;
    if (!was) return;
    t->reader = was->reader;
    t->tuple = was->tuple;
}

static Pd__VarDesc *var_message(struct arena *a, const struct pd_var *var)
{
    Pd__VarDesc *m = take(a, 1, sizeof *m);
    Pd__VarType *t = take(a, 1, sizeof *t);
    Pd__VarType__LoDTensorDesc *l = take(a, 1, sizeof *l);
    if (!m || !t || !l) return NULL;
    pd__var_desc__init(m);
    pd__var_type__init(t);
    pd__var_type__lo_dtensor_desc__init(l);
    m->name = (char *)var->name;
    m->type = t;
    m->has_persistable = 1;
    m->persistable = (var->flags & PD_VAR_PERSISTABLE) != 0;
    if (var->flags & PD_VAR_CHECK_FEED) m->has_need_check_feed = m->need_check_feed = 1;
    t->type = (int32_t)var->meta.kind;
    l->tensor = tensor_message(a, &var->meta);
    l->has_lod_level = 1;
    l->lod_level = var->meta.lod_level;
    if (var->meta.kind == PD_KIND_TENSOR)
        t->lod_tensor = l;
    else if (var->meta.kind == PD_KIND_TENSOR_ARRAY)
        t->tensor_array = l;
    else if (var->meta.kind == PD_KIND_SELECTED_ROWS)
        t->selected_rows = l->tensor;
    else
        add_extra(a, var, t);
    return m;
}

static Pd__BlockDesc *block_message(struct arena *a, const struct pd_block *block)
{
    Pd__BlockDesc *m = take(a, 1, sizeof *m);
    if (!m) return NULL;
    pd__block_desc__init(m);
    m->idx = block->index;
    m->parent_idx = block->parent;
    if (block->forward >= 0) m->has_forward_block_idx = 1, m->forward_block_idx = block->forward;
    m->n_vars = (size_t)block->vars.n;
    m->vars = take(a, (size_t)block->vars.n, sizeof *m->vars);
    for (int i = 0; m->vars && i < block->vars.n; i++)
        m->vars[i] = var_message(a, block->vars.at[i]);
    m->n_ops = (size_t)block->ops.n;
    m->ops = take(a, (size_t)block->ops.n, sizeof *m->ops);
    for (int i = 0; m->ops && i < block->ops.n; i++)
        m->ops[i] = op_message(a, block->ops.at[i]);
    return m;
}

pd_status pd_program_write(const struct pd_program *program, struct pd_buf *out)
{
    struct arena a = {0};
    Pd__ProgramDesc m = PD__PROGRAM_DESC__INIT;
    Pd__Version version = PD__VERSION__INIT;
    m.n_blocks = (size_t)program->blocks.n;
    m.blocks = take(&a, m.n_blocks, sizeof *m.blocks);
    for (size_t i = 0; m.blocks && i < m.n_blocks; i++)
        m.blocks[i] = block_message(&a, program->blocks.at[i]);
    version.has_version = 1;
    version.version = program->file_version;
    m.version = &version;
    if (program->compatible.n) {
        m.has_op_compatible_map = 1;
        m.op_compatible_map.data = (uint8_t *)program->compatible.at;
        m.op_compatible_map.len = program->compatible.n;
    }
    pd_status status = a.failed ? pd_no_memory() : PD_OK;
    if (status == PD_OK) {
        size_t n = pd__program_desc__get_packed_size(&m);
        uint8_t *bytes = pd_malloc(n);
        if (bytes) {
            pd__program_desc__pack(&m, bytes);
            pd_buf_add(out, bytes, n);
        }
        if (!bytes || out->failed) status = pd_no_memory();
        pd_free(bytes);
    }
    arena_free(&a);
    return status;
}

/* ---- reading ---- */

static int kind_known(int32_t kind)
{
    return kind >= PD_KIND_TENSOR && kind <= PD_KIND_TUPLE && kind != 16;
}

static pd_status read_tensor(const char *name, const Pd__VarType__TensorDesc *from, struct pd_meta *meta)
{
    if (!from) return PD_OK;
    if (!pd_dtype_size((enum pd_dtype)from->data_type) && from->data_type != 19)
        return pd_fail(PD_FORMAT, "the model file gives variable '%s' the unknown element type %d", name,
                       (int)from->data_type);
    meta->dtype = (enum pd_dtype)from->data_type;
    if (from->n_dims > PD_MAX_RANK)
        return pd_fail(PD_FORMAT,
                       "the model file gives variable '%s' %zu dimensions; at most %d are supported", name,
                       from->n_dims, PD_MAX_RANK);
    /* More elements than memory can address would overflow the arithmetic of shapes later. */
    int64_t elements = 1;
    for (size_t i = 0; i < from->n_dims; i++)
        if (__builtin_mul_overflow(elements, from->dims[i] > 0 ? from->dims[i] : 1, &elements) ||
            elements > 1ll << 40)
            return pd_fail(PD_FORMAT, "the model file gives variable '%s' an impossible shape", name);
    return pd_meta_set_dims(meta, (int)from->n_dims, from->dims);
}

static pd_status keep_extra(const Pd__VarType *from, struct pd_var *var)
{
    size_t n = pd__var_type__get_packed_size(from);
    uint8_t *bytes = pd_malloc(n);
    if (!bytes) return pd_no_memory();
    pd__var_type__pack(from, bytes);
    pd_buf_add(&var->extra, bytes, n);
    pd_free(bytes);
    return var->extra.failed ? pd_no_memory() : PD_OK;
}

/* How many bytes a character of UTF-8 has that begins there; 0: none does. */
static int character(const unsigned char *at)
{
    int n = at[0] < 0x80                    ? 1
            : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
            : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
            : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                            : 0;
    for (int i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    int is_overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    int is_beyond = (at[0] == 0xed && at[1] >= 0xa0) || (at[0] == 0xf4 && at[1] >= 0x90);
    return n > 1 && (is_overlong || is_beyond) ? 0 : n;
}

/* protobuf's texts are UTF-8, and so are names; its library does not look. */
static pd_status check_name(const char *name)
{
    const unsigned char *at = (const unsigned char *)name;
    for (int n; *at; at += n)
        if (!(n = character(at)))
            return pd_fail(PD_FORMAT,
                           "the model file has a name that is no UTF-8 at its byte %d: it is damaged",
                           (int)(at - (const unsigned char *)name));
    return PD_OK;
}

static pd_status read_var(const Pd__VarDesc *from, struct pd_block *block)
{
    struct pd_var *var;
    int existed;
    const Pd__VarType *t = from->type;
    PD_TRY(check_name(from->name));
    if (!t || !kind_known(t->type))
        return pd_fail(PD_FORMAT, "the model file gives variable '%s' the unknown kind %d", from->name,
                       t ? (int)t->type : -1);
    PD_TRY(pd_var_new(block, from->name, (enum pd_kind)t->type, &var, &existed));
    if (existed)
        return pd_fail(PD_FORMAT, "the model file names variable '%s' twice in block %d", from->name,
                       block->index);
    if (from->persistable) var->flags |= PD_VAR_PERSISTABLE;
    if (from->need_check_feed) var->flags |= PD_VAR_CHECK_FEED;
    if (t->reader || t->tuple) PD_TRY(keep_extra(t, var));
    const Pd__VarType__LoDTensorDesc *l = t->lod_tensor ? t->lod_tensor : t->tensor_array;
    if (l) {
        var->meta.lod_level = l->lod_level;
        return read_tensor(from->name, l->tensor, &var->meta);
    }
    return read_tensor(from->name, t->selected_rows, &var->meta);
}

static pd_status read_attr(const Pd__OpDesc__Attr *from, int blocks, struct pd_attr *v)
{
    *v = (struct pd_attr){.type = (enum pd_attr_type)from->type};
    switch (v->type) {
    case PD_ATTR_INT:
        v->i = from->i;
        break;
    case PD_ATTR_FLOAT:
        v->f = from->f;
        break;
    case PD_ATTR_STRING:
        v->s = from->s ? from->s : "";
        break;
    case PD_ATTR_BOOL:
        v->b = from->b != 0;
        break;
    case PD_ATTR_BLOCK:
        v->block = from->block_idx;
        break;
    case PD_ATTR_LONG:
        v->l = from->l;
        break;
    case PD_ATTR_INTS:
        v->n = (int)from->n_ints, v->ints = from->ints;
        break;
    case PD_ATTR_FLOATS:
        v->n = (int)from->n_floats, v->floats = from->floats;
        break;
    case PD_ATTR_STRINGS:
        v->n = (int)from->n_strings, v->strings = (const char *const *)from->strings;
        break;
    case PD_ATTR_BLOCKS:
        v->n = (int)from->n_blocks_idx, v->blocks = from->blocks_idx;
        break;
    case PD_ATTR_LONGS:
        v->n = (int)from->n_longs, v->longs = from->longs;
        break;
    case PD_ATTR_BOOLS:
        v->n = (int)from->n_bools;
        break; /* the caller converts them */
    default:
        return pd_fail(PD_FORMAT, "the model file gives attribute '%s' the unknown type %d", from->name,
                       (int)from->type);
    }
    if (v->type == PD_ATTR_BLOCK && (v->block < 0 || v->block >= blocks))
        return pd_fail(PD_FORMAT, "the model file's attribute '%s' names block %d of %d", from->name,
                       v->block, blocks);
    for (int i = 0; v->type == PD_ATTR_BLOCKS && i < v->n; i++)
        if (v->blocks[i] < 0 || v->blocks[i] >= blocks)
            return pd_fail(PD_FORMAT, "the model file's attribute '%s' names block %d of %d", from->name,
                           v->blocks[i], blocks);
    return PD_OK;
}

static pd_status read_side(struct pd_opdesc *op, int is_output, Pd__OpDesc__Var **list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        PD_TRY(check_name(list[i]->parameter));
        PD_TRY(pd_opdesc_add_arg(op, is_output, list[i]->parameter, NULL));
        for (size_t k = 0; k < list[i]->n_arguments; k++) {
            PD_TRY(check_name(list[i]->arguments[k]));
            PD_TRY(pd_opdesc_add_arg(op, is_output, list[i]->parameter, list[i]->arguments[k]));
        }
    }
    return PD_OK;
}

static pd_status read_attrs(struct pd_opdesc *op, const Pd__OpDesc *from, int blocks)
{
    for (size_t i = 0; i < from->n_attrs; i++) {
        const Pd__OpDesc__Attr *a = from->attrs[i];
        struct pd_attr value;
        uint8_t *bools = NULL;
        PD_TRY(check_name(a->name));
        PD_TRY(read_attr(a, blocks, &value));
        if (value.type == PD_ATTR_BOOLS) {
            bools = pd_malloc(a->n_bools);
            if (!bools) return pd_no_memory();
            for (size_t k = 0; k < a->n_bools; k++)
                bools[k] = a->bools[k] != 0;
            value.bools = bools;
        }
        pd_status status = pd_opdesc_set_attr(op, a->name, &value, 0);
        pd_free(bools);
        PD_TRY(status);
    }
    return PD_OK;
}

static pd_status read_op(const Pd__OpDesc *from, struct pd_block *block, int blocks)
{
    struct pd_opdesc *op;
    PD_TRY(check_name(from->type));
    PD_TRY(pd_opdesc_new(block->program, from->type, &op));
    op->is_target = from->is_target != 0;
    pd_status status = read_side(op, 0, from->inputs, from->n_inputs);
    if (status == PD_OK) status = read_side(op, 1, from->outputs, from->n_outputs);
    if (status == PD_OK) status = read_attrs(op, from, blocks);
    if (status == PD_OK && !pd_program_take_op_id(block->program, op)) status = pd_no_memory();
    if (status == PD_OK && !pd_vec_push(&block->ops, op)) {
        block->program->op_by_id.at[op->id] = NULL;
        status = pd_no_memory();
    }
    if (status != PD_OK) {
        if (op->id >= 0) block->program->op_by_id.at[op->id] = NULL;
        pd_opdesc_free(op);
        return status;
    }
    op->block = block;
    return PD_OK;
}

static pd_status read_blocks(const Pd__ProgramDesc *m, struct pd_program *p)
{
    int n = (int)m->n_blocks;
    for (int i = 0; i < n; i++) {
        const Pd__BlockDesc *from = m->blocks[i];
        struct pd_block *block = i == 0 ? p->blocks.at[0] : NULL;
        /* A parent comes before its children, so that there is no cycle. */
        if (from->idx != i || from->parent_idx >= i || from->parent_idx < -1)
            return pd_fail(PD_FORMAT, "the model file's block %d calls itself %d with parent %d", i,
                           from->idx, from->parent_idx);
        if (!block) PD_TRY(pd_block_new(p, from->parent_idx, &block));
        if (from->has_forward_block_idx && from->forward_block_idx < n)
            block->forward = from->forward_block_idx;
        for (size_t k = 0; k < from->n_vars; k++)
            PD_TRY(read_var(from->vars[k], block));
    }
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < m->blocks[i]->n_ops; k++)
            PD_TRY(read_op(m->blocks[i]->ops[k], p->blocks.at[i], n));
    return PD_OK;
}

pd_status pd_program_read(const struct pd_op_set *ops, const void *bytes, size_t n, struct pd_program **out)
{
    Pd__ProgramDesc *m = pd__program_desc__unpack(NULL, n, bytes);
    if (!m) return pd_fail(PD_FORMAT, "%zu bytes do not hold a Program: not a Paddle model, or cut short", n);
    struct pd_program *p = NULL;
    pd_status status = PD_OK;
    if (m->n_blocks < 1 || m->n_blocks > 100000)
        status = pd_fail(PD_FORMAT, "the model holds %zu blocks; it needs at least one", m->n_blocks);
    if (status == PD_OK) status = pd_program_new(ops, &p);
    if (status == PD_OK) status = read_blocks(m, p);
    if (status == PD_OK) {
        if (m->version) p->file_version = m->version->version;
        pd_buf_add(&p->compatible, m->op_compatible_map.data,
                   m->has_op_compatible_map ? m->op_compatible_map.len : 0);
        if (p->compatible.failed) status = pd_no_memory();
    }
    pd__program_desc__free_unpacked(m, NULL);
    if (status != PD_OK) {
        pd_program_unref(p);
        return status;
    }
    *out = p;
    return PD_OK;
}
