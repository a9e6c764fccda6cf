/* LoDTensor: the tensor of a value (also the rows of a SelectedRows), set from arrays and read as arrays. */
#include "core.h"

static struct core_value *of(PyObject *self)
{
    return (struct core_value *)self;
}

static int describe(PyObject *self, pd_tensor_desc *tensor)
{
    return core_failed(of(self)->state, pd_value_tensor(of(self)->at, tensor));
}

static int64_t count_of(const pd_tensor_desc *tensor)
{
    int64_t count = 1;
    for (int i = 0; i < tensor->rank; i++)
        count *= tensor->dims[i];
    return count;
}

/* Before it is written. */
static int will_change(PyObject *self)
{
    PyObject *name = of(self)->name;
    const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    if (name && !text) return -1;
    return core_failed(of(self)->state, pd_value_will_change(of(self)->at, text));
}

/* LoDTensor() or LoDTensor(lengths of the sequences) */
static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *lengths = NULL;
    static char *words[] = {CORE_TEXT("recursive_sequence_lengths"), NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:LoDTensor", words, &lengths)) return NULL;
    PyObject *self = core_value_new(type, PD_LOD_TENSOR);
    if (self && lengths && core_lod_set(of(self)->state, of(self)->at, lengths, 1)) Py_CLEAR(self);
    return self;
}

static PyObject *set(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    if (core_arity("set", n, 1, 3) || will_change(self)) return NULL;
    Py_buffer view;
    int dtype;
    if (core_array_view(of(self)->state, args[0], "The array given to LoDTensor.set()", &view, &dtype))
        return NULL;
    int64_t dims[CORE_MAX_RANK];
    PyObject *result = NULL;
    if (view.ndim > CORE_MAX_RANK) {
        core_raise(of(self)->state, PD_SHAPE,
                   "The array given to LoDTensor.set() has %d dimensions; %d are the most.", view.ndim,
                   CORE_MAX_RANK);
    } else {
        for (int i = 0; i < view.ndim; i++)
            dims[i] = view.shape[i];
        result =
            core_result(of(self)->state, pd_value_set_tensor(of(self)->at, dtype, view.ndim, dims, view.buf));
    }
    PyBuffer_Release(&view);
    return result;
}

/* A table of a distributed job has a shape here, and its rows on the servers. */
static PyObject *from_servers(PyObject *self)
{
    PyObject *array = NULL;
    if (of(self)->name) {
        PyObject *module = PyImport_ImportModule("paddle.fluid.io_distributed");
        if (module) array = PyObject_CallMethod(module, "value_on_servers", "O", of(self)->name);
        Py_XDECREF(module);
        if (!array || array != Py_None) return array;
        Py_DECREF(array);
    }
    return core_raise(of(self)->state, PD_INVALID,
                      "The tensor holds no data yet. Fill it with set() or run a Program.");
}

/* Neither data nor dimensions were ever set: it is shown as a line of no elements, as 1.8.5 does. */
static int is_blank(PyObject *self, const pd_tensor_desc *tensor)
{
    return !tensor->data && tensor->rank == 0 && !of(self)->name;
}

static PyObject *blank_array(struct core_state *state)
{
    if (core_numpy_init(state)) return NULL;
    return PyObject_CallFunction(state->np_empty, "i", 0);
}

static PyObject *as_array(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *words[] = {CORE_TEXT("dtype"), CORE_TEXT("copy"), NULL};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", words, &dtype, &copy)) return NULL;
    if (copy == Py_False) {
        PyErr_SetString(PyExc_ValueError,
                        "The memory of a LoDTensor belongs to the engine: it can only be copied.");
        return NULL;
    }
    pd_tensor_desc tensor;
    if (describe(self, &tensor)) return NULL;
    PyObject *array = is_blank(self, &tensor)                 ? blank_array(of(self)->state)
                      : !tensor.data && count_of(&tensor) > 0 ? from_servers(self)
                                                              : core_array_copy(of(self)->state, &tensor);
    if (!array || dtype == Py_None) return array;
    PyObject *converted = PyObject_CallMethod(array, "astype", "O", dtype);
    Py_DECREF(array);
    return converted;
}

static PyObject *shape(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_tensor_desc tensor;
    if (describe(self, &tensor)) return NULL;
    if (is_blank(self, &tensor)) return Py_BuildValue("[i]", 0);
    PyObject *list = PyList_New(tensor.rank);
    for (int i = 0; list && i < tensor.rank; i++)
        PyList_SetItem(list, i, PyLong_FromLongLong(tensor.dims[i]));
    return list;
}

static PyObject *set_dims(PyObject *self, PyObject *dims)
{
    struct core_scratch scratch = {0};
    int64_t *values, n;
    PyObject *result = NULL;
    if (core_int64s(&scratch, dims, &values, &n) == 0)
        result = core_result(of(self)->state, pd_value_set_dims(of(self)->at, (int)n, values));
    core_scratch_free(&scratch);
    return result;
}

static PyObject *dtype_of(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_tensor_desc tensor;
    return describe(self, &tensor) ? NULL : core_dtype_object(of(self)->state, tensor.dtype);
}

static PyObject *lod(PyObject *self, PyObject *unused)
{
    (void)unused;
    return core_lod_get(of(self)->at, 0);
}

static PyObject *lengths_of(PyObject *self, PyObject *unused)
{
    (void)unused;
    return core_lod_get(of(self)->at, 1);
}

static PyObject *set_lod(PyObject *self, PyObject *levels)
{
    return core_lod_set(of(self)->state, of(self)->at, levels, 0) ? NULL : Py_NewRef(Py_None);
}

static PyObject *set_lengths(PyObject *self, PyObject *levels)
{
    return core_lod_set(of(self)->state, of(self)->at, levels, 1) ? NULL : Py_NewRef(Py_None);
}

static PyObject *has_valid_lengths(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(pd_value_lod_fits(of(self)->at));
}

/* Room for the dimensions set before, filled with zeros. */
static PyObject *alloc(PyObject *self, int dtype)
{
    pd_tensor_desc tensor;
    if (will_change(self) || describe(self, &tensor)) return NULL;
    int64_t dims[CORE_MAX_RANK];
    for (int i = 0; i < tensor.rank && i < CORE_MAX_RANK; i++)
        dims[i] = tensor.dims[i];
    int fresh = !tensor.data || tensor.dtype != dtype;
    if (core_failed(of(self)->state, pd_value_set_tensor(of(self)->at, dtype, tensor.rank, dims, NULL)) ||
        describe(self, &tensor))
        return NULL;
    if (fresh && tensor.data) memset(tensor.data, 0, (size_t)count_of(&tensor) * pd_type_size(dtype));
    return Py_NewRef(Py_None);
}

static PyObject *alloc_float(PyObject *self, PyObject *place)
{
    (void)place;
    return alloc(self, PD_FLOAT32);
}

static PyObject *alloc_double(PyObject *self, PyObject *place)
{
    (void)place;
    return alloc(self, PD_FLOAT64);
}

static PyObject *alloc_int(PyObject *self, PyObject *place)
{
    (void)place;
    return alloc(self, PD_INT32);
}

static PyObject *alloc_int64(PyObject *self, PyObject *place)
{
    (void)place;
    return alloc(self, PD_INT64);
}

static PyObject *mutable_data(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    if (core_arity("_mutable_data", n, 2, 2)) return NULL;
    long dtype = PyLong_AsLong(args[1]);
    if (dtype == -1 && PyErr_Occurred()) return NULL;
    PyObject *done = alloc(self, (int)dtype);
    pd_tensor_desc tensor;
    if (!done || describe(self, &tensor)) {
        Py_XDECREF(done);
        return NULL;
    }
    Py_DECREF(done);
    return PyLong_FromVoidPtr(tensor.data);
}

/* The element's address when it is there and of the type asked for. */
static void *element(PyObject *self, PyObject *index, int dtype)
{
    pd_tensor_desc tensor;
    long long i = PyLong_AsLongLong(index);
    if ((i == -1 && PyErr_Occurred()) || describe(self, &tensor)) return NULL;
    if (!tensor.data || tensor.dtype != dtype)
        return core_raise(of(self)->state, PD_TYPE,
                          "The tensor holds %s, but an element of %s was asked for.",
                          tensor.data ? pd_type_name(tensor.dtype) : "no data", pd_type_name(dtype));
    if (i < 0 || i >= count_of(&tensor))
        return core_raise(of(self)->state, PD_RANGE, "Element %lld was asked for, but the tensor has %lld.",
                          i, (long long)count_of(&tensor));
    return (char *)tensor.data + (size_t)i * pd_type_size(dtype);
}

static PyObject *get_float(PyObject *self, PyObject *index)
{
    float *at = element(self, index, PD_FLOAT32);
    return at ? PyFloat_FromDouble(*at) : NULL;
}

static PyObject *get_double(PyObject *self, PyObject *index)
{
    double *at = element(self, index, PD_FLOAT64);
    return at ? PyFloat_FromDouble(*at) : NULL;
}

static PyObject *set_float(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    if (core_arity("_set_float_element", n, 2, 2)) return NULL;
    double value = PyFloat_AsDouble(args[1]); /* may run Python, which may move the memory */
    if (value == -1.0 && PyErr_Occurred()) return NULL;
    float *at = element(self, args[0], PD_FLOAT32);
    if (!at || will_change(self)) return NULL;
    *at = (float)value;
    return Py_NewRef(Py_None);
}

static PyObject *set_double(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    if (core_arity("_set_double_element", n, 2, 2)) return NULL;
    double value = PyFloat_AsDouble(args[1]); /* may run Python, which may move the memory */
    if (value == -1.0 && PyErr_Occurred()) return NULL;
    double *at = element(self, args[0], PD_FLOAT64);
    if (!at || will_change(self)) return NULL;
    *at = value;
    return Py_NewRef(Py_None);
}

static PyObject *is_initialized(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_tensor_desc tensor;
    return describe(self, &tensor) ? NULL : PyBool_FromLong(tensor.data != NULL);
}

static PyObject *clear(PyObject *self, PyObject *unused)
{
    (void)unused;
    return core_result(of(self)->state, pd_value_become(of(self)->at, pd_value_kind(of(self)->at)));
}

static PyObject *share(PyObject *self, PyObject *other)
{
    if (!PyObject_TypeCheck(other, of(self)->state->tensor_type))
        return PyErr_Format(PyExc_TypeError, "_share_data_with() wants a LoDTensor, found %R.",
                            Py_TYPE(other));
    return core_result(of(self)->state, pd_value_share(of(self)->at, of(other)->at));
}

static PyObject *copy(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)args;
    if (core_arity("_copy", n, 0, 1)) return NULL;
    PyObject *other = core_value_new(of(self)->state->tensor_type, PD_LOD_TENSOR);
    if (other && core_failed(of(self)->state, pd_value_assign(of(other)->at, of(self)->at))) Py_CLEAR(other);
    return other;
}

static PyObject *place(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    PyObject *module = PyImport_ImportModule("paddle.fluid.places");
    PyObject *result = module ? PyObject_CallMethod(module, "Place", NULL) : NULL;
    Py_XDECREF(module);
    return result;
}

static PyObject *ignore(PyObject *self, PyObject *argument)
{
    (void)self;
    (void)argument;
    return Py_NewRef(Py_None);
}

/* A part of the tensor, by numpy's rules, as a new tensor. */
static PyObject *subscript(PyObject *self, PyObject *key)
{
    PyObject *empty = PyTuple_New(0);
    PyObject *array = empty ? as_array(self, empty, NULL) : NULL;
    PyObject *part = array ? PyObject_GetItem(array, key) : NULL;
    PyObject *result = part ? core_value_new(of(self)->state->tensor_type, PD_LOD_TENSOR) : NULL;
    if (result) {
        PyObject *done = set(result, &part, 1);
        if (!done) Py_CLEAR(result);
        Py_XDECREF(done);
    }
    Py_XDECREF(empty);
    Py_XDECREF(array);
    Py_XDECREF(part);
    return result;
}

static PyObject *text(PyObject *self)
{
    pd_tensor_desc tensor;
    if (describe(self, &tensor)) return NULL;
    if (!tensor.data) return PyUnicode_FromString("LoDTensor without data");
    PyObject *dims = shape(self, NULL), *levels = lod(self, NULL),
             *array = core_array_copy(of(self)->state, &tensor);
    PyObject *result = dims && levels && array
                           ? PyUnicode_FromFormat("LoDTensor %s, shape %S, lod %S\n%S",
                                                  pd_type_name(tensor.dtype), dims, levels, array)
                           : NULL;
    Py_XDECREF(dims);
    Py_XDECREF(levels);
    Py_XDECREF(array);
    return result;
}

/* The wire and file format of one tensor. */
static PyObject *serialize(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_bytes bytes;
    if (core_failed(of(self)->state, pd_value_serialize(of(self)->at, &bytes))) return NULL;
    PyObject *result = PyBytes_FromStringAndSize(bytes.at, (Py_ssize_t)bytes.n);
    pd_bytes_free(&bytes);
    return result;
}

static PyObject *parse(PyObject *self, PyObject *data)
{
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)) return NULL;
    size_t used;
    pd_status status = pd_value_parse(of(self)->at, view.buf, (size_t)view.len, &used);
    PyBuffer_Release(&view);
    return core_failed(of(self)->state, status) ? NULL : PyLong_FromSize_t(used);
}

static PyMethodDef methods[] = {
    {"set", CORE_FAST(set), METH_FASTCALL, "set($self, array, place=None, /)\n--\n\nCopies an array in."},
    {"__array__", CORE_FAST(as_array), METH_VARARGS | METH_KEYWORDS, "A copy as numpy array."},
    {"shape", shape, METH_NOARGS, "The dimensions, as a list."},
    {"_get_dims", shape, METH_NOARGS, NULL},
    {"_set_dims", set_dims, METH_O, "Sets the dimensions."},
    {"_dtype", dtype_of, METH_NOARGS, "The element type."},
    {"lod", lod, METH_NOARGS, "The LoD as offsets: a list per level."},
    {"set_lod", set_lod, METH_O, "Sets the LoD from offsets."},
    {"recursive_sequence_lengths", lengths_of, METH_NOARGS, "The LoD as lengths: a list per level."},
    {"set_recursive_sequence_lengths", set_lengths, METH_O, "Sets the LoD from lengths."},
    {"has_valid_recursive_sequence_lengths", has_valid_lengths, METH_NOARGS,
     "Does the LoD fit the tensor's rows?"},
    {"_alloc_float", alloc_float, METH_O, NULL},
    {"_alloc_double", alloc_double, METH_O, NULL},
    {"_alloc_int", alloc_int, METH_O, NULL},
    {"_alloc_int64", alloc_int64, METH_O, NULL},
    {"_mutable_data", CORE_FAST(mutable_data), METH_FASTCALL, NULL},
    {"_get_float_element", get_float, METH_O, NULL},
    {"_get_double_element", get_double, METH_O, NULL},
    {"_set_float_element", CORE_FAST(set_float), METH_FASTCALL, NULL},
    {"_set_double_element", CORE_FAST(set_double), METH_FASTCALL, NULL},
    {"_is_initialized", is_initialized, METH_NOARGS, NULL},
    {"_place", place, METH_NOARGS, NULL},
    {"_clear", clear, METH_NOARGS, NULL},
    {"_share_data_with", share, METH_O, NULL},
    {"_copy", CORE_FAST(copy), METH_FASTCALL, NULL},
    {"_set_layout", ignore, METH_O, NULL},
    {"_serialize", serialize, METH_NOARGS, "The tensor as bytes of the file format."},
    {"_parse", parse, METH_O, "Reads bytes of the file format; returns how many were used."},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     CORE_TEXT("LoDTensor(recursive_sequence_lengths=None)\n\nA tensor with its sequences' borders (LoD).")},
    {Py_tp_new, make},
    {Py_tp_dealloc, core_value_dealloc},
    {Py_tp_traverse, core_value_traverse},
    {Py_tp_methods, methods},
    {Py_tp_str, text},
    {Py_tp_repr, text},
    {Py_mp_subscript, subscript},
    {0, NULL},
};

PyType_Spec core_tensor_spec = {
    .name = "paddle.fluid.core.LoDTensor",
    .basicsize = sizeof(struct core_value),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
