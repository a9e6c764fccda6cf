/* Ops of Programs that read their data themselves (py_reader, DataLoader with iterable=False). They are
 * marks: who runs the Program takes batches from the reader and feeds them as the outputs of `read`. */
#include "program/op.h"

const struct pd_op pd_op_create_py_reader = {
    .type = "create_py_reader",
    .doc = "Marks a reader whose batches come from Python.",
    .inputs = (const struct pd_slot_def[]){{"blocking_queue", PD_SLOT_OPTIONAL}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INTS("shape_concat"),
                                          PD_DEF_INTS("ranks"),
                                          PD_DEF_INTS("lod_levels"),
                                          PD_DEF_INTS("dtypes"),
                                          PD_DEF_INTS("need_check_feed"),
                                          PD_DEF_INT("device_index", 0),
                                          PD_DEF_INT("device_count", 1),
                                          {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_MARK,
};

const struct pd_op pd_op_create_double_buffer_reader = {
    .type = "create_double_buffer_reader",
    .doc = "Marks a reader that holds batches of another one ready.",
    .inputs = (const struct pd_slot_def[]){{"UnderlyingReader", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_STRING("place", "AUTO"), {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_MARK,
};

const struct pd_op pd_op_read = {
    .type = "read",
    .doc = "Marks the variables that a reader's batches are for.",
    .inputs = (const struct pd_slot_def[]){{"Reader", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_LIST}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_BOOL("throw_eof_exp", 1), PD_DEF_BOOL("drop_last", 1), {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_MARK,
};
