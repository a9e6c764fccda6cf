/* Arrays in and out without numpy's C API: the buffer protocol reads and fills them, np.empty makes them. */
#include "core.h"

static const struct {
    int dtype;
    const char *name;
} names[] = {
    {PD_BOOL, "bool"},       {PD_INT16, "int16"},     {PD_INT32, "int32"},
    {PD_INT64, "int64"},     {PD_FLOAT16, "float16"}, {PD_FLOAT32, "float32"},
    {PD_FLOAT64, "float64"}, {PD_UINT8, "uint8"},     {PD_INT8, "int8"},
};

int core_numpy_init(struct core_state *state)
{
    if (state->np_empty) return 0;
    PyObject *numpy = PyImport_ImportModule("numpy");
    if (!numpy) return -1;
    PyObject *make_dtype = PyObject_GetAttrString(numpy, "dtype");
    for (size_t i = 0; make_dtype && i < sizeof(names) / sizeof(names[0]); i++) {
        PyObject *dtype = PyObject_CallFunction(make_dtype, "s", names[i].name);
        if (!dtype) break;
        core_replace(&state->np_dtype[names[i].dtype], dtype);
    }
    Py_XDECREF(make_dtype);
    if (!PyErr_Occurred()) {
        state->np_asarray = PyObject_GetAttrString(numpy, "asarray");
        state->np_contiguous = PyObject_GetAttrString(numpy, "ascontiguousarray");
        state->np_ndarray = PyObject_GetAttrString(numpy, "ndarray");
        state->np_bool = PyObject_GetAttrString(numpy, "bool_");
        state->np_empty = PyObject_GetAttrString(numpy, "empty");
    }
    Py_DECREF(numpy);
    return PyErr_Occurred() ? -1 : 0;
}

int core_format_dtype(const char *format)
{
    if (!format) return PD_UINT8;
    if (format[0] == '@' || format[0] == '=' || format[0] == '<') format++;
    if (!format[0] || format[1]) return -1;
    switch (format[0]) {
    case 'f':
        return PD_FLOAT32;
    case 'd':
        return PD_FLOAT64;
    case 'e':
    case 'H': /* float16 travels as the bits of uint16 in scripts of that time */
        return PD_FLOAT16;
    case 'l':
    case 'q':
        return PD_INT64;
    case 'i':
        return PD_INT32;
    case 'h':
        return PD_INT16;
    case 'b':
        return PD_INT8;
    case 'B':
        return PD_UINT8;
    case '?':
        return PD_BOOL;
    default:
        return -1;
    }
}

PyObject *core_array_copy(struct core_state *state, const pd_tensor_desc *tensor)
{
    if (core_numpy_init(state)) return NULL;
    if (tensor->dtype < 0 || tensor->dtype >= CORE_DTYPE_COUNT || !state->np_dtype[tensor->dtype])
        return core_raise(state, PD_TYPE, "A tensor of element type %d has no numpy type.", tensor->dtype);
    PyObject *shape = PyTuple_New(tensor->rank);
    size_t bytes = pd_type_size(tensor->dtype);
    for (int i = 0; shape && i < tensor->rank; i++) {
        bytes *= (size_t)tensor->dims[i];
        PyTuple_SetItem(shape, i, PyLong_FromLongLong(tensor->dims[i]));
    }
    if (!shape) return NULL;
    PyObject *array =
        PyObject_CallFunctionObjArgs(state->np_empty, shape, state->np_dtype[tensor->dtype], NULL);
    Py_DECREF(shape);
    Py_buffer view;
    if (!array || !bytes || !tensor->data) return array;
    if (PyObject_GetBuffer(array, &view, PyBUF_WRITABLE)) {
        Py_DECREF(array);
        return NULL;
    }
    memcpy(view.buf, tensor->data, bytes);
    PyBuffer_Release(&view);
    return array;
}

static int view_once(struct core_state *state, PyObject *array, Py_buffer *view, int *dtype)
{
    (void)state;
    if (PyObject_GetBuffer(array, view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)) return -1;
    *dtype = core_format_dtype(view->format);
    return 0;
}

int core_array_view(struct core_state *state, PyObject *array, const char *what, Py_buffer *view, int *dtype)
{
    if (view_once(state, array, view, dtype) == 0) {
        if (*dtype >= 0) return 0;
        PyBuffer_Release(view);
    }
    /* Strided, of another byte order, or not an array at all: numpy makes a plain copy of it. */
    PyErr_Clear();
    if (core_numpy_init(state)) return -1;
    PyObject *plain = PyObject_CallFunctionObjArgs(state->np_contiguous, array, NULL);
    if (plain) {
        PyObject *type = PyObject_GetAttrString(plain, "dtype");
        PyObject *native = type ? PyObject_CallMethod(type, "newbyteorder", "s", "=") : NULL;
        PyObject *converted = native ? PyObject_CallMethod(plain, "astype", "O", native) : NULL;
        if (!converted) {
            PyErr_Clear();
            converted = Py_NewRef(plain);
        }
        Py_XDECREF(type);
        Py_XDECREF(native);
        core_replace(&plain, converted);
    }
    if (plain && view_once(state, plain, view, dtype) == 0) {
        Py_DECREF(plain);
        if (*dtype >= 0) return 0;
        PyBuffer_Release(view);
    } else {
        Py_XDECREF(plain);
    }
    PyErr_Clear();
    PyObject *found = PyObject_GetAttrString(array, "dtype");
    PyErr_Clear();
    core_raise(
        state, PD_TYPE,
        "%s is %R, which a tensor cannot hold. Use an array of float32, float64, float16, int64, int32, "
        "int16, int8, uint8 or bool.",
        what, found ? found : (PyObject *)Py_TYPE(array));
    Py_XDECREF(found);
    return -1;
}
