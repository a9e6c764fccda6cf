/* Dataset: files of samples, and training over them. fluid.dataset has what users call. */
#include "core.h"

struct core_dataset {
    PyObject_HEAD struct core_state *state;
    pd_dataset *at;
    pd_peers *peers;     /* NULL: it does not listen */
    pd_batches *batches; /* NULL: nobody goes over them one by one */
};

static struct core_dataset *of(PyObject *self)
{
    return (struct core_dataset *)self;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    struct core_state *state = core_state_of(type);
    int in_memory;
    pd_dataset *dataset;
    if (!state || core_numpy_init(state) || !PyArg_ParseTuple(args, "p", &in_memory) ||
        core_failed(state, pd_dataset_create(in_memory, &dataset)))
        return NULL;
    PyObject *self = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) {
        pd_dataset_release(dataset);
        return NULL;
    }
    of(self)->state = state;
    of(self)->at = dataset;
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
    pd_batches_end(of(self)->batches);
    pd_peers_release(of(self)->peers);
    pd_dataset_release(of(self)->at);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* One slot: (name, is_float, dims or None), or (name, None, None) for one that is read over. */
static int add_slot(PyObject *self, PyObject *slot)
{
    struct core_scratch scratch = {0};
    const char *name;
    int failed = -1;
    PyObject *is_float, *dims;
    int64_t *dim = NULL, rank = -1;
    if (!PyArg_ParseTuple(slot, "sOO", &name, &is_float, &dims)) return -1;
    if (is_float == Py_None) return core_failed(of(self)->state, pd_dataset_skip_slot(of(self)->at, name));
    if ((dims == Py_None || core_int64s(&scratch, dims, &dim, &rank) == 0))
        failed =
            core_failed(of(self)->state, pd_dataset_add_slot(of(self)->at, name,
                                                             PyObject_IsTrue(is_float) == 1, (int)rank, dim));
    core_scratch_free(&scratch);
    return failed;
}

static PyObject *use_slots(PyObject *self, PyObject *slots)
{
    Py_ssize_t n = PyList_Check(slots) ? PyList_Size(slots) : -1;
    if (n < 0) return PyErr_Format(PyExc_TypeError, "A list is wanted, found %R.", slots);
    if (core_failed(of(self)->state, pd_dataset_clear_slots(of(self)->at))) return NULL;
    for (Py_ssize_t i = 0; i < n; i++)
        if (add_slot(self, PyList_GetItem(slots, i))) return NULL;
    return Py_NewRef(Py_None);
}

static PyObject *expect(PyObject *self, PyObject *args)
{
    int id, text;
    if (!PyArg_ParseTuple(args, "pp", &id, &text)) return NULL;
    return core_result(of(self)->state, pd_dataset_expect(of(self)->at, id, text));
}

static PyObject *use_files(PyObject *self, PyObject *paths)
{
    struct core_scratch scratch = {0};
    const char **names;
    int n;
    PyObject *result = NULL;
    if (core_names(of(self)->state, &scratch, paths, &names, &n) == 0)
        result = core_result(of(self)->state, pd_dataset_use_files(of(self)->at, n, names));
    core_scratch_free(&scratch);
    return result;
}

/* [(path, None, 0), or (name, command, bytes), ...] */
static PyObject *use_sources(PyObject *self, PyObject *list)
{
    struct core_scratch scratch = {0};
    Py_ssize_t n = PyList_Check(list) ? PyList_Size(list) : -1;
    PyObject *result = NULL;
    if (n < 0) return PyErr_Format(PyExc_TypeError, "A list is wanted, found %R.", list);
    pd_data_source *sources = core_scratch_get(&scratch, sizeof *sources * (size_t)(n + 1));
    for (Py_ssize_t i = 0; sources && i < n; i++) {
        long long bytes;
        sources[i] = (pd_data_source){0};
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "szL", &sources[i].path, &sources[i].command, &bytes))
            goto done;
        sources[i].bytes = bytes;
    }
    if (sources) result = core_result(of(self)->state, pd_dataset_use_sources(of(self)->at, (int)n, sources));
done:
    core_scratch_free(&scratch);
    return result;
}

static PyObject *use_command(PyObject *self, PyObject *args)
{
    const char *command;
    if (!PyArg_ParseTuple(args, "z", &command)) return NULL;
    return core_result(of(self)->state, pd_dataset_use_command(of(self)->at, command));
}

static PyObject *set_sizes(PyObject *self, PyObject *args)
{
    long long batch;
    int threads;
    if (!PyArg_ParseTuple(args, "Li", &batch, &threads)) return NULL;
    if (core_failed(of(self)->state, pd_dataset_set_batch(of(self)->at, batch))) return NULL;
    return core_result(of(self)->state, pd_dataset_set_threads(of(self)->at, threads));
}

/* ---- what runs without the GIL ---- */

static PyObject *load(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct core_watch watch = {PyEval_SaveThread()};
    pd_run_options options = {core_poll_signals, &watch};
    pd_status status = pd_dataset_load(of(self)->at, &options);
    PyEval_RestoreThread(watch.thread);
    return PyErr_Occurred() ? NULL : core_result(of(self)->state, status);
}

static PyObject *shuffle(PyObject *self, PyObject *args)
{
    unsigned long long seed;
    if (!PyArg_ParseTuple(args, "K", &seed)) return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    pd_status status = pd_dataset_shuffle(of(self)->at, seed);
    PyEval_RestoreThread(thread);
    return core_result(of(self)->state, status);
}

static PyObject *exchange(PyObject *self, PyObject *args)
{
    struct core_state *state = of(self)->state;
    struct core_scratch scratch = {0};
    unsigned long long seed;
    PyObject *slots, *result = NULL;
    const char **names;
    int n;
    if (PyArg_ParseTuple(args, "OK", &slots, &seed) && core_names(state, &scratch, slots, &names, &n) == 0) {
        PyThreadState *thread = PyEval_SaveThread();
        pd_status status = pd_dataset_exchange(of(self)->at, n, names, seed);
        PyEval_RestoreThread(thread);
        result = core_result(state, status);
    }
    core_scratch_free(&scratch);
    return result;
}

static PyObject *merge(PyObject *self, PyObject *args)
{
    int size;
    int64_t left_out = 0;
    if (!PyArg_ParseTuple(args, "i", &size)) return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    pd_status status = pd_dataset_merge(of(self)->at, size, &left_out);
    PyEval_RestoreThread(thread);
    return core_failed(of(self)->state, status) ? NULL : PyLong_FromLongLong(left_out);
}

static PyObject *drop(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    pd_status status = pd_dataset_drop(of(self)->at);
    PyEval_RestoreThread(thread);
    return core_result(of(self)->state, status);
}

static PyObject *size(PyObject *self, PyObject *unused)
{
    (void)unused;
    int64_t samples, bytes;
    pd_dataset_size(of(self)->at, &samples, &bytes);
    return Py_BuildValue("LL", (long long)samples, (long long)bytes);
}

/* ---- batches, one by one ---- */

static PyObject *end_batches(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_batches *batches = of(self)->batches;
    of(self)->batches = NULL;
    PyThreadState *thread = PyEval_SaveThread();
    pd_batches_end(batches);
    PyEval_RestoreThread(thread);
    return Py_NewRef(Py_None);
}

static PyObject *begin_batches(PyObject *self, PyObject *unused)
{
    Py_DECREF(end_batches(self, unused));
    return core_result(of(self)->state, pd_batches_begin(of(self)->at, &of(self)->batches));
}

static PyObject *stop_batches(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (of(self)->batches) pd_batches_stop(of(self)->batches);
    return Py_NewRef(Py_None);
}

static PyObject *copies(struct core_state *state, int n, pd_value *const *values)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *copy = core_value_new(state->tensor_type, PD_LOD_TENSOR);
        if (!copy || core_failed(state, pd_value_assign(((struct core_value *)copy)->at, values[i]))) {
            Py_XDECREF(copy);
            Py_CLEAR(list);
        } else
            PyList_SetItem(list, i, copy);
    }
    return list;
}

static PyObject *next_batch(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_value *const *values;
    int64_t samples;
    int n;
    if (!of(self)->batches) return PyErr_Format(PyExc_ValueError, "begin_batches() comes first.");
    PyThreadState *thread = PyEval_SaveThread();
    pd_status status = pd_batches_next(of(self)->batches, &n, &values, &samples);
    PyEval_RestoreThread(thread);
    if (core_failed(of(self)->state, status)) return NULL;
    if (!values) return Py_NewRef(Py_None);
    PyObject *list = copies(of(self)->state, n, values);
    return list ? Py_BuildValue("LN", (long long)samples, list) : NULL;
}

/* ---- among workers ---- */

static PyObject *unlisten(PyObject *self, PyObject *unused)
{
    (void)unused;
    pd_peers *peers = of(self)->peers;
    of(self)->peers = NULL;
    PyThreadState *thread = PyEval_SaveThread();
    pd_peers_release(peers);
    PyEval_RestoreThread(thread);
    return Py_NewRef(Py_None);
}

static PyObject *listen(PyObject *self, PyObject *args)
{
    const char *address;
    int worker, workers, port;
    unsigned long long token;
    pd_peers *peers;
    if (!PyArg_ParseTuple(args, "siiK", &address, &worker, &workers, &token)) return NULL;
    Py_DECREF(unlisten(self, NULL));
    if (core_failed(of(self)->state, pd_peers_create(address, worker, workers, token, &peers, &port)))
        return NULL;
    of(self)->peers = peers;
    return PyLong_FromLong(port);
}

/* Numbers of samples and endpoints, one of each for each worker. */
static PyObject *deal(PyObject *self, PyObject *args)
{
    struct core_state *state = of(self)->state;
    struct core_scratch scratch = {0};
    pd_deal_options options = {.peers = of(self)->peers};
    unsigned long long seed;
    PyObject *endpoints, *counts, *result = NULL;
    int64_t *count, n;
    const char **names;
    if (!PyArg_ParseTuple(args, "iOOKp", &options.worker, &endpoints, &counts, &seed, &options.by_id) ||
        core_names(state, &scratch, endpoints, &names, &options.workers) ||
        core_int64s(&scratch, counts, &count, &n))
        goto done;
    if (!options.peers || n != options.workers || options.worker < 0 || options.worker >= n) {
        PyErr_SetString(PyExc_ValueError,
                        "A count and an endpoint for each worker are wanted, after listen().");
        goto done;
    }
    struct core_watch watch = {PyEval_SaveThread()};
    options.endpoints = names;
    options.counts = count;
    options.seed = seed;
    options.poll = core_poll_signals;
    options.arg = &watch;
    pd_status status = pd_dataset_deal(of(self)->at, &options);
    PyEval_RestoreThread(watch.thread);
    if (!PyErr_Occurred()) result = core_result(state, status);
done:
    core_scratch_free(&scratch);
    return result;
}

/* ---- training ---- */

struct training {
    struct core_watch watch;
    struct core_state *state;
    PyObject *on_print, *on_poll, *on_pause;
    int n_fetches;
    int is_over;         /* something was raised, and nothing more is asked from Python; atomic */
    PyObject *raised[3]; /* by on_print */
};

static PyObject *report_tuple(const pd_train_report *r)
{
    return Py_BuildValue("LLLLLLLL", (long long)r->batches, (long long)r->samples, (long long)r->done,
                         (long long)r->all, (long long)r->read_ns, (long long)r->run_ns,
                         (long long)r->wait_ns, (long long)r->since_pause);
}

/* A list of arrays; what is no tensor is None. */
static PyObject *arrays(struct training *t, const pd_value *const *fetched)
{
    PyObject *list = PyList_New(t->n_fetches);
    for (int i = 0; list && i < t->n_fetches; i++) {
        pd_tensor_desc tensor;
        PyObject *array = pd_value_tensor(fetched[i], &tensor) == PD_OK && tensor.data
                              ? core_array_copy(t->state, &tensor)
                              : Py_NewRef(Py_None);
        if (!array) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SetItem(list, i, array);
    }
    return list;
}

/* In a thread of the engine's. What it raises ends the training. */
static void print(void *arg, int64_t batch, const pd_value *const *fetched)
{
    struct training *t = arg;
    if (__atomic_load_n(&t->is_over, __ATOMIC_ACQUIRE)) return;
    PyGILState_STATE held = PyGILState_Ensure();
    PyObject *list = arrays(t, fetched);
    PyObject *result = list ? PyObject_CallFunction(t->on_print, "LO", (long long)batch, list) : NULL;
    if (!result) {
        PyErr_Fetch(&t->raised[0], &t->raised[1], &t->raised[2]);
        __atomic_store_n(&t->is_over, 1, __ATOMIC_RELEASE);
    }
    Py_XDECREF(result);
    Py_XDECREF(list);
    PyGILState_Release(held);
}

/* In the calling thread. */
static int call_with(struct training *t, PyObject *callable, const pd_train_report *report)
{
    PyEval_RestoreThread(t->watch.thread);
    PyObject *tuple = report_tuple(report);
    PyObject *result = tuple ? PyObject_CallFunctionObjArgs(callable, tuple, NULL) : NULL;
    int stop = !result;
    Py_XDECREF(result);
    Py_XDECREF(tuple);
    t->watch.thread = PyEval_SaveThread();
    if (stop) __atomic_store_n(&t->is_over, 1, __ATOMIC_RELEASE);
    return stop;
}

static int poll_train(void *arg, const pd_train_report *report)
{
    struct training *t = arg;
    if (__atomic_load_n(&t->is_over, __ATOMIC_ACQUIRE)) return 1;
    int stop = core_poll_signals(&t->watch);
    if (stop) __atomic_store_n(&t->is_over, 1, __ATOMIC_RELEASE);
    return stop || (t->on_poll && call_with(t, t->on_poll, report));
}

static int pause_train(void *arg, const pd_train_report *report)
{
    struct training *t = arg;
    return call_with(t, t->on_pause, report);
}

static PyObject *train(PyObject *self, PyObject *args)
{
    struct core_state *state = of(self)->state;
    struct core_scratch scratch = {0};
    struct training training = {.state = state};
    pd_train_options options = {.poll = poll_train, .arg = &training};
    pd_train_report report;
    PyObject *program, *scope, *fetches, *on_print, *on_poll, *on_pause = NULL, *result = NULL;
    long long period, show_ms, skip = 0, pause_every = 0, since_pause = 0;
    if (!PyArg_ParseTuple(args, "O!O!iOLLOO|LLOL", state->program_type, &program, state->scope_type, &scope,
                          &options.threads, &fetches, &period, &show_ms, &on_print, &on_poll, &skip,
                          &pause_every, &on_pause, &since_pause))
        return NULL;
    const char **names;
    if (core_names(state, &scratch, fetches, &names, &options.n_fetches)) goto done;
    options.fetches = names;
    options.print_period = period > 0 ? period : 1;
    options.show_ms = show_ms;
    options.print = on_print == Py_None ? NULL : print;
    training.on_print = on_print;
    training.on_poll = on_poll == Py_None ? NULL : on_poll;
    training.on_pause = on_pause;
    options.is_fixed = on_pause != NULL;
    options.skip = skip;
    options.pause_every = on_pause ? pause_every : 0;
    options.since_pause = since_pause;
    options.pause = pause_train;
    training.n_fetches = options.n_fetches;
    core_signal_stack();
    training.watch.thread = PyEval_SaveThread();
    pd_status status = pd_dataset_train(of(self)->at, ((struct core_program *)program)->at,
                                        ((struct core_scope *)scope)->at, &options, &report);
    PyEval_RestoreThread(training.watch.thread);
    if (PyErr_Occurred()) { /* a signal's, which may have come beside another */
        for (int i = 0; i < 3; i++)
            Py_XDECREF(training.raised[i]);
    } else if (training.raised[0])
        PyErr_Restore(training.raised[0], training.raised[1], training.raised[2]);
    else if (!core_failed(state, status))
        result = report_tuple(&report);
done:
    core_scratch_free(&scratch);
    return result;
}

static PyMethodDef methods[] = {
    {"use_slots", use_slots, METH_O,
     "use_slots([(name, is_float, dims or None), ...]); is_float None: read over"},
    {"expect", expect, METH_VARARGS, "expect(id, text): what lines begin with"},
    {"use_files", use_files, METH_O, "use_files(paths)"},
    {"use_sources", use_sources, METH_O, "use_sources([(path, command or None, bytes), ...])"},
    {"use_command", use_command, METH_VARARGS, "use_command(text or None)"},
    {"set_sizes", set_sizes, METH_VARARGS, "set_sizes(batch, threads)"},
    {"load", load, METH_NOARGS, "Adds the samples of the files to those in memory."},
    {"shuffle", shuffle, METH_VARARGS, "shuffle(seed)"},
    {"exchange", exchange, METH_VARARGS, "exchange(slots, seed)"},
    {"merge", merge, METH_VARARGS, "merge(size) -> samples left out"},
    {"listen", listen, METH_VARARGS, "listen(address, worker, workers, token) -> port"},
    {"deal", deal, METH_VARARGS, "deal(worker, endpoints, counts, seed, by_id): with all workers"},
    {"unlisten", unlisten, METH_NOARGS, "Ends what listen() began."},
    {"drop", drop, METH_NOARGS, "Lets go of the samples in memory."},
    {"size", size, METH_NOARGS, "(samples, bytes) in memory"},
    {"begin_batches", begin_batches, METH_NOARGS, "Begins to go over them."},
    {"next_batch", next_batch, METH_NOARGS, "(samples, [LoDTensor, ...]), or None at the end"},
    {"stop_batches", stop_batches, METH_NOARGS, "Any thread: next_batch() returns."},
    {"end_batches", end_batches, METH_NOARGS,
     "Ends what begin_batches() began, when nobody is in next_batch()."},
    {"train", train, METH_VARARGS,
     "train(program, scope, threads, fetches, period, show_ms, on_print, on_poll[, skip, pause_every, "
     "on_pause, since_pause]) -> (batches, samples, done, all, read_ns, run_ns, wait_ns, since_pause)"},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, CORE_TEXT("Dataset(in_memory)\n\nFiles of samples.")},
    {Py_tp_new, make},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec core_dataset_spec = {
    .name = "paddle.fluid.core.Dataset",
    .basicsize = sizeof(struct core_dataset),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
