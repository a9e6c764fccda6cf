/* The library itself: version, build, flags, ops, profile. */
#include <paddle/paddle.h>
#include <string.h>

#include "api/api.h"
#include "base/crc32c.h"
#include "base/flags.h"
#include "base/parallel.h"
#include "exec/profile.h"

const char *pd_version(void)
{
    return PD_CPADDLE_VERSION;
}
const char *pd_paddle_version(void)
{
    return "1.8.5";
}

int pd_build_has(const char *feature)
{
    const struct {
        const char *name;
        int there;
    } table[] = {
        {"avx",
#ifdef __x86_64__
         __builtin_cpu_supports("avx") != 0
#else
         0
#endif
        },
        {"gpu", PD_WITH_GPU},
        {"double", 0},
        {"python", PD_WITH_PYTHON},
        {"rdma", PD_WITH_RDMA},
        {"timer", 0},
        {"distribute", PD_WITH_DISTRIBUTE},
        {"onednn", PD_WITH_ONEDNN},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, feature) == 0) return table[i].there;
    return 0;
}

void pd_set_threads(int threads)
{
    pd_threads_set_default(threads);
}

int pd_get_threads(void)
{
    pd_flag_int(PD_FLAG_paddle_num_threads); /* the environment is read at first use */
    return pd_threads();
}

pd_status pd_flag_check(void)
{
    return pd_flag_verify();
}
pd_status pd_flag_set(const char *name, const char *value)
{
    return pd_flag_assign(name, value);
}
pd_status pd_flag_get(const char *name, const char **value)
{
    return pd_flag_read(name, value);
}
const char *pd_flag_name(int index)
{
    return index >= 0 ? pd_flag_name_of((enum pd_flag)index) : NULL;
}

uint32_t pd_checksum(uint32_t crc, const void *bytes, size_t n)
{
    return pd_crc32c(crc, bytes, n);
}

void pd_bytes_free(pd_bytes *bytes)
{
    pd_free(bytes->at);
    *bytes = (pd_bytes){0};
}

pd_status pd_api_bytes(struct pd_buf *buf, pd_bytes *out)
{
    if (!buf->failed && !buf->at) pd_buf_add(buf, "", 0);
    if (buf->failed) {
        pd_buf_free(buf);
        return pd_no_memory();
    }
    *out = (pd_bytes){buf->at, buf->n};
    return PD_OK;
}

size_t pd_type_size(int dtype)
{
    return pd_dtype_size((enum pd_dtype)dtype);
}
const char *pd_type_name(int dtype)
{
    return pd_dtype_name((enum pd_dtype)dtype);
}

/* ---- ops ---- */

int pd_op_known(const char *type)
{
    return pd_op_find(&pd_ops, type) != NULL;
}

const char *pd_op_type_at(int index)
{
    for (int i = 0; pd_ops.ops[i]; i++)
        if (i == index) return pd_ops.ops[i]->type;
    return NULL;
}

static pd_status find_op(const char *type, const struct pd_op **out)
{
    *out = pd_op_find(&pd_ops, type);
    return *out ? PD_OK : pd_fail(PD_NOT_FOUND, "there is no op '%s'", type);
}

const char *pd_op_doc(const char *type)
{
    const struct pd_op *op = pd_op_find(&pd_ops, type);
    return op && op->doc ? op->doc : "";
}

pd_status pd_op_slot_def(const char *type, int is_output, int i, const char **name, unsigned *flags)
{
    const struct pd_op *op;
    PD_TRY(find_op(type, &op));
    const struct pd_slot_def *slots = is_output ? op->outputs : op->inputs;
    if (i < 0 || i >= pd_slot_count(slots)) {
        *name = NULL;
        *flags = 0;
        return PD_OK;
    }
    *name = slots[i].name;
    *flags = slots[i].flags & (PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_HIDDEN);
    return PD_OK;
}

pd_status pd_op_attr_def(const char *type, int i, const char **name, struct pd_attr *value)
{
    const struct pd_op *op;
    PD_TRY(find_op(type, &op));
    if (i < 0 || i >= pd_attr_count(op->attrs)) {
        *name = NULL;
        return PD_OK;
    }
    *name = op->attrs[i].name;
    *value = op->attrs[i].value;
    return PD_OK;
}

int pd_op_has_grad(const char *type)
{
    const struct pd_op *op = pd_op_find(&pd_ops, type);
    if (op && (op->grad_type || op->make_grad)) return 1;
    return op && (op->flags & PD_OP_NO_GRAD) ? 0 : -1;
}

/* ---- profile ---- */

void pd_profile_start(void)
{
    pd_profile_switch(1);
}
void pd_profile_stop(void)
{
    pd_profile_switch(0);
}
void pd_profile_reset(void)
{
    pd_profile_clear();
}

pd_status pd_profile_report(const char *sort, pd_bytes *out)
{
    struct pd_buf text = {0};
    pd_status status = pd_profile_print(sort, &text);
    if (status != PD_OK) {
        pd_buf_free(&text);
        return status;
    }
    return pd_api_bytes(&text, out);
}
