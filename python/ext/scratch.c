/* Memory and Python objects that live as long as one call, and the reading of names and numbers from Python.
 */
#include "core.h"

struct core_scratch_block {
    struct core_scratch_block *next;
    max_align_t data[];
};

void *core_scratch_get(struct core_scratch *scratch, size_t bytes)
{
    struct core_scratch_block *block = PyMem_Malloc(sizeof(*block) + bytes);
    if (!block) return PyErr_NoMemory();
    block->next = scratch->blocks;
    scratch->blocks = block;
    return block->data;
}

int core_scratch_keep(struct core_scratch *scratch, PyObject *object)
{
    if (!object) return -1;
    if (!scratch->keep) scratch->keep = PyList_New(0);
    int failed = !scratch->keep || PyList_Append(scratch->keep, object);
    Py_DECREF(object);
    return failed ? -1 : 0;
}

void core_scratch_free(struct core_scratch *scratch)
{
    while (scratch->blocks) {
        struct core_scratch_block *next = scratch->blocks->next;
        PyMem_Free(scratch->blocks);
        scratch->blocks = next;
    }
    Py_CLEAR(scratch->keep);
}

static int is_text(struct core_state *state, PyObject *object)
{
    return PyUnicode_Check(object) || PyBytes_Check(object) || PyObject_TypeCheck(object, state->var_type);
}

const char *core_text(struct core_state *state, struct core_scratch *scratch, PyObject *object)
{
    if (PyUnicode_Check(object)) {
        const char *text = PyUnicode_AsUTF8AndSize(object, NULL);
        if (!text || core_scratch_keep(scratch, Py_NewRef(object))) return NULL;
        return text;
    }
    if (PyBytes_Check(object)) {
        if (core_scratch_keep(scratch, Py_NewRef(object))) return NULL;
        return PyBytes_AsString(object);
    }
    if (PyObject_TypeCheck(object, state->var_type)) {
        struct core_part *var = (struct core_part *)object;
        pd_var_desc desc;
        if (core_failed(state, pd_var_describe(var->program->at, var->id, &desc))) return NULL;
        /* A copy: the name is only valid until its Program changes. */
        char *text = core_scratch_get(scratch, strlen(desc.name) + 1);
        if (text) memcpy(text, desc.name, strlen(desc.name) + 1);
        return text;
    }
    PyErr_Format(PyExc_TypeError, "A Variable or its name (str) is wanted, found %R of type %R.", object,
                 Py_TYPE(object));
    return NULL;
}

int core_names(struct core_state *state, struct core_scratch *scratch, PyObject *object, const char ***names,
               int *n)
{
    *names = NULL;
    *n = 0;
    if (object == Py_None) return 0;
    if (is_text(state, object)) {
        if (!(*names = core_scratch_get(scratch, sizeof(**names)))) return -1;
        (*names)[0] = core_text(state, scratch, object);
        *n = 1;
        return (*names)[0] ? 0 : -1;
    }
    PyObject *items = PySequence_List(object);
    if (!items) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Format(PyExc_TypeError,
                         "A Variable, a name (str) or a list of them is wanted, found %R of type %R.", object,
                         Py_TYPE(object));
        }
        return -1;
    }
    if (core_scratch_keep(scratch, items)) return -1;
    Py_ssize_t count = PyList_Size(items);
    if (!(*names = core_scratch_get(scratch, sizeof(**names) * (size_t)(count + 1)))) return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!((*names)[i] = core_text(state, scratch, PyList_GetItem(items, i)))) return -1;
    }
    *n = (int)count;
    return 0;
}

int core_int64s(struct core_scratch *scratch, PyObject *object, int64_t **values, int64_t *n)
{
    PyObject *items = PySequence_List(object);
    if (!items || core_scratch_keep(scratch, items)) return -1;
    *n = PyList_Size(items);
    if (!(*values = core_scratch_get(scratch, sizeof(**values) * (size_t)(*n + 1)))) return -1;
    for (Py_ssize_t i = 0; i < *n; i++) {
        PyObject *number = PyNumber_Index(PyList_GetItem(items, i));
        if (!number) return -1;
        (*values)[i] = PyLong_AsLongLong(number);
        Py_DECREF(number);
        if ((*values)[i] == -1 && PyErr_Occurred()) return -1;
    }
    return 0;
}

PyObject *core_bytes_to_text(pd_bytes *bytes)
{
    PyObject *text = PyUnicode_DecodeUTF8(bytes->at ? bytes->at : "", (Py_ssize_t)bytes->n, "replace");
    pd_bytes_free(bytes);
    return text;
}

int core_arity(const char *name, Py_ssize_t n, Py_ssize_t least, Py_ssize_t most)
{
    if (n >= least && n <= most) return 0;
    if (least == most)
        PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, found %zd.", name, least, n);
    else
        PyErr_Format(PyExc_TypeError, "%s() takes %zd to %zd arguments, found %zd.", name, least, most, n);
    return -1;
}
