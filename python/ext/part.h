/* What the handles of variables and ops share: they are made from (program, id) and compare by that. */
#ifndef PADDLE_EXT_PART_H
#define PADDLE_EXT_PART_H

#include "core.h"

PyObject *core_part_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);
void core_part_dealloc(PyObject *self);
int core_part_traverse(PyObject *self, visitproc visit, void *arg);
int core_part_clear(PyObject *self);
PyObject *core_part_id(PyObject *self, void *unused);
PyObject *core_part_program(PyObject *self, void *unused);

static inline struct core_part *core_part(PyObject *self)
{
    return (struct core_part *)self;
}

static inline pd_program *core_part_of(PyObject *self)
{
    return core_part(self)->program->at;
}

#endif
