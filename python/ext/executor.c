/* Executor: one call binds the feeds, runs the Program and makes the result arrays. fluid.Executor derives
 * from it.
 *
 * A training loop makes the same call over and over, so the last few calls are remembered: a call is known
 * again by the Program's number and change counter, by the feed's keys in their order and by the fetched
 * items. Then nothing is looked up by name. Arrays are lent to the engine; the GIL is free while
 * it runs. What another thread runs meanwhile runs beside it, in a lane of its own (lane.c). */
#include "executor.h"

static struct core_executor *of(PyObject *self)
{
    return (struct core_executor *)self;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    struct core_state *state = core_state_of(type);
    pd_executor *executor;
    if (!state || core_numpy_init(state) || core_failed(state, pd_executor_create(&executor))) return NULL;
    PyObject *self = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) {
        pd_executor_free(executor);
        return NULL;
    }
    core_lanes_init();
    of(self)->first.state = state;
    of(self)->first.at = executor;
    return self;
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    core_lanes_shut(of(self));
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

int core_poll_signals(void *arg)
{
    struct core_watch *watch = arg;
    PyEval_RestoreThread(watch->thread);
    int stop = PyErr_CheckSignals();
    watch->thread = PyEval_SaveThread();
    return stop;
}

PyObject *core_leave_job(int failed, const char *why, int at_exit)
{
    struct core_watch watch = {PyEval_SaveThread()};
    (at_exit ? pd_leave_job_at_exit : pd_leave_job_polling)(failed, why, core_poll_signals, &watch);
    PyEval_RestoreThread(watch.thread);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *shut(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (core_lanes_running(of(self))) {
        PyErr_SetString(PyExc_RuntimeError, "This executor is running. Close it when the run has ended.");
        return NULL;
    }
    core_lanes_shut(of(self));
    return Py_NewRef(Py_None);
}

/* ---- the arguments of run() ---- */

enum argument {
    ARG_PROGRAM,
    ARG_FEED,
    ARG_FETCH_LIST,
    ARG_FEED_VAR_NAME,
    ARG_FETCH_VAR_NAME,
    ARG_SCOPE,
    ARG_RETURN_NUMPY,
    ARG_USE_PROGRAM_CACHE,
    ARG_RETURN_MERGED,
    ARG_USE_PRUNE,
    ARG_COUNT
};

static const char *const argument_names[ARG_COUNT] = {
    "program", "feed",         "fetch_list",        "feed_var_name", "fetch_var_name",
    "scope",   "return_numpy", "use_program_cache", "return_merged", "use_prune",
};

static int read_arguments(PyObject *const *args, Py_ssize_t n, PyObject *names, PyObject **out)
{
    if (n > ARG_COUNT) {
        PyErr_Format(PyExc_TypeError, "run() takes at most %d arguments, found %zd.", ARG_COUNT, n);
        return -1;
    }
    for (Py_ssize_t i = 0; i < ARG_COUNT; i++)
        out[i] = i < n && args[i] != Py_None ? args[i] : NULL;
    Py_ssize_t n_names = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < n_names; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        int k = 0;
        while (k < ARG_COUNT && PyUnicode_CompareWithASCIIString(name, argument_names[k]) != 0)
            k++;
        if (k == ARG_COUNT || k < n) {
            PyErr_Format(
                PyExc_TypeError,
                k == ARG_COUNT
                    ? "run() has no argument %R. It takes program, feed, fetch_list, feed_var_name, "
                      "fetch_var_name, scope, return_numpy, use_program_cache, return_merged and use_prune."
                    : "run() got the argument %R twice.",
                name);
            return -1;
        }
        out[k] = args[n + i] != Py_None ? args[n + i] : NULL;
    }
    return 0;
}

/* Compiled Programs, lists of feeds, nested fetch lists and the like are put in plain form by Python, which
 * calls run() again. */
static PyObject *call_python(PyObject *self, const char *name, PyObject **given)
{
    PyObject *args = PyTuple_New(ARG_COUNT), *result = NULL;
    for (int i = 0; args && i < ARG_COUNT; i++)
        PyTuple_SetItem(args, i, Py_NewRef(given[i] ? given[i] : Py_None));
    PyObject *method = args ? PyObject_GetAttrString(self, name) : NULL;
    if (method) result = PyObject_CallObject(method, args);
    Py_XDECREF(method);
    Py_XDECREF(args);
    return result;
}

/* A run that failed for want of a variable: one that is fed to a Program that has none of that name is left
 * out, and what lies on servers is asked for there. Python decides, and returns NotImplemented where the
 * error stands. */
static PyObject *run_lacking(PyObject *self, PyObject **given)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *result = call_python(self, "_run_lacking", given);
    if (result == Py_NotImplemented) {
        Py_DECREF(result);
        PyErr_Restore(type, value, trace);
        return NULL;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return result;
}

/* Has the engine said that there is no such variable, or no value of it? */
static int lacks_variable(struct core_state *state)
{
    return PyErr_ExceptionMatches(state->enforce) &&
           (PyErr_ExceptionMatches(PyExc_KeyError) || PyErr_ExceptionMatches(PyExc_ReferenceError) ||
            PyErr_ExceptionMatches(PyExc_ValueError));
}

static int is_plain(struct core_state *state, PyObject **given, struct core_request *request)
{
    if (given[ARG_FEED] && !PyDict_Check(given[ARG_FEED])) return 0;
    request->program = given[ARG_PROGRAM] ? given[ARG_PROGRAM] : state->default_main;
    if (!request->program || !PyObject_TypeCheck(request->program, state->program_type)) return 0;
    request->scope = given[ARG_SCOPE] ? given[ARG_SCOPE] : state->global_scope;
    if (!request->scope || !PyObject_TypeCheck(request->scope, state->scope_type)) return 0;
    if (given[ARG_USE_PRUNE] && given[ARG_USE_PRUNE] != Py_False) return 0;
    request->feed = given[ARG_FEED];
    request->fetches = given[ARG_FETCH_LIST];
    request->fetches_are_list = request->fetches && PyList_Check(request->fetches);
    if (request->fetches && !request->fetches_are_list && !PyTuple_Check(request->fetches)) return 0;
    request->n_fetches = !request->fetches ? 0 : PySequence_Size(request->fetches);
    for (Py_ssize_t i = 0; i < request->n_fetches; i++) {
        PyObject *item = core_request_fetch(request, i);
        if (!PyUnicode_Check(item) && !PyObject_TypeCheck(item, state->var_type)) return 0;
    }
    request->as_numpy = given[ARG_RETURN_NUMPY] ? PyObject_IsTrue(given[ARG_RETURN_NUMPY]) : 1;
    return 1;
}

/* ---- the run ---- */

static PyObject *take_results(struct core_state *state, struct core_call *call, int as_numpy)
{
    PyObject *results = PyList_New(call->n_fetches);
    for (int i = 0; results && i < call->n_fetches; i++) {
        PyObject *item = core_call_result(state, call, i, as_numpy);
        if (!item)
            Py_CLEAR(results);
        else
            PyList_SetItem(results, i, item);
    }
    return results;
}

/* NULL without an exception: readers' batches are wanted first. */
static PyObject *run_in(struct core_lane *lane, struct core_request *request)
{
    struct core_call *call = core_call_find(lane, request);
    if (!call || call->reads) return NULL;
    struct core_lent lent;
    PyObject *results = NULL;
    core_signal_stack();
    if (core_feed(lane->state, call, request, &lent) == 0) {
        struct core_watch watch;
        pd_run_options options = {.poll = core_poll_signals, .arg = &watch};
        watch.thread = PyEval_SaveThread();
        pd_status status =
            pd_prepared_run(call->prepared, ((struct core_scope *)request->scope)->at, &options);
        PyEval_RestoreThread(watch.thread);
        if (core_failed(lane->state, status) == 0)
            results = take_results(lane->state, call, request->as_numpy);
    }
    if (lent.keep) pd_prepared_unfeed(call->prepared);
    core_lent_release(&lent);
    return results;
}

/* What the caller owns must outlive the run: another thread may let go of it meanwhile. */
static PyObject *run_plain(struct core_executor *self, struct core_request *request)
{
    struct core_lane *lane = core_lane_take(self);
    if (!lane) return NULL;
    Py_INCREF(request->program);
    Py_INCREF(request->scope);
    PyObject *results = run_in(lane, request);
    core_lane_give_back(self, lane);
    Py_DECREF(request->program);
    Py_DECREF(request->scope);
    return results;
}

/* Is it a trainer's Program, of a process that had left its job? Asked only of a process that had. */
static int comes_back(PyObject *program)
{
    PyObject *is_in_job = PyObject_GetAttrString(program, "_is_distributed");
    int found = is_in_job && PyObject_IsTrue(is_in_job) == 1;
    if (!is_in_job) PyErr_Clear();
    Py_XDECREF(is_in_job);
    return found;
}

static PyObject *run_given(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names, int fed)
{
    PyObject *given[ARG_COUNT];
    struct core_request request = {.fed = fed};
    if (read_arguments(args, n, names, given)) return NULL;
    struct core_state *state = of(self)->first.state;
    if (!of(self)->first.at) return core_raise_closed();
    if (!is_plain(state, given, &request))
        return PyErr_Occurred() ? NULL : call_python(self, "_run_other", given);
    if (state->has_left && !fed && comes_back(request.program))
        return call_python(self, "_run_returning", given);
    PyObject *results = run_plain(of(self), &request);
    if (!results && !PyErr_Occurred()) return call_python(self, "_run_reading", given);
    return !results && lacks_variable(state) ? run_lacking(self, given) : results;
}

static PyObject *run(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return run_given(self, args, n, names, 0);
}

static PyObject *run_fed(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return run_given(self, args, n, names, 1);
}

static PyMethodDef methods[] = {
    {"run", CORE_FAST(run), METH_FASTCALL | METH_KEYWORDS,
     "run($self, program=None, feed=None, fetch_list=None, feed_var_name='feed', fetch_var_name='fetch', "
     "scope=None, return_numpy=True, use_program_cache=False, return_merged=True, use_prune=False)\n--\n\n"
     "Runs a Program once and returns the values of fetch_list.\n\n"
     "Args:\n"
     "    program: a Program or a CompiledProgram; None: the default main program.\n"
     "    feed: {name: array or LoDTensor}, for all variables that layers.data or fluid.data made.\n"
     "    fetch_list: Variables or names; None: nothing comes back.\n"
     "    feed_var_name: has no effect.\n"
     "    fetch_var_name: has no effect.\n"
     "    scope: where parameters live; None: fluid.global_scope().\n"
     "    return_numpy: arrays come back; False: LoDTensors, which a value with sequences needs.\n"
     "    use_program_cache: has no effect: plans are always kept.\n"
     "    return_merged: False: one value for each place, of a CompiledProgram with several.\n"
     "    use_prune: run only what the fetches need.\n\n"
     "Returns:\n"
     "    a list with the value of each fetch."},
    {"_run_fed", CORE_FAST(run_fed), METH_FASTCALL | METH_KEYWORDS,
     "run() with a feed that holds what the Program's readers give."},
    {"_free", shut, METH_NOARGS, "Frees the plans; the executor runs nothing more."},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, CORE_TEXT("Runs Programs.")},
    {Py_tp_new, make},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec core_executor_spec = {
    .name = "paddle._core.Executor",
    .basicsize = sizeof(struct core_executor),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
