/* Functions about the library as a whole: versions, flags, threads, the table of ops, the profile. */
#include "core.h"

static struct core_state *state_of(PyObject *module)
{
    return PyModule_GetState(module);
}

static PyObject *version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(pd_version());
}

static PyObject *paddle_version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(pd_paddle_version());
}

static PyObject *build_has(PyObject *module, PyObject *feature)
{
    (void)module;
    const char *text = PyUnicode_AsUTF8AndSize(feature, NULL);
    return text ? PyBool_FromLong(pd_build_has(text)) : NULL;
}

static PyObject *set_threads(PyObject *module, PyObject *number)
{
    (void)module;
    long threads = PyLong_AsLong(number);
    if (threads == -1 && PyErr_Occurred()) return NULL;
    pd_set_threads((int)threads);
    return Py_NewRef(Py_None);
}

static PyObject *get_threads(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLong(pd_get_threads());
}

static PyObject *flag_set(PyObject *module, PyObject *args)
{
    const char *name, *value;
    return PyArg_ParseTuple(args, "ss:flag_set", &name, &value)
               ? core_result(state_of(module), pd_flag_set(name, value))
               : NULL;
}

static PyObject *flag_get(PyObject *module, PyObject *flag)
{
    const char *name = PyUnicode_AsUTF8AndSize(flag, NULL), *value;
    if (!name || core_failed(state_of(module), pd_flag_get(name, &value))) return NULL;
    return PyUnicode_FromString(value);
}

/* A list of what `at(i)` gives until NULL. */
static PyObject *list_of(const char *(*at)(int index))
{
    PyObject *list = PyList_New(0);
    const char *text;
    for (int i = 0; list && (text = at(i)); i++) {
        PyObject *name = PyUnicode_FromString(text);
        if (!name || PyList_Append(list, name)) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static PyObject *ps_status(PyObject *module, PyObject *endpoint)
{
    const char *text = PyUnicode_AsUTF8AndSize(endpoint, NULL);
    pd_bytes found;
    pd_status status;
    if (!text) return NULL;
    Py_BEGIN_ALLOW_THREADS status = pd_ps_status(text, 1, &found);
    Py_END_ALLOW_THREADS if (core_failed(state_of(module), status)) return NULL;
    PyObject *shown = PyUnicode_DecodeUTF8(found.at, (Py_ssize_t)found.n, "replace");
    pd_bytes_free(&found);
    return shown;
}

static PyObject *checksum(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer view;
    unsigned crc;
    if (!PyArg_ParseTuple(args, "Iy*:checksum", &crc, &view)) return NULL;
    Py_BEGIN_ALLOW_THREADS crc = pd_checksum(crc, view.buf, (size_t)view.len);
    Py_END_ALLOW_THREADS PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(crc);
}

static PyObject *flag_names(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return list_of(pd_flag_name);
}

static PyObject *op_types(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return list_of(pd_op_type_at);
}

static PyObject *op_known(PyObject *module, PyObject *type)
{
    (void)module;
    const char *text = PyUnicode_AsUTF8AndSize(type, NULL);
    return text ? PyBool_FromLong(pd_op_known(text)) : NULL;
}

static PyObject *op_has_grad(PyObject *module, PyObject *type)
{
    (void)module;
    const char *text = PyUnicode_AsUTF8AndSize(type, NULL);
    return text ? PyLong_FromLong(pd_op_has_grad(text)) : NULL;
}

static PyObject *slots_of(struct core_state *state, const char *type, int is_output)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list; i++) {
        const char *name;
        unsigned flags;
        int failed = core_failed(state, pd_op_slot_def(type, is_output, i, &name, &flags));
        if (!failed && !name) break;
        PyObject *slot = failed ? NULL : Py_BuildValue("sI", name, flags);
        if (!slot || PyList_Append(list, slot)) Py_CLEAR(list);
        Py_XDECREF(slot);
    }
    return list;
}

static PyObject *attrs_of(struct core_state *state, const char *type)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list; i++) {
        const char *name;
        struct pd_attr value;
        int failed = core_failed(state, pd_op_attr_def(type, i, &name, &value));
        if (!failed && !name) break;
        PyObject *fallback = failed ? NULL : core_attr_write(&value);
        PyObject *attr = fallback ? Py_BuildValue("siN", name, (int)value.type, fallback) : NULL;
        if (!attr || PyList_Append(list, attr)) Py_CLEAR(list);
        Py_XDECREF(attr);
    }
    return list;
}

/* (doc, [(input slot, flags)], [(output slot, flags)], [(attribute, type, default)]) */
static PyObject *op_def(PyObject *module, PyObject *name)
{
    struct core_state *state = state_of(module);
    const char *type = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!type) return NULL;
    PyObject *inputs = slots_of(state, type, 0);
    PyObject *outputs = inputs ? slots_of(state, type, 1) : NULL;
    PyObject *attrs = outputs ? attrs_of(state, type) : NULL;
    if (!attrs) {
        Py_XDECREF(inputs);
        Py_XDECREF(outputs);
        return NULL;
    }
    const char *doc = pd_op_doc(type);
    return Py_BuildValue("sNNN", doc ? doc : "", inputs, outputs, attrs);
}

static PyObject *profile_start(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    pd_profile_start();
    return Py_NewRef(Py_None);
}

static PyObject *profile_stop(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    pd_profile_stop();
    return Py_NewRef(Py_None);
}

static PyObject *profile_reset(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    pd_profile_reset();
    return Py_NewRef(Py_None);
}

static PyObject *profile_report(PyObject *module, PyObject *args)
{
    const char *sort = NULL;
    pd_bytes bytes;
    if (!PyArg_ParseTuple(args, "|z:profiler_report", &sort) ||
        core_failed(state_of(module), pd_profile_report(sort, &bytes)))
        return NULL;
    return core_bytes_to_text(&bytes);
}

static PyObject *leave_job(PyObject *module, PyObject *args)
{
    struct core_state *state = PyModule_GetState(module);
    int failed, at_exit = 0;
    const char *why;
    if (!PyArg_ParseTuple(args, "ps|p", &failed, &why, &at_exit)) return NULL;
    state->has_left |= pd_job_id() >= 0;
    return core_leave_job(failed, why, at_exit);
}

static PyObject *set_left(PyObject *module, PyObject *value)
{
    struct core_state *state = PyModule_GetState(module);
    int before = state->has_left;
    state->has_left = PyObject_IsTrue(value) == 1;
    return PyBool_FromLong(before);
}

static PyObject *trains_on(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    pd_job_trains_on();
    Py_RETURN_NONE;
}

/* (name, servers, trainer, trainers, bytes or None): None, or the bytes of all. */
static PyObject *job_meet(PyObject *module, PyObject *args)
{
    struct core_state *state = state_of(module);
    struct core_scratch scratch = {0};
    pd_meeting meeting;
    PyObject *servers, *found = NULL;
    const char *bytes;
    Py_ssize_t n;
    pd_bytes all = {0};
    if (!PyArg_ParseTuple(args, "sOiiz#:job_meet", &meeting.name, &servers, &meeting.trainer,
                          &meeting.trainers, &bytes, &n) ||
        core_names(state, &scratch, servers, (const char ***)&meeting.servers, &meeting.n_servers)) {
        core_scratch_free(&scratch);
        return NULL;
    }
    struct core_watch watch = {PyEval_SaveThread()};
    pd_status status = bytes ? pd_job_gather(&meeting, bytes, (size_t)n, &all, core_poll_signals, &watch)
                             : pd_job_barrier(&meeting, core_poll_signals, &watch);
    PyEval_RestoreThread(watch.thread);
    if (!PyErr_Occurred() && !core_failed(state, status))
        found = bytes ? PyBytes_FromStringAndSize(all.at, (Py_ssize_t)all.n) : Py_NewRef(Py_None);
    pd_bytes_free(&all);
    core_scratch_free(&scratch);
    return found;
}

static PyObject *communicator_start(PyObject *module, PyObject *args)
{
    pd_communicator how;
    if (!PyArg_ParseTuple(args, "iiiipi:communicator_start", &how.mode, &how.queue, &how.merge, &how.wait_ms,
                          &how.averages, &how.pulls_every) ||
        core_failed(state_of(module), pd_communicator_start(&how)))
        return NULL;
    return Py_NewRef(Py_None);
}

static PyObject *communicator_stop(PyObject *module, PyObject *unused)
{
    (void)unused;
    struct core_watch watch = {PyEval_SaveThread()};
    pd_status status = pd_communicator_stop(core_poll_signals, &watch);
    PyEval_RestoreThread(watch.thread);
    if (PyErr_Occurred() || core_failed(state_of(module), status)) return NULL;
    return Py_NewRef(Py_None);
}

static PyObject *communicator_flush(PyObject *module, PyObject *unused)
{
    (void)unused;
    struct core_watch watch = {PyEval_SaveThread()};
    pd_status status = pd_communicator_flush(core_poll_signals, &watch);
    PyEval_RestoreThread(watch.thread);
    if (PyErr_Occurred() || core_failed(state_of(module), status)) return NULL;
    return Py_NewRef(Py_None);
}

static PyObject *communicator_runs(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(pd_communicator_runs());
}

static PyObject *job_id(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLong(pd_job_id());
}

/* A number that this trainer knows of the job of a server. */
static PyObject *number_of_job(PyObject *endpoint, uint64_t (*ask)(const char *server))
{
    uint64_t number;
    const char *server = PyUnicode_AsUTF8AndSize(endpoint, NULL);
    if (!server) return NULL;
    Py_BEGIN_ALLOW_THREADS number = ask(server);
    Py_END_ALLOW_THREADS return PyLong_FromUnsignedLongLong(number);
}

static PyObject *seed_programs(PyObject *module, PyObject *seed)
{
    (void)module;
    unsigned long long value = PyLong_AsUnsignedLongLong(seed);
    if (PyErr_Occurred()) return NULL;
    pd_seed_programs(value);
    Py_RETURN_NONE;
}

static PyObject *job_steps(PyObject *module, PyObject *endpoint)
{
    (void)module;
    return number_of_job(endpoint, pd_job_steps);
}

static PyObject *job_key(PyObject *module, PyObject *endpoint)
{
    (void)module;
    return number_of_job(endpoint, pd_job_key);
}

static PyObject *job_passed(PyObject *module, PyObject *endpoint)
{
    (void)module;
    return number_of_job(endpoint, pd_job_passed);
}

PyMethodDef core_library_methods[] = {
    {"version", version, METH_NOARGS, "Version of the library."},
    {"paddle_version", paddle_version, METH_NOARGS, "The Paddle whose names and files it follows."},
    {"build_has", build_has, METH_O, "Was the library built with this feature?"},
    {"set_threads", set_threads, METH_O, "Threads inside an op."},
    {"get_threads", get_threads, METH_NOARGS, NULL},
    {"flag_set", flag_set, METH_VARARGS, "Sets a run-time flag; both arguments are str."},
    {"flag_get", flag_get, METH_O, "The value of a run-time flag, as str."},
    {"ps_status", ps_status, METH_O, "What the server at an endpoint tells of itself, as JSON."},
    {"checksum", checksum, METH_VARARGS,
     "CRC-32C of bytes: (0, bytes), or what those before them gave and bytes."},
    {"flag_names", flag_names, METH_NOARGS, "All run-time flags."},
    {"leave_job", leave_job, METH_VARARGS,
     "Tells the servers of the job that this trainer is done, or failed and why. At the end of a process a "
     "step of another "
     "thread is not waited for, but for a moment."},
    {"_set_left", set_left, METH_O,
     "Whether Executor.run asks _run_returning before it runs a trainer's Program. Returns what it was."},
    {"_trains_on", trains_on, METH_NOARGS,
     "What runs next is a step of a trainer that has left its job: servers that are not there have ended."},
    {"leave_job_at_exit", core_leave_job_at_exit, METH_NOARGS,
     "From now on the end of this process tells them too, by its status."},
    {"job_meet", job_meet, METH_VARARGS,
     "Meets all trainers of a job: name, servers, trainer, trainers, bytes. None for bytes: a barrier. "
     "Otherwise what all gave, as pd_job_gather of paddle.h says."},
    {"communicator_start", communicator_start, METH_VARARGS,
     "Starts the communicator: mode, queue, merge, wait_ms, averages, pulls_every."},
    {"communicator_stop", communicator_stop, METH_NOARGS, "Sends what is queued and ends it."},
    {"communicator_runs", communicator_runs, METH_NOARGS, "Does one run?"},
    {"communicator_flush", communicator_flush, METH_NOARGS,
     "Waits until what is queued is with the servers."},
    {"job_id", job_id, METH_NOARGS,
     "The number of this trainer in its job; -1 before the first exchange with a server."},
    {"seed_programs", seed_programs, METH_O,
     "seed_programs(seed): of Programs that have none, in place of one that is drawn"},
    {"job_steps", job_steps, METH_O,
     "The last step that counts this trainer in the job of this server; 0 before the first exchange with "
     "it."},
    {"job_key", job_key, METH_O,
     "What tells the job of this server from others, also when it is started again; 0 before the first "
     "exchange with it."},
    {"job_passed", job_passed, METH_O,
     "Steps of the job of this server that this trainer gave nothing to, as it was at a meeting, since this "
     "was asked last."},
    {"op_types", op_types, METH_NOARGS, "All ops there are."},
    {"op_known", op_known, METH_O, NULL},
    {"op_has_grad", op_has_grad, METH_O, "1: has a gradient; 0: gradients stop here; -1: neither."},
    {"op_def", op_def, METH_O, "Doc, inputs, outputs and attributes of an op."},
    {"profiler_start", profile_start, METH_NOARGS, NULL},
    {"profiler_stop", profile_stop, METH_NOARGS, NULL},
    {"profiler_reset", profile_reset, METH_NOARGS, NULL},
    {"profiler_report", profile_report, METH_VARARGS, NULL},
    {0},
};
