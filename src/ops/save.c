/* Variables to files: save for one variable, save_combine for many in one file, one after the other without
 * names. Files are written aside and renamed, so that a file under its final name is always whole. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/rng.h"
#include "ops/save_load.h"
#include "tensor/file.h"

/* Makes the folders that `path` lies in. */
static pd_status make_folders(const char *path)
{
    char *copy = pd_strdup(path);
    if (!copy) return pd_no_memory();
    pd_status status = PD_OK;
    for (char *slash = copy + 1; *slash && status == PD_OK; slash++) {
        if (*slash != '/') continue;
        *slash = 0;
        if (mkdir(copy, 0777) != 0 && errno != EEXIST) status = pd_save_load_error("make the folder", copy);
        *slash = '/';
    }
    pd_free(copy);
    return status;
}

static pd_status write_one(const struct pd_value *value, int half, FILE *file, struct pd_buf *buf)
{
    if (!half || !pd_dtype_is_float(value->tensor.meta.dtype) || pd_value_is_rows(value))
        return buf ? pd_value_write(value, buf) : pd_value_write_file(value, file);
    struct pd_value *narrow;
    PD_TRY(pd_value_new(PD_KIND_TENSOR, &narrow));
    pd_status status = pd_save_load_half(&narrow->tensor, &value->tensor);
    if (status == PD_OK) status = buf ? pd_value_write(narrow, buf) : pd_value_write_file(narrow, file);
    pd_value_unref(narrow);
    return status;
}

static pd_status write_list(const struct pd_run *r, int half, FILE *file, struct pd_buf *buf)
{
    for (int i = 0; i < r->in[0].n; i++) {
        pd_status status = write_one(r->in[0].at[i], half, file, buf);
        if (status == PD_OK) continue;
        pd_error_add(" (variable '%s')", r->step->name(r, 0, 0, i));
        return status;
    }
    return PD_OK;
}

enum { STEM = 64 };

/* Where the file is while it is written. Of a long name only the start is kept, up to the end of a character:
 * this one must not be too long where that one is not. Processes of several machines may write into one
 * folder, and have the same number in their containers. */
static void name_aside(const char *path, struct pd_buf *out)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    int n = (int)strnlen(name, STEM);
    while (n && ((unsigned char)name[n] & 0xc0) == 0x80)
        n--;
    pd_buf_printf(out, "%.*s%.*s.tmp.%016" PRIx64, (int)(name - path), path, n, name, pd_rng_fresh_seed());
}

static pd_status save_file(const struct pd_run *r, const char *path, int overwrite, int half)
{
    struct stat info;
    if (!*path)
        return pd_fail(PD_INVALID, "attribute file_path is empty; give the path of the file to write");
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode)) return pd_fail(PD_IO, "cannot write '%s': it is a folder", path);
        if (!overwrite)
            return pd_fail(PD_EXISTS, "the file '%s' is there already and overwrite is false", path);
    }
    PD_TRY(make_folders(path));
    struct pd_buf aside = {0};
    name_aside(path, &aside);
    if (aside.failed) {
        pd_buf_free(&aside);
        return pd_no_memory();
    }
    pd_status status = PD_OK;
    FILE *file = fopen(aside.at, "wb");
    if (!file) {
        status = pd_save_load_error("write", path);
    } else {
        status = write_list(r, half, file, NULL);
        if (status != PD_OK) pd_error_add(" [file %s]", path);
        if (fclose(file) != 0 && status == PD_OK) status = pd_save_load_error("write", path);
        if (status == PD_OK && rename(aside.at, path) != 0) status = pd_save_load_error("write", path);
        if (status != PD_OK) remove(aside.at);
    }
    pd_buf_free(&aside);
    return status;
}

enum { OVERWRITE, HALF, PATH, TO_MEMORY };

static pd_status save_run(const struct pd_run *r)
{
    return save_file(r, r->attr[PATH].s, r->attr[OVERWRITE].b, r->attr[HALF].b);
}

static void free_bytes(void *raw)
{
    pd_buf_free(raw);
    pd_free(raw);
}

/* Bytes in memory: the output is an opaque value whose `raw` is a struct pd_buf. */
static pd_status save_bytes(const struct pd_run *r)
{
    struct pd_value *out = pd_run_out_value(r, 0);
    if (!out) return pd_fail(PD_INVALID, "with save_to_memory the op needs its output Y");
    struct pd_buf *buf = pd_calloc(1, sizeof *buf);
    if (!buf) return pd_no_memory();
    pd_status status = write_list(r, r->attr[HALF].b, NULL, buf);
    if (status != PD_OK) {
        free_bytes(buf);
        return status;
    }
    pd_value_reset(out, PD_KIND_RAW);
    out->raw = buf;
    out->raw_free = free_bytes;
    return PD_OK;
}

static pd_status save_combine_run(const struct pd_run *r)
{
    return r->attr[TO_MEMORY].b ? save_bytes(r) : save_run(r);
}

static pd_status save_combine_infer(const struct pd_infer *c)
{
    if (pd_infer_out(c, 0)) pd_infer_out(c, 0)->kind = PD_KIND_RAW;
    return PD_OK;
}

const struct pd_op pd_op_save = {
    .type = "save",
    .doc = "Writes a variable to a file.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"kLookupTablePath", PD_SLOT_OPTIONAL}, {0}},
    .attrs =
        (const struct pd_attr_def[]){
            PD_DEF_BOOL("overwrite", 1), PD_DEF_BOOL("save_as_fp16", 0), PD_DEF_STRING("file_path", ""), {0}},
    .flags = PD_OP_EFFECT | PD_OP_NO_GRAD,
    .infer = pd_save_load_infer,
    .run = save_run,
};

const struct pd_op pd_op_save_combine = {
    .type = "save_combine",
    .doc = "Writes variables to one file, in the order given.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_LIST | PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Y", PD_SLOT_OPTIONAL}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_BOOL("overwrite", 1),
                                          PD_DEF_BOOL("save_as_fp16", 0),
                                          PD_DEF_STRING("file_path", ""),
                                          PD_DEF_BOOL("save_to_memory", 0),
                                          {0}},
    .flags = PD_OP_EFFECT | PD_OP_NO_GRAD | PD_OP_DYNAMIC,
    .infer = save_combine_infer,
    .run = save_combine_run,
};
