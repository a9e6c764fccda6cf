/* Op: the handle of an op of a Program. fluid's Operator derives from it. */
#include "part.h"

static pd_status slot_at(PyObject *self, int is_output, int i, const char **slot, int *n,
                         const char *const **vars)
{
    return pd_op_get_slot(core_part_of(self), core_part(self)->id, is_output, i, slot, n, vars);
}

static PyObject *text_list(int n, const char *const *texts)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++)
        PyList_SetItem(list, i, PyUnicode_FromString(texts[i]));
    return list;
}

static int append_text(PyObject *list, const char *text)
{
    PyObject *object = PyUnicode_FromString(text);
    int failed = !object || PyList_Append(list, object);
    Py_XDECREF(object);
    return failed;
}

/* Variables of one slot; an empty list when the op has no such slot. */
static PyObject *vars_of(PyObject *self, PyObject *name, int is_output)
{
    struct core_scratch scratch = {0};
    PyObject *result = NULL;
    const char *wanted = core_text(core_part(self)->state, &scratch, name), *slot;
    const char *const *vars;
    for (int i = 0, n; wanted && !result; i++) {
        if (core_failed(core_part(self)->state, slot_at(self, is_output, i, &slot, &n, &vars))) break;
        if (!slot)
            result = PyList_New(0);
        else if (strcmp(slot, wanted) == 0)
            result = text_list(n, vars);
        if (PyErr_Occurred()) break;
    }
    core_scratch_free(&scratch);
    return result;
}

static PyObject *input(PyObject *self, PyObject *name)
{
    return vars_of(self, name, 0);
}

static PyObject *output(PyObject *self, PyObject *name)
{
    return vars_of(self, name, 1);
}

/* Names of the slots, or of all variables in them, once each. */
static PyObject *list_slots(PyObject *self, int is_output, int arguments)
{
    PyObject *list = PyList_New(0);
    for (int i = 0, n; list; i++) {
        const char *slot;
        const char *const *vars;
        int failed = core_failed(core_part(self)->state, slot_at(self, is_output, i, &slot, &n, &vars));
        if (!failed && !slot) break;
        if (!failed && !arguments) failed = append_text(list, slot);
        for (int k = 0; !failed && arguments && k < n; k++)
            failed = append_text(list, vars[k]);
        if (failed) Py_CLEAR(list);
    }
    return list;
}

static PyObject *input_names(PyObject *self, void *arguments)
{
    return list_slots(self, 0, arguments != NULL);
}

static PyObject *output_names(PyObject *self, void *arguments)
{
    return list_slots(self, 1, arguments != NULL);
}

static PyObject *get_type(PyObject *self, void *unused)
{
    (void)unused;
    const char *type;
    if (core_failed(core_part(self)->state, pd_op_get_type(core_part_of(self), core_part(self)->id, &type)))
        return NULL;
    return PyUnicode_FromString(type);
}

static PyObject *get_place(PyObject *self, void *want_index)
{
    int block, index;
    if (core_failed(core_part(self)->state, pd_op_get_place(core_part_of(self), core_part(self)->id, &block,
                                                            want_index ? &index : NULL)))
        return NULL;
    return PyLong_FromLong(want_index ? index : block);
}

static PyGetSetDef getters[] = {
    {"_id", core_part_id, NULL, NULL, NULL},
    {"_program", core_part_program, NULL, NULL, NULL},
    {"type", get_type, NULL, "The op's type, e.g. 'mul'.", NULL},
    {"idx", get_place, NULL, "The position in its block.", (void *)1},
    {"_block_index", get_place, NULL, NULL, NULL},
    {"input_names", input_names, NULL, "Names of the input slots.", NULL},
    {"output_names", output_names, NULL, "Names of the output slots.", NULL},
    {"input_arg_names", input_names, NULL, "Names of all input variables.", (void *)1},
    {"output_arg_names", output_names, NULL, "Names of all output variables.", (void *)1},
    {0},
};

static PyObject *set_slot(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct core_state *state = core_part(self)->state;
    struct core_scratch scratch = {0};
    const char *slot, **vars;
    int count;
    PyObject *result = NULL;
    if (!core_arity("_set_slot", n, 3, 3) && (slot = core_text(state, &scratch, args[1])) &&
        !core_names(state, &scratch, args[2], &vars, &count))
        result = core_result(state, pd_op_set_slot(core_part_of(self), core_part(self)->id,
                                                   PyObject_IsTrue(args[0]), slot, count, vars));
    core_scratch_free(&scratch);
    return result;
}

static PyObject *attr_pair(const struct pd_attr *attr)
{
    PyObject *value = core_attr_write(attr);
    return value ? Py_BuildValue("iN", (int)attr->type, value) : NULL;
}

/* (type, value) as set or by default; None when the op knows no such attribute. */
static PyObject *attr(PyObject *self, PyObject *name)
{
    struct core_state *state = core_part(self)->state;
    struct core_scratch scratch = {0};
    struct pd_attr value;
    PyObject *result = NULL;
    const char *text = core_text(state, &scratch, name);
    if (text) {
        pd_status status = pd_op_get_attr(core_part_of(self), core_part(self)->id, text, &value);
        if (status == PD_NOT_FOUND)
            result = Py_NewRef(Py_None);
        else if (!core_failed(state, status))
            result = attr_pair(&value);
    }
    core_scratch_free(&scratch);
    return result;
}

/* {name: (type, value)} of the attributes that were set. */
static PyObject *attrs(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *dict = PyDict_New();
    for (int i = 0; dict; i++) {
        const char *name;
        struct pd_attr value;
        PyObject *pair = NULL;
        int failed =
            core_failed(core_part(self)->state,
                        pd_op_get_attr_at(core_part_of(self), core_part(self)->id, i, &name, &value));
        if (!failed && !name) break;
        if (!failed) failed = !(pair = attr_pair(&value)) || PyDict_SetItemString(dict, name, pair);
        Py_XDECREF(pair);
        if (failed) Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *put_attr(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct core_state *state = core_part(self)->state;
    struct core_scratch scratch = {0};
    struct pd_attr value;
    const char *name;
    PyObject *result = NULL;
    if (!core_arity("_put_attr", n, 2, 2) && !core_numpy_init(state) &&
        (name = core_text(state, &scratch, args[0])) && !core_attr_read(state, &scratch, args[1], &value))
        result = core_result(state, pd_op_put_attr(core_part_of(self), core_part(self)->id, name, &value));
    core_scratch_free(&scratch);
    return result;
}

static PyObject *drop_attr(PyObject *self, PyObject *name)
{
    struct core_state *state = core_part(self)->state;
    struct core_scratch scratch = {0};
    const char *text = core_text(state, &scratch, name);
    PyObject *result =
        text ? core_result(state, pd_op_drop_attr(core_part_of(self), core_part(self)->id, text)) : NULL;
    core_scratch_free(&scratch);
    return result;
}

static PyObject *infer(PyObject *self, PyObject *unused)
{
    (void)unused;
    return core_result(core_part(self)->state, pd_op_infer(core_part_of(self), core_part(self)->id));
}

static PyObject *delete (PyObject *self, PyObject *unused)
{
    (void)unused;
    return core_result(core_part(self)->state, pd_op_delete(core_part_of(self), core_part(self)->id));
}

static PyObject *dump(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_bytes bytes;
    if (core_failed(core_part(self)->state, pd_op_dump(core_part_of(self), core_part(self)->id, &bytes)))
        return NULL;
    return core_bytes_to_text(&bytes);
}

static PyMethodDef methods[] = {
    {"input", input, METH_O, "input($self, slot, /)\n--\n\nNames of the variables in an input slot."},
    {"output", output, METH_O, "output($self, slot, /)\n--\n\nNames of the variables in an output slot."},
    {"_set_slot", CORE_FAST(set_slot), METH_FASTCALL, NULL},
    {"_attr", attr, METH_O, NULL},
    {"_attrs", attrs, METH_NOARGS, NULL},
    {"_put_attr", CORE_FAST(put_attr), METH_FASTCALL, NULL},
    {"_drop_attr", drop_attr, METH_O, NULL},
    {"_infer", infer, METH_NOARGS, NULL},
    {"_delete", delete, METH_NOARGS, NULL},
    {"_dump", dump, METH_NOARGS, NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, CORE_TEXT("The handle of an op of a Program.")},
    {Py_tp_new, core_part_new},
    {Py_tp_dealloc, core_part_dealloc},
    {Py_tp_traverse, core_part_traverse},
    {Py_tp_clear, core_part_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

PyType_Spec core_op_spec = {
    .name = "paddle._core.Op",
    .basicsize = sizeof(struct core_part),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
