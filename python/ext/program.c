/* Program: the handle of a Program of the engine. The Python class fluid.Program derives from it; the methods
 * here are the plain calls, which deal in names and ids. */
#include "core.h"

static struct core_program *of(PyObject *self)
{
    return (struct core_program *)self;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    struct core_state *state = core_state_of(type);
    pd_program *program;
    if (!state || core_failed(state, pd_program_create(&program))) return NULL;
    PyObject *self = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) {
        pd_program_free(program);
        return NULL;
    }
    of(self)->state = state;
    of(self)->at = program;
    return self;
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    pd_program_free(of(self)->at);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static PyObject *replace(PyObject *self, pd_program *program)
{
    pd_program_free(of(self)->at);
    of(self)->at = program;
    return Py_NewRef(Py_None);
}

/* A new, still empty Program takes over a copy of another one. */
static PyObject *become_copy(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    if (core_arity("_become_copy", n, 2, 2)) return NULL;
    if (!PyObject_TypeCheck(args[0], of(self)->state->program_type))
        return PyErr_Format(PyExc_TypeError, "A Program is wanted, found %R.", Py_TYPE(args[0]));
    pd_program *copy;
    if (core_failed(of(self)->state, pd_program_copy(of(args[0])->at, PyObject_IsTrue(args[1]), &copy)))
        return NULL;
    return replace(self, copy);
}

static PyObject *become_parsed(PyObject *self, PyObject *data)
{
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)) return NULL;
    pd_program *program;
    pd_status status = pd_program_parse(view.buf, (size_t)view.len, &program);
    PyBuffer_Release(&view);
    return core_failed(of(self)->state, status) ? NULL : replace(self, program);
}

static PyObject *serialize(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_bytes bytes;
    if (core_failed(of(self)->state, pd_program_serialize(of(self)->at, &bytes))) return NULL;
    PyObject *result = PyBytes_FromStringAndSize(bytes.at, (Py_ssize_t)bytes.n);
    pd_bytes_free(&bytes);
    return result;
}

static PyObject *dump(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_bytes bytes;
    return core_failed(of(self)->state, pd_program_dump(of(self)->at, &bytes)) ? NULL
                                                                               : core_bytes_to_text(&bytes);
}

static PyObject *check(PyObject *self, PyObject *unused)
{
    (void)unused;
    return core_result(of(self)->state, pd_program_check(of(self)->at));
}

static PyObject *prune(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct core_scratch scratch = {0};
    const char **feeds, **targets;
    int n_feeds, n_targets;
    PyObject *result = NULL;
    if (!core_arity("_keep_only", n, 2, 2) &&
        !core_names(of(self)->state, &scratch, args[0], &feeds, &n_feeds) &&
        !core_names(of(self)->state, &scratch, args[1], &targets, &n_targets))
        result =
            core_result(of(self)->state, pd_program_prune(of(self)->at, n_feeds, feeds, n_targets, targets));
    core_scratch_free(&scratch);
    return result;
}

/* ---- blocks ---- */

static int read_int(PyObject *object, int *out)
{
    long number = PyLong_AsLong(object);
    *out = (int)number;
    return number == -1 && PyErr_Occurred() ? -1 : 0;
}

static PyObject *add_block(PyObject *self, PyObject *parent)
{
    int from, index;
    if (read_int(parent, &from) || core_failed(of(self)->state, pd_block_create(of(self)->at, from, &index)))
        return NULL;
    return PyLong_FromLong(index);
}

static PyObject *block_parent(PyObject *self, PyObject *block)
{
    int index, parent, forward;
    if (read_int(block, &index) ||
        core_failed(of(self)->state, pd_block_parent(of(self)->at, index, &parent, &forward)))
        return NULL;
    return Py_BuildValue("ii", parent, forward);
}

static PyObject *set_block_forward(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    int block, forward;
    if (core_arity("_set_block_forward", n, 2, 2) || read_int(args[0], &block) || read_int(args[1], &forward))
        return NULL;
    return core_result(of(self)->state, pd_block_set_forward(of(self)->at, block, forward));
}

static PyObject *ids_of(PyObject *self, PyObject *block,
                        pd_status (*list)(const pd_program *program, int block, int64_t **ids, int *n))
{
    int index, n;
    int64_t *ids;
    if (read_int(block, &index) || core_failed(of(self)->state, list(of(self)->at, index, &ids, &n)))
        return NULL;
    PyObject *result = PyList_New(n);
    for (int i = 0; result && i < n; i++)
        PyList_SetItem(result, i, PyLong_FromLongLong(ids[i]));
    pd_ids_free(ids);
    return result;
}

static PyObject *var_ids(PyObject *self, PyObject *block)
{
    return ids_of(self, block, pd_block_vars);
}

static PyObject *op_ids(PyObject *self, PyObject *block)
{
    return ids_of(self, block, pd_block_ops);
}

/* ---- variables and ops ---- */

static PyObject *make_var(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct core_scratch scratch = {0};
    int block, kind, existed;
    int64_t id;
    PyObject *result = NULL;
    const char *name;
    if (!core_arity("_make_var", n, 3, 3) && !read_int(args[0], &block) && !read_int(args[2], &kind) &&
        (name = core_text(of(self)->state, &scratch, args[1])) &&
        !core_failed(of(self)->state, pd_var_create(of(self)->at, block, name, kind, &id, &existed)))
        result = Py_BuildValue("LO", (long long)id, existed ? Py_True : Py_False);
    core_scratch_free(&scratch);
    return result;
}

/* The id, or None. */
static PyObject *find_var(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct core_scratch scratch = {0};
    int block, parents;
    int64_t id;
    PyObject *result = NULL;
    const char *name;
    if (!core_arity("_find_var", n, 3, 3) && !read_int(args[0], &block) &&
        (name = core_text(of(self)->state, &scratch, args[1])) && (parents = PyObject_IsTrue(args[2])) >= 0 &&
        !core_failed(of(self)->state, pd_var_lookup(of(self)->at, block, name, parents, &id)))
        result = id < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(id);
    core_scratch_free(&scratch);
    return result;
}

/* Variables of one block, by id, and their new names. */
static PyObject *rename_vars(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct core_scratch scratch = {0};
    int block, n_names;
    int64_t *ids, n_ids;
    const char **names;
    PyObject *result = NULL;
    if (core_arity("_rename_vars", n, 3, 3) || read_int(args[0], &block) ||
        core_int64s(&scratch, args[1], &ids, &n_ids) ||
        core_names(of(self)->state, &scratch, args[2], &names, &n_names))
        goto done;
    if (n_ids != n_names)
        PyErr_Format(PyExc_ValueError, "%lld variables cannot have %d names.", (long long)n_ids, n_names);
    else
        result = core_result(of(self)->state, pd_vars_rename(of(self)->at, block, n_names, ids, names));
done:
    core_scratch_free(&scratch);
    return result;
}

/* Ops and variables, by their ids. */
static PyObject *delete_parts(PyObject *self, PyObject *parts)
{
    struct core_scratch scratch = {0};
    int64_t *ids, n;
    PyObject *result = NULL;
    if (!core_int64s(&scratch, parts, &ids, &n))
        result = core_result(of(self)->state, pd_parts_delete(of(self)->at, n, ids));
    core_scratch_free(&scratch);
    return result;
}

/* A slot's variables: one, a list of them, or an empty list for a slot that is named but empty. */
static int add_slots(struct core_state *state, pd_op_builder *op, int is_output, PyObject *slots)
{
    if (slots == Py_None) return 0;
    if (!PyDict_Check(slots)) {
        PyErr_Format(PyExc_TypeError, "%s of an op must be a dict of slot names, found %R.",
                     is_output ? "outputs" : "inputs", slots);
        return -1;
    }
    Py_ssize_t at = 0;
    PyObject *slot, *vars;
    while (PyDict_Next(slots, &at, &slot, &vars)) {
        struct core_scratch scratch = {0};
        const char **names = NULL, *name;
        int n = 0, failed = 0;
        if (vars == Py_None) continue;
        if (!(name = core_text(state, &scratch, slot)) || core_names(state, &scratch, vars, &names, &n))
            failed = -1;
        else if (n == 0)
            failed = core_failed(state, pd_op_add_arg(op, is_output, name, NULL));
        for (int i = 0; !failed && i < n; i++)
            failed = core_failed(state, pd_op_add_arg(op, is_output, name, names[i]));
        core_scratch_free(&scratch);
        if (failed) return -1;
    }
    return 0;
}

static int add_attrs(struct core_state *state, pd_op_builder *op, PyObject *attrs)
{
    if (attrs == Py_None) return 0;
    if (!PyDict_Check(attrs)) {
        PyErr_Format(PyExc_TypeError, "attrs of an op must be a dict, found %R.", attrs);
        return -1;
    }
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(attrs, &at, &key, &value)) {
        struct core_scratch scratch = {0};
        struct pd_attr attr;
        if (value == Py_None) continue;
        const char *name = core_text(state, &scratch, key);
        int failed = !name || core_attr_read(state, &scratch, value, &attr) ||
                     core_failed(state, pd_op_add_attr(op, name, &attr));
        core_scratch_free(&scratch);
        if (failed) return -1;
    }
    return 0;
}

/* _insert_op(block, index, type, inputs, outputs, attrs) -> id */
static PyObject *insert_op(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct core_state *state = of(self)->state;
    int block, index;
    int64_t id;
    pd_op_builder *op;
    if (core_arity("_insert_op", n, 6, 6) || read_int(args[0], &block) || read_int(args[1], &index) ||
        core_numpy_init(state))
        return NULL;
    struct core_scratch scratch = {0};
    const char *type = core_text(state, &scratch, args[2]);
    int failed = !type || core_failed(state, pd_op_begin(of(self)->at, type, &op));
    core_scratch_free(&scratch);
    if (failed) return NULL;
    if (add_slots(state, op, 0, args[3]) || add_slots(state, op, 1, args[4]) ||
        add_attrs(state, op, args[5])) {
        pd_op_discard(op);
        return NULL;
    }
    return core_failed(state, pd_op_insert(op, block, index, &id)) ? NULL : PyLong_FromLongLong(id);
}

/* ---- gradients ---- */

static int read_clips(struct core_state *state, struct core_scratch *scratch, PyObject *list,
                      pd_backward_options *options)
{
    PyObject *items = PySequence_List(list);
    if (!items || core_scratch_keep(scratch, items)) return -1;
    int n = (int)PyList_Size(items);
    pd_error_clip *clips = core_scratch_get(scratch, sizeof(*clips) * (size_t)(n + 1));
    if (!clips) return -1;
    for (int i = 0; i < n; i++) {
        PyObject *name;
        if (!PyArg_ParseTuple(PyList_GetItem(items, i), "Off:clip", &name, &clips[i].min, &clips[i].max) ||
            !(clips[i].var = core_text(state, scratch, name)))
            return -1;
    }
    options->n_clips = n;
    options->clips = clips;
    return 0;
}

/* _append_backward(loss, parameters, no_grad, [(variable, min, max)]) -> [(parameter, gradient)] */
static PyObject *append_backward(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct core_state *state = of(self)->state;
    struct core_scratch scratch = {0};
    pd_backward_options options = {0};
    const char *loss, **params, **no_grad;
    pd_param_grad *pairs;
    int count;
    PyObject *result = NULL;
    if (core_arity("_append_backward", n, 4, 4) || !(loss = core_text(state, &scratch, args[0])) ||
        core_names(state, &scratch, args[1], &params, &options.n_params) ||
        core_names(state, &scratch, args[2], &no_grad, &options.n_no_grad) ||
        read_clips(state, &scratch, args[3], &options))
        goto done;
    options.params = params;
    options.no_grad = no_grad;
    if (core_failed(state, pd_append_backward(of(self)->at, loss, &options, &pairs, &count))) goto done;
    result = PyList_New(count);
    for (int i = 0; result && i < count; i++)
        PyList_SetItem(result, i, Py_BuildValue("ss", pairs[i].param, pairs[i].grad));
    pd_pairs_free(pairs);
done:
    core_scratch_free(&scratch);
    return result;
}

/* _gradients(targets, gradients of the targets or None, inputs, no_grad) -> [name or None] */
static PyObject *gradients(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct core_state *state = of(self)->state;
    struct core_scratch scratch = {0};
    const char **targets, **inputs, **no_grad, **names, **grads;
    int n_targets, n_inputs, n_no_grad;
    PyObject *result = NULL, *given;
    if (core_arity("_gradients", n, 4, 4) || core_names(state, &scratch, args[0], &targets, &n_targets) ||
        core_names(state, &scratch, args[2], &inputs, &n_inputs) ||
        core_names(state, &scratch, args[3], &no_grad, &n_no_grad) ||
        !(names = core_scratch_get(&scratch, sizeof(*names) * (size_t)(n_inputs + 1))) ||
        !(grads = core_scratch_get(&scratch, sizeof(*grads) * (size_t)(n_targets + 1))) ||
        !(given = PySequence_List(args[1])) || core_scratch_keep(&scratch, given))
        goto done;
    for (int i = 0; i < n_targets; i++) {
        PyObject *grad = i < PyList_Size(given) ? PyList_GetItem(given, i) : Py_None;
        grads[i] = NULL;
        if (grad != Py_None && !(grads[i] = core_text(state, &scratch, grad))) goto done;
    }
    if (core_failed(state, pd_gradients(of(self)->at, n_targets, targets, grads, n_inputs, inputs, n_no_grad,
                                        no_grad, names)))
        goto done;
    result = PyList_New(n_inputs);
    for (int i = 0; result && i < n_inputs; i++)
        PyList_SetItem(result, i, names[i] ? PyUnicode_FromString(names[i]) : Py_NewRef(Py_None));
done:
    core_scratch_free(&scratch);
    return result;
}

static PyMethodDef methods[] = {
    {"_become_copy", CORE_FAST(become_copy), METH_FASTCALL, NULL},
    {"_become_parsed", become_parsed, METH_O, NULL},
    {"_serialize", serialize, METH_NOARGS, NULL},
    {"_dump", dump, METH_NOARGS, NULL},
    {"_check", check, METH_NOARGS, "Verifies every op."},
    {"_keep_only", CORE_FAST(prune), METH_FASTCALL, NULL},
    {"_add_block", add_block, METH_O, NULL},
    {"_block_parent", block_parent, METH_O, NULL},
    {"_set_block_forward", CORE_FAST(set_block_forward), METH_FASTCALL, NULL},
    {"_var_ids", var_ids, METH_O, NULL},
    {"_op_ids", op_ids, METH_O, NULL},
    {"_make_var", CORE_FAST(make_var), METH_FASTCALL, NULL},
    {"_find_var", CORE_FAST(find_var), METH_FASTCALL, NULL},
    {"_rename_vars", CORE_FAST(rename_vars), METH_FASTCALL, NULL},
    {"_delete_parts", delete_parts, METH_O, NULL},
    {"_insert_op", CORE_FAST(insert_op), METH_FASTCALL, NULL},
    {"_append_backward", CORE_FAST(append_backward), METH_FASTCALL, NULL},
    {"_gradients", CORE_FAST(gradients), METH_FASTCALL, NULL},
    {0},
};

static PyObject *get_uid(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(pd_program_uid(of(self)->at));
}

static PyObject *get_changes(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(pd_program_changes(of(self)->at));
}

static PyObject *get_block_count(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(pd_block_count(of(self)->at));
}

static PyObject *get_seed(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(pd_program_seed(of(self)->at));
}

static int set_seed(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    long long seed = value ? PyLong_AsLongLong(value) : 0;
    if (seed == -1 && PyErr_Occurred()) return -1;
    pd_program_set_seed(of(self)->at, seed);
    return 0;
}

static PyObject *get_runs(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(pd_program_runs(of(self)->at));
}

static int set_runs(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    unsigned long long runs = value ? PyLong_AsUnsignedLongLong(value) : 0;
    if (PyErr_Occurred()) return -1;
    pd_program_set_runs(of(self)->at, runs);
    return 0;
}

static PyGetSetDef getters[] = {
    {"_uid", get_uid, NULL, "Unique in this process.", NULL},
    {"_changes", get_changes, NULL, "Raised by every change.", NULL},
    {"num_blocks", get_block_count, NULL, "How many blocks there are.", NULL},
    {"_seed", get_seed, set_seed, "Seed of all random ops; 0: a new one in each process.", NULL},
    {"_runs", get_runs, set_runs, "How often it and its clones have run.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, CORE_TEXT("The handle of a Program of the engine.")},
    {Py_tp_new, make},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

PyType_Spec core_program_spec = {
    .name = "paddle._core.Program",
    .basicsize = sizeof(struct core_program),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
