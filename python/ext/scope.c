/* Scope, and what one of its names holds. */
#include "core.h"

#include <stdio.h>

static struct core_scope *of(PyObject *self)
{
    return (struct core_scope *)self;
}

static PyObject *wrap_scope(PyTypeObject *type, struct core_state *state, pd_scope *parent)
{
    pd_scope *scope;
    if (core_failed(state, pd_scope_create(parent, &scope))) return NULL;
    struct core_scope *self = (struct core_scope *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) {
        pd_scope_release(scope);
        return NULL;
    }
    self->state = state;
    self->at = scope;
    return (PyObject *)self;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    struct core_state *state = core_state_of(type);
    return state ? wrap_scope(type, state, NULL) : NULL;
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    pd_scope_release(of(self)->at);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *holder(PyObject *self, pd_value *value, PyObject *name)
{
    return core_value_named(
        core_value_wrap(of(self)->state->holder_type, of(self)->state, pd_value_retain(value)), name);
}

static PyObject *var(PyObject *self, PyObject *name)
{
    struct core_scratch scratch = {0};
    const char *text = core_text(of(self)->state, &scratch, name);
    pd_value *value;
    PyObject *result = NULL;
    if (text && !core_failed(of(self)->state, pd_scope_var(of(self)->at, text, &value)))
        result = holder(self, value, name);
    core_scratch_free(&scratch);
    return result;
}

static PyObject *find_var(PyObject *self, PyObject *name)
{
    struct core_scratch scratch = {0};
    const char *text = core_text(of(self)->state, &scratch, name);
    PyObject *result = NULL;
    if (text) {
        pd_value *value = pd_scope_find(of(self)->at, text);
        result = value ? holder(self, value, name) : Py_NewRef(Py_None);
    }
    core_scratch_free(&scratch);
    return result;
}

static PyObject *new_scope(PyObject *self, PyObject *unused)
{
    (void)unused;
    return wrap_scope(of(self)->state->scope_type, of(self)->state, of(self)->at);
}

static PyObject *drop_kids(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_scope_drop_kids(of(self)->at);
    return Py_NewRef(Py_None);
}

static PyObject *local_var_names(PyObject *self, PyObject *unused)
{
    (void)unused;
    const char **names;
    int n;
    if (core_failed(of(self)->state, pd_scope_names(of(self)->at, &names, &n))) return NULL;
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++)
        PyList_SetItem(list, i, PyUnicode_FromString(names[i]));
    pd_names_free(names);
    return list;
}

static PyObject *erase(PyObject *self, PyObject *names)
{
    struct core_scratch scratch = {0};
    const char **list;
    int n;
    int failed = core_names(of(self)->state, &scratch, names, &list, &n);
    for (int i = 0; !failed && i < n; i++)
        failed = core_failed(of(self)->state, pd_scope_erase(of(self)->at, list[i]));
    core_scratch_free(&scratch);
    return failed ? NULL : Py_NewRef(Py_None);
}

/* Kind, element type, rank and LoD levels of each name: what a Program over this scope must declare. */
static PyObject *signature(PyObject *self, PyObject *names)
{
    struct core_scratch scratch = {0};
    const char **list;
    int n;
    PyObject *result = NULL;
    if (core_names(of(self)->state, &scratch, names, &list, &n)) goto done;
    result = PyTuple_New(n);
    for (int i = 0; result && i < n; i++) {
        pd_value *value = pd_scope_find(of(self)->at, list[i]);
        int kind = value ? pd_value_kind(value) : -1;
        long long packed = -1;
        pd_tensor_desc tensor;
        if ((kind == PD_LOD_TENSOR || kind == PD_SELECTED_ROWS) && pd_value_tensor(value, &tensor) == PD_OK)
            packed = kind | (tensor.data ? tensor.dtype + 1 : 0) << 8 | tensor.rank << 16 |
                     pd_value_lod_levels(value) << 24;
        else if (kind >= 0)
            packed = kind;
        PyTuple_SetItem(result, i, PyLong_FromLongLong(packed));
    }
done:
    core_scratch_free(&scratch);
    return result;
}

/* How many variables, and the first few names. */
static PyObject *scope_text(PyObject *self)
{
    enum { SHOWN = 8 };
    PyObject *names = local_var_names(self, NULL), *first = NULL, *comma = NULL, *joined = NULL,
             *result = NULL;
    if (!names || PyList_Sort(names) != 0) goto done;
    Py_ssize_t n = PyList_Size(names);
    if (n == 0) {
        result = PyUnicode_FromString("Scope(empty)");
        goto done;
    }
    first = PyList_GetSlice(names, 0, SHOWN);
    comma = PyUnicode_FromString(", ");
    joined = first && comma ? PyUnicode_Join(comma, first) : NULL;
    if (joined)
        result = PyUnicode_FromFormat("Scope(%zd variable%s: %U%s)", n, n == 1 ? "" : "s", joined,
                                      n > SHOWN ? ", ..." : "");
done:
    Py_XDECREF(names);
    Py_XDECREF(first);
    Py_XDECREF(comma);
    Py_XDECREF(joined);
    return result;
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static PyMethodDef methods[] = {
    {"var", var, METH_O,
     "var($self, name, /)\n--\n\nThe variable of that name in this scope; made when it is not there."},
    {"find_var", find_var, METH_O,
     "find_var($self, name, /)\n--\n\nLooks here, then in the parents; None: not there."},
    {"new_scope", new_scope, METH_NOARGS, "A scope whose parent is this one."},
    {"drop_kids", drop_kids, METH_NOARGS, "Lets go of all scopes made by new_scope()."},
    {"local_var_names", local_var_names, METH_NOARGS, "Names of the variables of this scope itself."},
    {"erase", erase, METH_O, "erase($self, names, /)\n--\n\nRemoves variables."},
    {"_signature", signature, METH_O, NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, CORE_TEXT("Scope()\n\nVariables by name, with their values.")},
    {Py_tp_new, make},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_methods, methods},
    {Py_tp_repr, scope_text},
    {0, NULL},
};

PyType_Spec core_scope_spec = {
    .name = "paddle.fluid.core.Scope",
    .basicsize = sizeof(struct core_scope),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

/* ---- what a name holds ---- */

static struct core_value *value_of(PyObject *self)
{
    return (struct core_value *)self;
}

/* Numbers of upstream's VarDesc.VarType. */
static const char *kind_name(int kind)
{
    static const char *const names[] = {
        [7] = "a LoDTensor",       [8] = "SelectedRows", [11] = "step scopes",       [12] = "a LoDRankTable",
        [13] = "a LoDTensorArray", [15] = "a reader",    [17] = "a value of its own"};
    int known = kind >= 0 && kind < (int)(sizeof names / sizeof *names) && names[kind];
    return known ? names[kind] : "something else";
}

/* A variable that was only just made takes the kind it is first asked for. */
static PyObject *as_kind(PyObject *self, int kind, PyTypeObject *type, const char *what)
{
    struct core_value *value = value_of(self);
    if (pd_value_kind(value->at) != kind) {
        pd_tensor_desc tensor;
        int empty = pd_value_tensor(value->at, &tensor) != PD_OK || !tensor.data;
        if (!empty || pd_value_items(value->at) > 0)
            return core_raise(value->state, PD_TYPE, "The variable does not hold %s, but %s.", what,
                              kind_name(pd_value_kind(value->at)));
        if (core_failed(value->state, pd_value_become(value->at, kind))) return NULL;
    }
    return core_value_named(core_value_wrap(type, value->state, pd_value_retain(value->at)), value->name);
}

static PyObject *get_tensor(PyObject *self, PyObject *unused)
{
    (void)unused;
    return as_kind(self, PD_LOD_TENSOR, value_of(self)->state->tensor_type, "a LoDTensor");
}

static PyObject *get_rows(PyObject *self, PyObject *unused)
{
    (void)unused;
    return as_kind(self, PD_SELECTED_ROWS, value_of(self)->state->rows_type, "SelectedRows");
}

static PyObject *get_array(PyObject *self, PyObject *unused)
{
    (void)unused;
    return as_kind(self, PD_LOD_TENSOR_ARRAY, value_of(self)->state->array_type, "a LoDTensorArray");
}

/* A plain number is a tensor without dimensions. */
static int is_number(PyObject *self, int dtype, pd_tensor_desc *tensor)
{
    pd_value *value = value_of(self)->at;
    return pd_value_kind(value) == PD_LOD_TENSOR && pd_value_tensor(value, tensor) == PD_OK && tensor->data &&
           tensor->rank == 0 && tensor->dtype == dtype;
}

static PyObject *is_int(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_tensor_desc tensor;
    return PyBool_FromLong(is_number(self, PD_INT32, &tensor));
}

static PyObject *is_float(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_tensor_desc tensor;
    return PyBool_FromLong(is_number(self, PD_FLOAT32, &tensor));
}

static PyObject *set_number(PyObject *self, int dtype, const void *number)
{
    struct core_value *value = value_of(self);
    if (core_failed(value->state, pd_value_become(value->at, PD_LOD_TENSOR))) return NULL;
    return core_result(value->state, pd_value_set_tensor(value->at, dtype, 0, NULL, number));
}

static PyObject *set_int(PyObject *self, PyObject *object)
{
    long number = PyLong_AsLong(object);
    int32_t narrow = (int32_t)number;
    return number == -1 && PyErr_Occurred() ? NULL : set_number(self, PD_INT32, &narrow);
}

static PyObject *set_float(PyObject *self, PyObject *object)
{
    double number = PyFloat_AsDouble(object);
    float narrow = (float)number;
    return number == -1.0 && PyErr_Occurred() ? NULL : set_number(self, PD_FLOAT32, &narrow);
}

static PyObject *get_int(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_tensor_desc tensor;
    if (!is_number(self, PD_INT32, &tensor))
        return core_raise(value_of(self)->state, PD_TYPE,
                          "The variable holds no int. Store one with set_int().");
    return PyLong_FromLong(*(const int32_t *)tensor.data);
}

static PyObject *get_float(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_tensor_desc tensor;
    if (!is_number(self, PD_FLOAT32, &tensor))
        return core_raise(value_of(self)->state, PD_TYPE,
                          "The variable holds no float. Store one with set_float().");
    return PyFloat_FromDouble(*(const float *)tensor.data);
}

static PyObject *kind_of(PyObject *self, PyObject *unused)
{
    (void)unused;
    return core_dtype_object(value_of(self)->state, pd_value_kind(value_of(self)->at));
}

/* The kind, and of a tensor what it holds, without its elements. */
static PyObject *holder_text(PyObject *self)
{
    pd_value *value = value_of(self)->at;
    pd_tensor_desc tensor;
    char dims[256] = "";
    size_t n = 0;
    if (pd_value_kind(value) != PD_LOD_TENSOR)
        return PyUnicode_FromFormat("Variable(%s)", kind_name(pd_value_kind(value)));
    if (pd_value_tensor(value, &tensor) != PD_OK || !tensor.data)
        return PyUnicode_FromString("Variable(a LoDTensor without data)");
    for (int i = 0; i < tensor.rank && n < sizeof dims - 32; i++)
        n += (size_t)snprintf(dims + n, sizeof dims - n, "%s%lld", i ? ", " : "", (long long)tensor.dims[i]);
    return PyUnicode_FromFormat("Variable(a LoDTensor, %s [%s])", pd_type_name(tensor.dtype), dims);
}

static PyMethodDef holder_methods[] = {
    {"get_tensor", get_tensor, METH_NOARGS, "The variable's LoDTensor."},
    {"get_selected_rows", get_rows, METH_NOARGS, "The variable's SelectedRows."},
    {"get_lod_tensor_array", get_array, METH_NOARGS, "The variable's LoDTensorArray."},
    {"is_int", is_int, METH_NOARGS, NULL},
    {"set_int", set_int, METH_O, NULL},
    {"get_int", get_int, METH_NOARGS, NULL},
    {"is_float", is_float, METH_NOARGS, NULL},
    {"set_float", set_float, METH_O, NULL},
    {"get_float", get_float, METH_NOARGS, NULL},
    {"_kind", kind_of, METH_NOARGS, "What the variable holds, as VarType."},
    {0},
};

static PyType_Slot holder_slots[] = {
    {Py_tp_doc, CORE_TEXT("What a Scope holds under a name.")},
    {Py_tp_dealloc, core_value_dealloc},
    {Py_tp_traverse, core_value_traverse},
    {Py_tp_methods, holder_methods},
    {Py_tp_repr, holder_text},
    {0, NULL},
};

PyType_Spec core_holder_spec = {
    .name = "paddle.fluid.core.Variable",
    .basicsize = sizeof(struct core_value),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = holder_slots,
};
