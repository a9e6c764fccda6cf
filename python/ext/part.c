/* What the handles of variables and ops share. */
#include "part.h"

/* Further arguments are left to the __init__ of the Python class. */
PyObject *core_part_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    struct core_state *state = core_state_of(type);
    if (!state) return NULL;
    PyObject *program;
    long long id;
    if (!PyArg_ParseTuple(args, "O!L", state->program_type, &program, &id)) return NULL;
    PyObject *self = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) return NULL;
    core_part(self)->state = state;
    core_part(self)->program = (struct core_program *)Py_NewRef(program);
    core_part(self)->id = id;
    return self;
}

int core_part_clear(PyObject *self)
{
    (void)self; /* the Program clears its table of parts, which breaks every cycle */
    return 0;
}

int core_part_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(core_part(self)->program);
    return 0;
}

void core_part_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF((PyObject *)core_part(self)->program);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyObject *core_part_id(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(core_part(self)->id);
}

PyObject *core_part_program(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef((PyObject *)core_part(self)->program);
}
