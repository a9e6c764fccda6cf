/* What LoDTensor, SelectedRows and LoDTensorArray have in common: a counted reference to a value of the
 * engine; and the LoD of a value as Python lists. */
#include "core.h"

PyObject *core_value_wrap(PyTypeObject *type, struct core_state *state, pd_value *value)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct core_value *self = (struct core_value *)alloc(type, 0);
    if (!self) {
        pd_value_release(value);
        return NULL;
    }
    self->state = state;
    self->at = value;
    self->name = NULL;
    return (PyObject *)self;
}

PyObject *core_value_named(PyObject *self, PyObject *name)
{
    if (self) ((struct core_value *)self)->name = Py_XNewRef(name);
    return self;
}

PyObject *core_value_new(PyTypeObject *type, int kind)
{
    struct core_state *state = core_state_of(type);
    pd_value *value;
    if (!state || core_failed(state, pd_value_create(kind, &value))) return NULL;
    return core_value_wrap(type, state, value);
}

void core_value_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    pd_value_release(((struct core_value *)self)->at);
    Py_XDECREF(((struct core_value *)self)->name);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

int core_value_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return 0;
}

int core_lod_set(struct core_state *state, pd_value *value, PyObject *lod, int lengths)
{
    struct core_scratch scratch = {0};
    int failed = -1;
    PyObject *levels = PySequence_List(lod);
    if (!levels || core_scratch_keep(&scratch, levels)) goto done;
    Py_ssize_t n = PyList_Size(levels);
    int64_t **offsets = core_scratch_get(&scratch, sizeof(*offsets) * (size_t)(n + 1));
    int64_t *counts = core_scratch_get(&scratch, sizeof(*counts) * (size_t)(n + 1));
    if (!offsets || !counts) goto done;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (core_int64s(&scratch, PyList_GetItem(levels, i), &offsets[i], &counts[i])) goto done;
        if (!lengths) continue;
        int64_t *sums = core_scratch_get(&scratch, sizeof(*sums) * (size_t)(counts[i] + 1));
        if (!sums) goto done;
        sums[0] = 0;
        for (int64_t k = 0; k < counts[i]; k++)
            sums[k + 1] = sums[k] + offsets[i][k];
        offsets[i] = sums;
        counts[i]++;
    }
    failed = core_failed(state, pd_value_set_lod(value, (int)n, (const int64_t *const *)offsets, counts));
done:
    core_scratch_free(&scratch);
    return failed;
}

PyObject *core_lod_get(const pd_value *value, int lengths)
{
    int levels = pd_value_lod_levels(value);
    PyObject *lod = PyList_New(levels);
    for (int i = 0; lod && i < levels; i++) {
        int64_t n;
        const int64_t *offsets = pd_value_lod(value, i, &n);
        Py_ssize_t items = lengths && n ? n - 1 : n;
        PyObject *level = PyList_New(items);
        for (Py_ssize_t k = 0; level && k < items; k++)
            PyList_SetItem(level, k, PyLong_FromLongLong(lengths ? offsets[k + 1] - offsets[k] : offsets[k]));
        if (!level) {
            Py_DECREF(lod);
            return NULL;
        }
        PyList_SetItem(lod, i, level);
    }
    return lod;
}
