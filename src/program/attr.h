/* Attributes of ops: typed values, as framework.proto knows them. */
#ifndef PD_PROGRAM_ATTR_H
#define PD_PROGRAM_ATTR_H

#include <paddle/attr.h>
#include <paddle/status.h>
#include <stdint.h>

/* What an op says of an attribute: its name, type and default. */
struct pd_attr_def {
    const char *name;
    struct pd_attr value; /* type and default */
};

/* Entries of an op's attribute table. clang-format would take their braces for blocks. */
/* clang-format off */
#define PD_DEF_INT(name_, v) {name_, {.type = PD_ATTR_INT, .i = (v)}}
#define PD_DEF_FLOAT(name_, v) {name_, {.type = PD_ATTR_FLOAT, .f = (v)}}
#define PD_DEF_STRING(name_, v) {name_, {.type = PD_ATTR_STRING, .s = (v)}}
#define PD_DEF_BOOL(name_, v) {name_, {.type = PD_ATTR_BOOL, .b = (v)}}
#define PD_DEF_LONG(name_, v) {name_, {.type = PD_ATTR_LONG, .l = (v)}}
#define PD_DEF_BLOCK(name_) {name_, {.type = PD_ATTR_BLOCK, .block = -1}}
/* Lists: empty by default, or PD_DEF_INTS_OF("strides", 1, 1). */
#define PD_DEF_INTS(name_) {name_, {.type = PD_ATTR_INTS}}
#define PD_DEF_INTS_OF(name_, ...)                                                                           \
    {name_,                                                                                                  \
     {.type = PD_ATTR_INTS,                                                                                  \
      .n = sizeof((int32_t[]){__VA_ARGS__}) / 4, .ints = (const int32_t[]){__VA_ARGS__}}}
#define PD_DEF_FLOATS(name_) {name_, {.type = PD_ATTR_FLOATS}}
#define PD_DEF_FLOATS_OF(name_, ...)                                                                         \
    {name_,                                                                                                  \
     {.type = PD_ATTR_FLOATS,                                                                                \
      .n = sizeof((float[]){__VA_ARGS__}) / 4, .floats = (const float[]){__VA_ARGS__}}}
#define PD_DEF_STRINGS(name_) {name_, {.type = PD_ATTR_STRINGS}}
#define PD_DEF_BOOLS(name_) {name_, {.type = PD_ATTR_BOOLS}}
#define PD_DEF_LONGS(name_) {name_, {.type = PD_ATTR_LONGS}}
#define PD_DEF_BLOCKS(name_) {name_, {.type = PD_ATTR_BLOCKS}}
/* clang-format on */

/* "int", "list of floats", ... */
const char *pd_attr_type_name(enum pd_attr_type type);
/* A deep copy that owns its memory; freed by pd_attr_free. */
pd_status pd_attr_copy(struct pd_attr *to, const struct pd_attr *from);
void pd_attr_free(struct pd_attr *attr);
/* A copy of `from` as `type`, where that loses nothing a user meant (int for float, int for long, bool for
 * int, a single value for a list, ...). PD_TYPE otherwise. */
pd_status pd_attr_convert(struct pd_attr *to, enum pd_attr_type type, const struct pd_attr *from);

#endif
