/* Binding the feed of a call: arrays are lent through the buffer protocol, tensors by reference. Anything
 * else is first turned into an array of the declared type by Python. */
#include "executor.h"

void core_lent_release(struct core_lent *lent)
{
    for (int i = 0; i < lent->n; i++)
        PyBuffer_Release(&lent->views[i]);
    if (lent->views != lent->few) PyMem_Free(lent->views);
    Py_CLEAR(lent->keep);
}

static int lent_init(struct core_lent *lent, int n)
{
    n *= 2; /* an array that does not fit is lent once more, in another type */
    lent->n = 0;
    lent->keep = NULL;
    lent->views = n <= CORE_FEW_VIEWS ? lent->few : PyMem_Malloc(sizeof(*lent->views) * (size_t)n);
    if (!lent->views) {
        lent->views = lent->few;
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int keep(struct core_lent *lent, PyObject *object)
{
    if (!lent->keep && !(lent->keep = PyList_New(0))) return -1;
    return PyList_Append(lent->keep, object);
}

static int feed_array(struct core_state *state, struct core_call *call, int i, PyObject *array,
                      struct core_lent *lent)
{
    PyObject *name = call->feeds[i];
    Py_buffer *view = &lent->views[lent->n];
    int dtype;
    if (PyObject_GetBuffer(array, view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) == 0) {
        dtype = core_format_dtype(view->format);
    } else {
        PyErr_Clear();
        dtype = -1;
        view->obj = NULL;
    }
    if (dtype < 0) {
        PyBuffer_Release(view);
        PyObject *what = PyUnicode_FromFormat("The feed %R", name);
        const char *text = what ? PyUnicode_AsUTF8AndSize(what, NULL) : NULL;
        int failed = !text || core_array_view(state, array, text, view, &dtype);
        Py_XDECREF(what);
        if (failed) return -1;
    }
    lent->n++;
    if (view->ndim > CORE_MAX_RANK) {
        core_raise(state, PD_SHAPE, "The feed %R has %d dimensions; %d are the most.", name, view->ndim,
                   CORE_MAX_RANK);
        return -1;
    }
    int64_t dims[CORE_MAX_RANK];
    for (int k = 0; k < view->ndim; k++)
        dims[k] = view->shape[k];
    return core_failed(
        state, pd_prepared_feed(call->prepared, i, dtype, view->ndim, dims, view->buf, 0, NULL, NULL));
}

static int feed_tensor(struct core_state *state, struct core_call *call, int i, PyObject *object)
{
    return core_failed(state, pd_prepared_feed_value(call->prepared, i, ((struct core_value *)object)->at));
}

static int is_value(struct core_state *state, PyObject *object)
{
    return PyObject_TypeCheck(object, state->tensor_type) || PyObject_TypeCheck(object, state->rows_type) ||
           PyObject_TypeCheck(object, state->array_type);
}

static int feed_plain(struct core_state *state, struct core_call *call, int i, PyObject *value,
                      struct core_lent *lent)
{
    if (!is_value(state, value)) return feed_array(state, call, i, value, lent);
    return keep(lent, value) ? -1 : feed_tensor(state, call, i, value);
}

/* Python makes of `value` what can be fed; with `widen` of a value of another element type than the declared
 * one. It returns the value itself where it can do nothing. */
static int feed_converted(struct core_state *state, struct core_call *call,
                          const struct core_request *request, int i, PyObject *value, int widen,
                          struct core_lent *lent)
{
    PyObject *converted = PyObject_CallFunctionObjArgs(state->convert_feed, request->program, call->feeds[i],
                                                       value, widen ? Py_True : Py_False, NULL);
    if (!converted) return -1;
    int failed = keep(lent, converted) || feed_plain(state, call, i, converted, lent);
    Py_DECREF(converted);
    return failed;
}

/* `value` is borrowed; what comes of it is kept alive by `lent` or by its buffer. */
static int feed_one(struct core_state *state, struct core_call *call, const struct core_request *request,
                    int i, PyObject *value, struct core_lent *lent)
{
    int failed;
    if (Py_IS_TYPE(value, (PyTypeObject *)state->np_ndarray))
        failed = feed_array(state, call, i, value, lent);
    else if (is_value(state, value))
        failed = feed_plain(state, call, i, value, lent);
    else
        failed = feed_converted(state, call, request, i, value, 0, lent);
    if (!failed || !PyErr_ExceptionMatches(state->errors[PD_TYPE])) return failed;
    PyErr_Clear();
    /* What feed_array lent is given back with the rest; there is room for one more. */
    return feed_converted(state, call, request, i, value, 1, lent);
}

int core_feed(struct core_state *state, struct core_call *call, const struct core_request *request,
              struct core_lent *lent)
{
    if (lent_init(lent, call->n_feeds)) return -1;
    if (!call->n_feeds) return 0;
    Py_ssize_t at = 0;
    PyObject *key, *value;
    for (int i = 0; i < call->n_feeds && PyDict_Next(request->feed, &at, &key, &value); i++) {
        Py_INCREF(value);
        int failed = feed_one(state, call, request, i, value, lent);
        Py_DECREF(value);
        if (failed) return -1;
    }
    return 0;
}
