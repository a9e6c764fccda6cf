/* Exceptions. Nearly each status has a class of its own: a subclass of EnforceNotMet, which users of Fluid
 * catch, and of the built-in class that says the same in Python. A value that is not finite is EnforceNotMet
 * itself: scripts that look for NaN ask for just that. */
#include "core.h"
#include <stdarg.h>

static const struct {
    pd_status status;
    const char *name;
    PyObject **base; /* the built-in class; NULL: EnforceNotMet alone */
} classes[] = {
    {PD_NO_MEMORY, "paddle.fluid.core.OutOfMemoryError", &PyExc_MemoryError},
    {PD_INVALID, "paddle.fluid.core.InvalidArgumentError", &PyExc_ValueError},
    {PD_TYPE, "paddle.fluid.core.DataTypeError", &PyExc_TypeError},
    {PD_SHAPE, "paddle.fluid.core.ShapeError", &PyExc_ValueError},
    {PD_RANGE, "paddle.fluid.core.OutOfRangeError", &PyExc_IndexError},
    {PD_NOT_FOUND, "paddle.fluid.core.NotFoundError", &PyExc_KeyError},
    {PD_EXISTS, "paddle.fluid.core.AlreadyExistsError", &PyExc_ValueError},
    {PD_UNSUPPORTED, "paddle.fluid.core.UnsupportedError", &PyExc_NotImplementedError},
    {PD_IO, "paddle.fluid.core.FileError", &PyExc_OSError},
    {PD_FORMAT, "paddle.fluid.core.FormatError", &PyExc_ValueError},
    {PD_GONE, "paddle.fluid.core.GoneError", &PyExc_ReferenceError},
    {PD_INTERNAL, "paddle.fluid.core.InternalError", NULL},
    {PD_UNAVAILABLE, "paddle.fluid.core.UnavailableError", &PyExc_ConnectionError},
};

static PyObject *message_of(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *args = PyObject_GetAttrString(self, "args");
    if (!args) return NULL;
    PyObject *text = PyTuple_Size(args) ? PyObject_Str(PyTuple_GetItem(args, 0)) : PyUnicode_FromString("");
    Py_DECREF(args);
    return text;
}

/* KeyError and OSError print their arguments in ways of their own; ours always print the message. */
static PyMethodDef message_method = {"__str__", message_of, METH_NOARGS, NULL};

static int add_str(PyObject *class)
{
    PyObject *method = PyDescr_NewMethod((PyTypeObject *)class, &message_method);
    if (!method) return -1;
    int failed = PyObject_SetAttrString(class, "__str__", method);
    Py_DECREF(method);
    return failed;
}

static int add_class(PyObject *module, const char *name, PyObject *class)
{
    return PyModule_AddObjectRef(module, strrchr(name, '.') + 1, class);
}

int core_errors_init(struct core_state *state, PyObject *module)
{
    static const char enforce_name[] = "paddle.fluid.core.EnforceNotMet",
                      eof_name[] = "paddle.fluid.core.EOFException";
    state->enforce =
        PyErr_NewExceptionWithDoc(enforce_name, "An error of the engine.", PyExc_RuntimeError, NULL);
    if (!state->enforce || add_str(state->enforce) || add_class(module, enforce_name, state->enforce))
        return -1;
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        PyObject *bases = classes[i].base ? PyTuple_Pack(2, state->enforce, *classes[i].base)
                                          : PyTuple_Pack(1, state->enforce);
        if (!bases) return -1;
        PyObject *class = PyErr_NewException(classes[i].name, bases, NULL);
        Py_DECREF(bases);
        if (!class) return -1;
        state->errors[classes[i].status] = class;
        if (add_class(module, classes[i].name, class)) return -1;
    }
    PyObject *eof = PyErr_NewExceptionWithDoc(eof_name, "A reader has no more data.", PyExc_Exception, NULL);
    if (!eof) return -1;
    state->errors[PD_END_OF_DATA] = eof;
    state->errors[PD_INTERRUPTED] = Py_NewRef(PyExc_KeyboardInterrupt);
    return add_class(module, eof_name, eof);
}

int core_failed(struct core_state *state, pd_status status)
{
    if (status == PD_OK) return 0;
    /* A run that was interrupted by a signal: the handler has set its own exception. */
    if (status == PD_INTERRUPTED && PyErr_Occurred()) return -1;
    /* A server's run never returned in Fluid, so scripts have nothing (or exit(1)) after it: its end is the
     * process's. */
    if (status == PD_JOB_OVER) {
        PyObject *zero = PyLong_FromLong(0);
        if (zero) PyErr_SetObject(PyExc_SystemExit, zero);
        Py_XDECREF(zero);
        return -1;
    }
    PyObject *class = (int)status < CORE_STATUS_COUNT ? state->errors[status] : NULL;
    const char *text = pd_error();
    PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    if (message) {
        PyErr_SetObject(class ? class : state->enforce, message);
        Py_DECREF(message);
    }
    return -1;
}

PyObject *core_result(struct core_state *state, pd_status status)
{
    if (core_failed(state, status)) return NULL;
    return Py_NewRef(Py_None);
}

PyObject *core_raise(struct core_state *state, pd_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    PyErr_FormatV(state->errors[status], format, args);
    va_end(args);
    return NULL;
}
