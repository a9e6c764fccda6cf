/* Var: the handle of a variable of a Program. fluid.Variable derives from it. */
#include "part.h"

static int describe(PyObject *self, pd_var_desc *desc)
{
    return core_failed(core_part(self)->state,
                       pd_var_describe(core_part_of(self), core_part(self)->id, desc));
}

static PyObject *done(PyObject *self, pd_status status)
{
    return core_result(core_part(self)->state, status);
}

static PyObject *get_name(PyObject *self, void *unused)
{
    (void)unused;
    pd_var_desc desc;
    return describe(self, &desc) ? NULL : PyUnicode_FromString(desc.name);
}

static int set_name(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    const char *name = value ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
    if (!name) {
        if (!value) PyErr_SetString(PyExc_TypeError, "The name of a variable cannot be removed.");
        return -1;
    }
    return core_failed(core_part(self)->state,
                       pd_var_set_name(core_part_of(self), core_part(self)->id, name));
}

static PyObject *get_shape(PyObject *self, void *unused)
{
    (void)unused;
    pd_var_desc desc;
    if (describe(self, &desc)) return NULL;
    PyObject *shape = PyTuple_New(desc.rank > 0 ? desc.rank : 0);
    for (int i = 0; shape && i < desc.rank; i++)
        PyTuple_SetItem(shape, i, PyLong_FromLongLong(desc.dims[i]));
    return shape;
}

enum { FIELD_DTYPE, FIELD_KIND, FIELD_LOD_LEVEL, FIELD_BLOCK, FIELD_FLAGS };

static PyObject *get_field(PyObject *self, void *which)
{
    pd_var_desc desc;
    if (describe(self, &desc)) return NULL;
    switch ((int)(intptr_t)which) {
    case FIELD_DTYPE:
        return desc.dtype < 0 ? core_dtype_object(core_part(self)->state, PD_BOOL)
                              : core_dtype_object(core_part(self)->state, desc.dtype);
    case FIELD_KIND:
        return core_dtype_object(core_part(self)->state, desc.kind);
    case FIELD_LOD_LEVEL:
        return PyLong_FromLong(desc.lod_level);
    case FIELD_BLOCK:
        return PyLong_FromLong(desc.block);
    default:
        return PyLong_FromUnsignedLong(desc.flags);
    }
}

static PyObject *has_dtype(PyObject *self, void *unused)
{
    (void)unused;
    pd_var_desc desc;
    return describe(self, &desc) ? NULL : PyBool_FromLong(desc.dtype >= 0);
}

/* The flag is the getter's closure. */
static PyObject *get_flag(PyObject *self, void *flag)
{
    pd_var_desc desc;
    return describe(self, &desc) ? NULL : PyBool_FromLong((desc.flags & (unsigned)(uintptr_t)flag) != 0);
}

static int set_flag(PyObject *self, PyObject *value, void *flag)
{
    unsigned mask = (unsigned)(uintptr_t)flag;
    int truth = value ? PyObject_IsTrue(value) : 0;
    if (truth < 0) return -1;
    return core_failed(core_part(self)->state,
                       pd_var_set_flags(core_part_of(self), core_part(self)->id, mask, truth ? mask : 0));
}

static PyGetSetDef getters[] = {
    {"_id", core_part_id, NULL, NULL, NULL},
    {"_program", core_part_program, NULL, NULL, NULL},
    {"name", get_name, set_name, "The name; setting it renames the variable in its Program.", NULL},
    {"shape", get_shape, NULL, "Dimensions; -1: known only when running.", NULL},
    {"dtype", get_field, NULL, "The element type.", (void *)FIELD_DTYPE},
    {"type", get_field, NULL, "The kind: LOD_TENSOR, SELECTED_ROWS, ...", (void *)FIELD_KIND},
    {"lod_level", get_field, NULL, "Levels of the LoD.", (void *)FIELD_LOD_LEVEL},
    {"_block_index", get_field, NULL, NULL, (void *)FIELD_BLOCK},
    {"_flags", get_field, NULL, NULL, (void *)FIELD_FLAGS},
    {"_has_dtype", has_dtype, NULL, NULL, NULL},
    {"persistable", get_flag, set_flag, "Lives in the scope, from run to run.",
     (void *)PD_VAR_IS_PERSISTABLE},
    {"stop_gradient", get_flag, set_flag, "Gradients end here.", (void *)PD_VAR_STOPS_GRADIENT},
    {"is_data", get_flag, set_flag, "Made to be fed.", (void *)PD_VAR_IS_FEED},
    {"need_check_feed", get_flag, set_flag, "A feed must have the declared shape.",
     (void *)PD_VAR_CHECKS_FEED},
    {"_is_parameter", get_flag, set_flag, NULL, (void *)PD_VAR_IS_PARAMETER},
    {"_is_trainable", get_flag, set_flag, NULL, (void *)PD_VAR_IS_TRAINABLE},
    {0},
};

static PyObject *set_shape(PyObject *self, PyObject *shape)
{
    struct core_scratch scratch = {0};
    int64_t *dims, n;
    PyObject *result = NULL;
    if (core_int64s(&scratch, shape, &dims, &n) == 0)
        result = done(self, pd_var_set_shape(core_part_of(self), core_part(self)->id, (int)n, dims));
    core_scratch_free(&scratch);
    return result;
}

static PyObject *set_number(PyObject *self, PyObject *value,
                            pd_status (*set)(pd_program *program, int64_t id, int number))
{
    long number = PyLong_AsLong(value);
    if (number == -1 && PyErr_Occurred()) return NULL;
    return done(self, set(core_part_of(self), core_part(self)->id, (int)number));
}

static PyObject *set_dtype(PyObject *self, PyObject *value)
{
    return set_number(self, value, pd_var_set_dtype);
}

static PyObject *set_kind(PyObject *self, PyObject *value)
{
    return set_number(self, value, pd_var_set_kind);
}

static PyObject *set_lod_level(PyObject *self, PyObject *value)
{
    return set_number(self, value, pd_var_set_lod_level);
}

static PyObject *delete (PyObject *self, PyObject *unused)
{
    (void)unused;
    return done(self, pd_var_delete(core_part_of(self), core_part(self)->id));
}

static PyObject *dump(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_bytes bytes;
    if (core_failed(core_part(self)->state, pd_var_dump(core_part_of(self), core_part(self)->id, &bytes)))
        return NULL;
    return core_bytes_to_text(&bytes);
}

static PyMethodDef methods[] = {
    {"_set_shape", set_shape, METH_O, NULL},
    {"_set_dtype", set_dtype, METH_O, NULL},
    {"_set_kind", set_kind, METH_O, NULL},
    {"_set_lod_level", set_lod_level, METH_O, NULL},
    {"_delete", delete, METH_NOARGS, NULL},
    {"_dump", dump, METH_NOARGS, NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, CORE_TEXT("The handle of a variable of a Program.")},
    {Py_tp_new, core_part_new},
    {Py_tp_dealloc, core_part_dealloc},
    {Py_tp_traverse, core_part_traverse},
    {Py_tp_clear, core_part_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

PyType_Spec core_var_spec = {
    .name = "paddle._core.Var",
    .basicsize = sizeof(struct core_part),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
