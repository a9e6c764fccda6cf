/* get_places: the places that a Program may run on. */
#include <string.h>
#include <unistd.h>

#include "program/op.h"

enum { OUT };
enum { COUNT, TYPE };

static pd_status infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, OUT);
    if (strcmp(c->attr[TYPE].s, "CPU") != 0 && strcmp(c->attr[TYPE].s, "AUTO") != 0)
        return pd_fail(PD_UNSUPPORTED, "device_type is %s; this build has CPU places only", c->attr[TYPE].s);
    if (out) out->kind = PD_KIND_PLACE_LIST;
    return PD_OK;
}

/* A list of CPU places is its length. */
static pd_status run(const struct pd_run *r)
{
    struct pd_value *out = pd_run_out_value(r, OUT);
    int64_t n = r->attr[COUNT].i > 0 ? r->attr[COUNT].i : sysconf(_SC_NPROCESSORS_ONLN);
    pd_value_reset(out, PD_KIND_PLACE_LIST);
    out->height = n > 0 ? n : 1;
    return PD_OK;
}

const struct pd_op pd_op_get_places = {
    .type = "get_places",
    .doc = "The places that a Program may run on: CPU cores.",
    .inputs = (const struct pd_slot_def[]){{0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("device_count", 0),
                                          PD_DEF_STRING("device_type", "AUTO"),
                                          {0}},
    .flags = PD_OP_DYNAMIC | PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};
