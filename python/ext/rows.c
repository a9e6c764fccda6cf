/* SelectedRows (some rows of a tall matrix) and LoDTensorArray (a list of tensors). */
#include "core.h"

static struct core_value *of(PyObject *self)
{
    return (struct core_value *)self;
}

static int set_rows_from(PyObject *self, PyObject *rows)
{
    struct core_scratch scratch = {0};
    int64_t *values, n;
    int failed = core_int64s(&scratch, rows, &values, &n) ||
                 core_failed(of(self)->state, pd_value_set_rows(of(self)->at, n, values));
    core_scratch_free(&scratch);
    return failed;
}

static PyObject *make_rows(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *words[] = {CORE_TEXT("rows"), CORE_TEXT("height"), NULL};
    PyObject *rows = NULL;
    long long height = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OL:SelectedRows", words, &rows, &height)) return NULL;
    PyObject *self = core_value_new(type, PD_SELECTED_ROWS);
    if (self && ((rows && set_rows_from(self, rows)) ||
                 core_failed(of(self)->state, pd_value_set_height(of(self)->at, height))))
        Py_CLEAR(self);
    return self;
}

static PyObject *get_tensor(PyObject *self, PyObject *unused)
{
    (void)unused;
    return core_value_wrap(of(self)->state->tensor_type, of(self)->state, pd_value_retain(of(self)->at));
}

static PyObject *rows_of(PyObject *self, PyObject *unused)
{
    (void)unused;
    int64_t n = 0;
    const int64_t *rows = pd_value_rows(of(self)->at, &n);
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++)
        PyList_SetItem(list, i, PyLong_FromLongLong(rows[i]));
    return list;
}

static PyObject *set_rows(PyObject *self, PyObject *rows)
{
    return set_rows_from(self, rows) ? NULL : Py_NewRef(Py_None);
}

static PyObject *height(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLongLong(pd_value_height(of(self)->at));
}

static PyObject *set_height(PyObject *self, PyObject *number)
{
    long long value = PyLong_AsLongLong(number);
    if (value == -1 && PyErr_Occurred()) return NULL;
    return core_result(of(self)->state, pd_value_set_height(of(self)->at, value));
}

static PyObject *numel(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_tensor_desc tensor;
    if (core_failed(of(self)->state, pd_value_tensor(of(self)->at, &tensor))) return NULL;
    int64_t count = tensor.rank ? 1 : 0;
    for (int i = 0; i < tensor.rank; i++)
        count *= tensor.dims[i];
    return PyLong_FromLongLong(count);
}

static PyObject *nothing(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return Py_NewRef(Py_None);
}

static PyMethodDef rows_methods[] = {
    {"get_tensor", get_tensor, METH_NOARGS, "The rows' values, as a LoDTensor."},
    {"rows", rows_of, METH_NOARGS, "The numbers of the rows."},
    {"set_rows", set_rows, METH_O, NULL},
    {"height", height, METH_NOARGS, "How many rows the whole matrix has."},
    {"set_height", set_height, METH_O, NULL},
    {"numel", numel, METH_NOARGS, "How many elements the rows have together."},
    {"sync_index", nothing, METH_NOARGS, NULL},
    {0},
};

static PyType_Slot rows_slots[] = {
    {Py_tp_doc, CORE_TEXT("SelectedRows(rows=[], height=0)\n\nSome rows of a matrix of `height` rows.")},
    {Py_tp_new, make_rows},
    {Py_tp_dealloc, core_value_dealloc},
    {Py_tp_traverse, core_value_traverse},
    {Py_tp_methods, rows_methods},
    {0, NULL},
};

PyType_Spec core_rows_spec = {
    .name = "paddle.fluid.core.SelectedRows",
    .basicsize = sizeof(struct core_value),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = rows_slots,
};

/* ---- LoDTensorArray ---- */

static PyObject *make_array(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    return core_value_new(type, PD_LOD_TENSOR_ARRAY);
}

static Py_ssize_t array_length(PyObject *self)
{
    return pd_value_items(of(self)->at);
}

/* The item's borrowed value; NULL with IndexError, which also ends a for loop. */
static pd_value *item_at(PyObject *self, Py_ssize_t i)
{
    Py_ssize_t n = array_length(self);
    if (i >= 0 && i < n) return pd_value_item(of(self)->at, (int)i);
    core_raise(of(self)->state, PD_RANGE, "Item %zd was asked for, but the LoDTensorArray has %zd.", i, n);
    return NULL;
}

static PyObject *array_item(PyObject *self, Py_ssize_t i)
{
    pd_value *item = item_at(self, i);
    return item ? core_value_wrap(of(self)->state->tensor_type, of(self)->state, pd_value_retain(item))
                : NULL;
}

static int wants_tensor(PyObject *self, PyObject *object)
{
    if (PyObject_TypeCheck(object, of(self)->state->tensor_type)) return 0;
    PyErr_Format(PyExc_TypeError, "A LoDTensorArray holds LoDTensors, found %R.", Py_TYPE(object));
    return -1;
}

static int array_assign(PyObject *self, Py_ssize_t i, PyObject *tensor)
{
    if (!tensor) {
        PyErr_SetString(PyExc_TypeError, "Items of a LoDTensorArray cannot be removed.");
        return -1;
    }
    pd_value *item = wants_tensor(self, tensor) ? NULL : item_at(self, i);
    return item ? core_failed(of(self)->state, pd_value_assign(item, of(tensor)->at)) : -1;
}

static PyObject *array_append(PyObject *self, PyObject *tensor)
{
    return wants_tensor(self, tensor)
               ? NULL
               : core_result(of(self)->state, pd_value_append(of(self)->at, of(tensor)->at));
}

static PyObject *array_to_list(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PySequence_List(self);
}

static PyMethodDef array_methods[] = {
    {"append", array_append, METH_O, "Appends a copy of a LoDTensor."},
    {"_move_to_list", array_to_list, METH_NOARGS, NULL},
    {0},
};

static PyType_Slot array_slots[] = {
    {Py_tp_doc, CORE_TEXT("LoDTensorArray()\n\nA list of LoDTensors.")},
    {Py_tp_new, make_array},
    {Py_tp_dealloc, core_value_dealloc},
    {Py_tp_traverse, core_value_traverse},
    {Py_tp_methods, array_methods},
    {Py_sq_length, array_length},
    {Py_sq_item, array_item},
    {Py_sq_ass_item, array_assign},
    {0, NULL},
};

PyType_Spec core_array_spec = {
    .name = "paddle.fluid.core.LoDTensorArray",
    .basicsize = sizeof(struct core_value),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = array_slots,
};
