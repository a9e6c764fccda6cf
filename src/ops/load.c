/* Variables from files: load for one variable, load_combine for many in one file. Everything is read before
 * any variable is changed. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "ops/save_load.h"
#include "tensor/file.h"
#include "tensor/half.h"

extern const struct pd_op pd_op_load;

static pd_status from_half(struct pd_tensor *to, enum pd_dtype dtype, const struct pd_tensor *from)
{
    int64_t n = pd_tensor_numel(from);
    PD_TRY(pd_tensor_resize(to, dtype, from->meta.rank, from->meta.dim));
    pd_meta_share_lod(&to->meta, &from->meta);
    const uint16_t *in = from->data;
    PD_SWITCH_FLOAT(dtype, T, {
        for (int64_t i = 0; i < n; i++)
            ((T *)to->data)[i] = (T)pd_half_to_float(in[i]);
    })
    return PD_OK;
}

static int has_dims(const struct pd_meta *meta, const struct pd_attr *shape)
{
    int same = meta->rank == shape->n;
    for (int i = 0; i < shape->n && same; i++)
        same = meta->dim[i] == shape->longs[i];
    return same;
}

/* A file has the whole variable: one of another shape has other elements at the same places. */
static pd_status check_whole(const struct pd_value *v, const char *whole, const struct pd_attr *shape)
{
    if (!*whole || has_dims(&v->tensor.meta, shape)) return PD_OK;
    struct pd_buf wanted = {0};
    for (int i = 0; i < shape->n; i++)
        pd_buf_printf(&wanted, "%s%lld", i ? ", " : "", (long long)shape->longs[i]);
    pd_status status =
        wanted.failed
            ? pd_no_memory()
            : pd_fail(PD_SHAPE,
                      "'%s' has shape [%s] in this job, and the file holds shape %s: it belongs to another "
                      "model",
                      whole, wanted.at ? wanted.at : "", pd_meta_dims_text(&v->tensor.meta));
    pd_buf_free(&wanted);
    return status;
}

/* Elements [seek, seek + product of shape) of what was read, as a tensor of that shape. */
static pd_status cut(struct pd_value *v, int64_t seek, const struct pd_attr *shape)
{
    int64_t dim[PD_MAX_RANK], want = 1, have = pd_tensor_numel(&v->tensor);
    if (shape->n > PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "attribute shape has %d dimensions; at most %d", shape->n, PD_MAX_RANK);
    for (int i = 0; i < shape->n; i++) {
        dim[i] = shape->longs[i];
        if (dim[i] < 0 || __builtin_mul_overflow(want, dim[i], &want))
            return pd_fail(PD_SHAPE, "attribute shape asks for size %lld", (long long)dim[i]);
    }
    if (seek > have || want > have - seek)
        return pd_fail(PD_RANGE,
                       "the file holds %lld elements (shape %s), asked for %lld from number %lld on",
                       (long long)have, pd_meta_dims_text(&v->tensor.meta), (long long)want, (long long)seek);
    size_t item = pd_dtype_size(v->tensor.meta.dtype);
    memmove(v->tensor.data, (char *)v->tensor.data + (size_t)seek * item, (size_t)want * item);
    pd_meta_take_lod(&v->tensor.meta, NULL);
    return pd_meta_set_dims(&v->tensor.meta, shape->n, dim);
}

/* What the variable is to be: as it is declared or, where the Program does not say, as it is; NULL: not
 * known. */
static const struct pd_meta *expected(const struct pd_run *r, int i)
{
    const struct pd_value *old = r->out[0].at[i];
    const struct pd_meta *declared = r->step->declared(r, 1, 0, i);
    if (declared) return declared;
    return pd_value_ready(old) && old->tensor.data && !pd_value_is_rows(old) ? &old->tensor.meta : NULL;
}

/* What was read fits the variable that it is for; float16 is widened for one that is not float16. */
static pd_status fit(struct pd_value *fresh, const struct pd_meta *is, int half)
{
    struct pd_tensor *t = &fresh->tensor;
    int known = is && !pd_value_is_rows(fresh);
    enum pd_dtype want = half ? PD_DTYPE_FP16 : known ? is->dtype : t->meta.dtype;
    if (known && !pd_meta_dims_match(is, &t->meta))
        return pd_fail(PD_SHAPE,
                       "the file holds shape %s, the variable has shape %s; it belongs to another model",
                       pd_meta_dims_text(&t->meta), pd_meta_dims_text(is));
    if (t->meta.dtype == want) return PD_OK;
    struct pd_tensor other = {.meta = {.kind = PD_KIND_TENSOR, .dtype = PD_DTYPE_NONE}};
    pd_status status;
    if (want == PD_DTYPE_FP16 && pd_dtype_is_float(t->meta.dtype))
        status = pd_save_load_half(&other, t);
    else if (t->meta.dtype == PD_DTYPE_FP16 && pd_dtype_is_float(want))
        status = from_half(&other, want, t);
    else if (half)
        return PD_OK;
    else
        return pd_fail(PD_TYPE, "the file holds %s, the variable is %s; it belongs to another model",
                       pd_dtype_name(t->meta.dtype), pd_dtype_name(want));
    if (status == PD_OK) {
        pd_tensor_reset(t);
        *t = other;
    } else {
        pd_tensor_reset(&other);
    }
    return status;
}

/* `to` becomes what `from` is; `from` is left empty. */
static void move_value(struct pd_value *to, struct pd_value *from)
{
    pd_value_reset(to, from->tensor.meta.kind);
    to->tensor = from->tensor;
    to->rows.at = from->rows.at;
    to->rows.n = from->rows.n;
    to->rows.cap = from->rows.cap;
    to->height = from->height;
    from->tensor = (struct pd_tensor){.meta = {.kind = PD_KIND_TENSOR, .dtype = PD_DTYPE_NONE}};
    from->rows.at = NULL;
    from->rows.n = from->rows.cap = 0;
}

enum { LOAD_HALF, LOAD_PATH, SEEK, SHAPE, WHOLE, WHOLE_SHAPE };
enum { C_HALF, C_PATH, FROM_MEMORY };

static pd_status read_one(const struct pd_run *r, int i, FILE *file, int half, struct pd_value **fresh)
{
    const struct pd_value *old = r->out[0].at[i];
    enum pd_kind kind = old->tensor.meta.kind;
    PD_TRY(pd_value_new(kind == PD_KIND_SELECTED_ROWS ? kind : PD_KIND_TENSOR, fresh));
    PD_TRY(pd_value_read_file(*fresh, file));
    if (r->op == &pd_op_load) PD_TRY(check_whole(*fresh, r->attr[WHOLE].s, &r->attr[WHOLE_SHAPE]));
    if (r->op == &pd_op_load && r->attr[SEEK].l >= 0) PD_TRY(cut(*fresh, r->attr[SEEK].l, &r->attr[SHAPE]));
    return fit(*fresh, expected(r, i), half);
}

static pd_status load_file(const struct pd_run *r, const char *path, int half)
{
    int n = r->out[0].n, c;
    FILE *file = fopen(path, "rb");
    if (!file) return pd_save_load_error("read", path);
    struct stat info;
    if (fstat(fileno(file), &info) == 0 && S_ISDIR(info.st_mode)) {
        fclose(file);
        return pd_fail(PD_IO, "cannot read '%s': it is a folder", path);
    }
    struct pd_value **fresh = pd_calloc((size_t)n + 1, sizeof *fresh);
    pd_status status = fresh ? PD_OK : pd_no_memory();
    for (int i = 0; i < n && status == PD_OK; i++) {
        if (!r->out[0].at[i]) continue;
        status = read_one(r, i, file, half, &fresh[i]);
        if (status != PD_OK)
            pd_error_add(" (variable '%s', number %d of %d)", r->step->name(r, 1, 0, i), i + 1, n);
    }
    if (status == PD_OK && r->op != &pd_op_load && (c = fgetc(file)) != EOF)
        status =
            pd_fail(PD_FORMAT,
                    "the file holds more than the %d variables asked for; it was saved with another list of "
                    "variables",
                    n);
    if (status != PD_OK) pd_error_add(" [file %s]", path);
    for (int i = 0; fresh && i < n; i++) {
        if (status == PD_OK && fresh[i]) move_value(r->out[0].at[i], fresh[i]);
        pd_value_unref(fresh[i]);
    }
    pd_free(fresh);
    fclose(file);
    return status;
}

static pd_status load_run(const struct pd_run *r)
{
    return load_file(r, r->attr[LOAD_PATH].s, r->attr[LOAD_HALF].b);
}

static pd_status load_combine_run(const struct pd_run *r)
{
    if (r->attr[FROM_MEMORY].b)
        return pd_fail(
            PD_UNSUPPORTED,
            "model_from_memory is set: bytes cannot stand in an attribute; write them to a file and "
            "give its path");
    return load_file(r, r->attr[C_PATH].s, r->attr[C_HALF].b);
}

const struct pd_op pd_op_load = {
    .type = "load",
    .doc = "Reads a variable from a file.",
    .inputs = (const struct pd_slot_def[]){{0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    /* whole, whole_shape: the variable that the file must have, where Out is a slice of it. */
    .attrs = (const struct pd_attr_def[]){PD_DEF_BOOL("load_as_fp16", 0),
                                          PD_DEF_STRING("file_path", ""),
                                          PD_DEF_LONG("seek", -1),
                                          PD_DEF_LONGS("shape"),
                                          PD_DEF_STRING("whole", ""),
                                          PD_DEF_LONGS("whole_shape"),
                                          {0}},
    .flags = PD_OP_EFFECT | PD_OP_NO_GRAD | PD_OP_DYNAMIC,
    .infer = pd_save_load_infer,
    .run = load_run,
};

const struct pd_op pd_op_load_combine = {
    .type = "load_combine",
    .doc = "Reads variables from one file, in the order given.",
    .inputs = (const struct pd_slot_def[]){{0}},
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_LIST}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_BOOL("load_as_fp16", 0),
                                          PD_DEF_STRING("file_path", ""),
                                          PD_DEF_BOOL("model_from_memory", 0),
                                          {0}},
    .flags = PD_OP_EFFECT | PD_OP_NO_GRAD | PD_OP_DYNAMIC,
    .infer = pd_save_load_infer,
    .run = load_combine_run,
};
