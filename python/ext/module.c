/* The module paddle._core: its state, its types, and what the Python side hands over to it. */
#include "core.h"

static struct PyModuleDef definition;

struct core_state *core_state_of(PyTypeObject *type)
{
    /* A Python subclass has no module of ours; one of its bases has. */
    for (PyTypeObject *base = type; base; base = (PyTypeObject *)PyType_GetSlot(base, Py_tp_base)) {
        PyObject *module = PyType_GetFlags(base) & Py_TPFLAGS_HEAPTYPE ? PyType_GetModule(base) : NULL;
        if (!module) {
            PyErr_Clear();
            continue;
        }
        if (PyModule_GetDef(module) == &definition) return PyModule_GetState(module);
    }
    PyErr_Format(PyExc_SystemError, "%R does not belong to paddle._core.", type);
    return NULL;
}

static struct core_state *state_of(PyObject *module)
{
    return PyModule_GetState(module);
}

static PyObject *hand_over(PyObject **place, PyObject *object)
{
    core_replace(place, Py_NewRef(object));
    return Py_NewRef(Py_None);
}

static PyObject *set_var_types(PyObject *module, PyObject *list)
{
    if (!PyList_Check(list)) return PyErr_Format(PyExc_TypeError, "A list is wanted, found %R.", list);
    return hand_over(&state_of(module)->var_types, list);
}

static PyObject *set_default_main(PyObject *module, PyObject *program)
{
    return hand_over(&state_of(module)->default_main, program);
}

static PyObject *get_default_main(PyObject *module, PyObject *unused)
{
    (void)unused;
    PyObject *program = state_of(module)->default_main;
    return Py_NewRef(program ? program : Py_None);
}

static PyObject *set_global_scope(PyObject *module, PyObject *scope)
{
    if (!PyObject_TypeCheck(scope, state_of(module)->scope_type))
        return PyErr_Format(PyExc_TypeError, "A Scope is wanted, found %R.", scope);
    return hand_over(&state_of(module)->global_scope, scope);
}

static PyObject *get_global_scope(PyObject *module, PyObject *unused)
{
    (void)unused;
    PyObject *scope = state_of(module)->global_scope;
    return Py_NewRef(scope ? scope : Py_None);
}

static PyObject *set_convert_feed(PyObject *module, PyObject *function)
{
    return hand_over(&state_of(module)->convert_feed, function);
}

static PyMethodDef hand_over_methods[] = {
    {"_set_var_types", set_var_types, METH_O, "The VarType for each number, as a list."},
    {"_set_default_main", set_default_main, METH_O, "The Program that Executor.run takes when it gets none."},
    {"_get_default_main", get_default_main, METH_NOARGS, NULL},
    {"_set_global_scope", set_global_scope, METH_O, "The scope that Executor.run takes when it gets none."},
    {"_get_global_scope", get_global_scope, METH_NOARGS, NULL},
    {"_set_convert_feed", set_convert_feed, METH_O,
     "Makes an array or a tensor of anything else that is fed."},
    {0},
};

static int add_type(PyObject *module, const char *name, PyType_Spec *spec, PyTypeObject **place)
{
    *place = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return !*place || PyModule_AddObjectRef(module, name, (PyObject *)*place);
}

static int execute(PyObject *module)
{
    struct core_state *state = state_of(module);
    /* Past sys.stderr: any thread may say something, with the GIL or without. */
    pd_log_set(pd_log_to_stderr, NULL);
    if (core_errors_init(state, module) ||
        add_type(module, "Program", &core_program_spec, &state->program_type) ||
        add_type(module, "Var", &core_var_spec, &state->var_type) ||
        add_type(module, "Op", &core_op_spec, &state->op_type) ||
        add_type(module, "Scope", &core_scope_spec, &state->scope_type) ||
        add_type(module, "Variable", &core_holder_spec, &state->holder_type) ||
        add_type(module, "LoDTensor", &core_tensor_spec, &state->tensor_type) ||
        add_type(module, "SelectedRows", &core_rows_spec, &state->rows_type) ||
        add_type(module, "LoDTensorArray", &core_array_spec, &state->array_type) ||
        add_type(module, "Executor", &core_executor_spec, &state->executor_type) ||
        add_type(module, "Dataset", &core_dataset_spec, &state->dataset_type) ||
        PyModule_AddFunctions(module, core_library_methods) || core_failed(state, pd_flag_check()))
        return -1;
    return 0;
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    struct core_state *state = state_of(module);
    Py_VISIT(state->program_type);
    Py_VISIT(state->var_type);
    Py_VISIT(state->op_type);
    Py_VISIT(state->scope_type);
    Py_VISIT(state->holder_type);
    Py_VISIT(state->tensor_type);
    Py_VISIT(state->rows_type);
    Py_VISIT(state->array_type);
    Py_VISIT(state->executor_type);
    Py_VISIT(state->dataset_type);
    Py_VISIT(state->enforce);
    for (int i = 0; i < CORE_STATUS_COUNT; i++)
        Py_VISIT(state->errors[i]);
    Py_VISIT(state->var_types);
    Py_VISIT(state->default_main);
    Py_VISIT(state->global_scope);
    Py_VISIT(state->convert_feed);
    return 0;
}

static int clear(PyObject *module)
{
    struct core_state *state = state_of(module);
    /* Types and error classes stay: objects that outlive the module's clearing still need them. */
    Py_CLEAR(state->var_types);
    Py_CLEAR(state->default_main);
    Py_CLEAR(state->global_scope);
    Py_CLEAR(state->convert_feed);
    return 0;
}

static void release(void *module)
{
    struct core_state *state = state_of(module);
    clear(module);
    PyObject **objects[] = {
        (PyObject **)&state->program_type,
        (PyObject **)&state->var_type,
        (PyObject **)&state->op_type,
        (PyObject **)&state->scope_type,
        (PyObject **)&state->holder_type,
        (PyObject **)&state->tensor_type,
        (PyObject **)&state->rows_type,
        (PyObject **)&state->array_type,
        (PyObject **)&state->executor_type,
        (PyObject **)&state->dataset_type,
        &state->enforce,
        &state->np_empty,
        &state->np_asarray,
        &state->np_contiguous,
        &state->np_ndarray,
        &state->np_bool,
    };
    for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
        Py_CLEAR(*objects[i]);
    for (int i = 0; i < CORE_STATUS_COUNT; i++)
        Py_CLEAR(state->errors[i]);
    for (int i = 0; i < CORE_DTYPE_COUNT; i++)
        Py_CLEAR(state->np_dtype[i]);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "paddle._core",
    .m_doc = "The engine, as far as Python sees it.",
    .m_size = sizeof(struct core_state),
    .m_methods = hand_over_methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = release,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
