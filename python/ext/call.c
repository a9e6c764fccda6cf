/* The remembered calls of a lane: how a call is known again, how a new one is prepared, and its results.
 */
#include "executor.h"

void core_call_clear(struct core_call *call)
{
    for (int i = 0; i < call->n_feeds; i++)
        Py_XDECREF(call->feeds[i]);
    for (int i = 0; i < call->n_fetches; i++) {
        Py_XDECREF(call->fetches[i].name);
        Py_XDECREF(call->fetches[i].args);
    }
    PyMem_Free(call->feeds);
    PyMem_Free(call->fetches);
    memset(call, 0, sizeof(*call));
}

static int same_text(PyObject *a, PyObject *b)
{
    return a == b || (PyUnicode_Check(a) && PyUnicode_Compare(a, b) == 0);
}

static int same_fetch(const struct core_call_fetch *fetch, PyObject *item, struct core_state *state)
{
    if (PyUnicode_Check(item)) return fetch->uid == 0 && same_text(item, fetch->name);
    if (!PyObject_TypeCheck(item, state->var_type)) return 0;
    const struct core_part *var = (const struct core_part *)item;
    return fetch->id == var->id && fetch->uid == pd_program_uid(var->program->at) &&
           fetch->changes == pd_program_changes(var->program->at);
}

static int matches(const struct core_call *call, struct core_state *state, const struct core_request *request,
                   const pd_program *program)
{
    if (call->uid != pd_program_uid(program) || call->changes != pd_program_changes(program) ||
        call->fed != request->fed || call->n_fetches != request->n_fetches ||
        call->n_feeds != (request->feed ? PyDict_Size(request->feed) : 0))
        return 0;
    Py_ssize_t at = 0;
    PyObject *key, *value;
    for (int i = 0; i < call->n_feeds && PyDict_Next(request->feed, &at, &key, &value); i++) {
        if (!same_text(key, call->feeds[i])) return 0;
    }
    for (int i = 0; i < call->n_fetches; i++) {
        if (!same_fetch(&call->fetches[i], core_request_fetch(request, i), state)) return 0;
    }
    return 1;
}

static int note_feeds(struct core_call *call, const struct core_request *request)
{
    Py_ssize_t at = 0, n = request->feed ? PyDict_Size(request->feed) : 0;
    PyObject *key, *value;
    if (!(call->feeds = PyMem_Calloc((size_t)(n + 1), sizeof(*call->feeds)))) {
        PyErr_NoMemory();
        return -1;
    }
    while (call->n_feeds < n && PyDict_Next(request->feed, &at, &key, &value)) {
        if (!PyUnicode_Check(key)) {
            PyErr_Format(PyExc_TypeError, "The keys of feed are names of variables (str), found %R.", key);
            return -1;
        }
        call->feeds[call->n_feeds++] = Py_NewRef(key);
    }
    return 0;
}

static int note_fetches(struct core_call *call, const struct core_request *request)
{
    if (!(call->fetches = PyMem_Calloc((size_t)request->n_fetches + 1, sizeof(*call->fetches)))) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < request->n_fetches; i++) {
        PyObject *item = core_request_fetch(request, i);
        struct core_call_fetch *fetch = &call->fetches[i];
        if (PyUnicode_Check(item)) {
            fetch->name = Py_NewRef(item);
        } else {
            const struct core_part *var = (const struct core_part *)item;
            fetch->uid = pd_program_uid(var->program->at);
            fetch->changes = pd_program_changes(var->program->at);
            fetch->id = var->id;
            fetch->name = PyObject_GetAttrString(item, "name");
        }
        if (!fetch->name) return -1;
        call->n_fetches++;
    }
    return 0;
}

/* Does the main block read from readers? */
static int note_reads(struct core_lane *lane, struct core_call *call, const pd_program *program)
{
    int64_t *ids;
    int n;
    if (call->fed) return 0;
    if (core_failed(lane->state, pd_block_ops(program, 0, &ids, &n))) return -1;
    for (int i = 0; i < n && !call->reads; i++) {
        const char *type;
        call->reads = pd_op_get_type(program, ids[i], &type) == PD_OK && strcmp(type, "read") == 0;
    }
    pd_ids_free(ids);
    return 0;
}

/* Asks the engine for the plan; it keeps plans itself, so this is cheap for one that was made before. */
static int prepare(struct core_lane *lane, struct core_call *call, pd_program *program)
{
    struct core_scratch scratch = {0};
    int failed = -1;
    if (call->reads) return 0;
    const char **feeds = core_scratch_get(&scratch, sizeof(*feeds) * (size_t)(call->n_feeds + 1));
    const char **fetches = core_scratch_get(&scratch, sizeof(*fetches) * (size_t)(call->n_fetches + 1));
    if (!feeds || !fetches) goto done;
    for (int i = 0; i < call->n_feeds; i++) {
        if (!(feeds[i] = PyUnicode_AsUTF8AndSize(call->feeds[i], NULL))) goto done;
    }
    for (int i = 0; i < call->n_fetches; i++) {
        if (!(fetches[i] = PyUnicode_AsUTF8AndSize(call->fetches[i].name, NULL))) goto done;
    }
    lane->ready = NULL; /* the engine may drop another plan for this one */
    failed = core_failed(lane->state, pd_executor_prepare(lane->at, program, call->n_feeds, feeds,
                                                          call->n_fetches, fetches, &call->prepared));
    if (!failed) lane->ready = call;
done:
    core_scratch_free(&scratch);
    return failed;
}

struct core_call *core_call_find(struct core_lane *lane, const struct core_request *request)
{
    pd_program *program = ((struct core_program *)request->program)->at;
    struct core_call *oldest = &lane->calls[0];
    if (lane->ready && matches(lane->ready, lane->state, request, program) &&
        pd_prepared_is_current(lane->ready->prepared))
        return lane->ready;
    for (int i = 0; i < CORE_CALLS; i++) {
        struct core_call *call = &lane->calls[i];
        if (call->uid && matches(call, lane->state, request, program)) {
            call->used = ++lane->clock;
            return prepare(lane, call, program) ? NULL : call;
        }
        if (call->used < oldest->used) oldest = call;
    }
    if (lane->ready == oldest) lane->ready = NULL;
    core_call_clear(oldest);
    oldest->fed = request->fed;
    if (note_feeds(oldest, request) || note_fetches(oldest, request) || note_reads(lane, oldest, program) ||
        prepare(lane, oldest, program)) {
        core_call_clear(oldest);
        lane->ready = NULL;
        return NULL;
    }
    oldest->uid = pd_program_uid(program);
    oldest->changes = pd_program_changes(program);
    oldest->used = ++lane->clock;
    return oldest;
}

/* ---- results ---- */

static int same_shape(const struct core_call_fetch *fetch, const pd_tensor_desc *tensor)
{
    if (!fetch->args || fetch->dtype != tensor->dtype || fetch->rank != tensor->rank) return 0;
    for (int i = 0; i < tensor->rank; i++) {
        if (fetch->dims[i] != tensor->dims[i]) return 0;
    }
    return 1;
}

static int note_shape(struct core_state *state, struct core_call_fetch *fetch, const pd_tensor_desc *tensor)
{
    PyObject *shape = PyTuple_New(tensor->rank);
    for (int i = 0; shape && i < tensor->rank; i++) {
        fetch->dims[i] = tensor->dims[i];
        PyTuple_SetItem(shape, i, PyLong_FromLongLong(tensor->dims[i]));
    }
    PyObject *args = shape ? PyTuple_Pack(2, shape, state->np_dtype[tensor->dtype]) : NULL;
    Py_XDECREF(shape);
    if (!args) return -1;
    core_replace(&fetch->args, args);
    fetch->dtype = tensor->dtype;
    fetch->rank = tensor->rank;
    return 0;
}

static PyObject *quick_array(struct core_state *state, struct core_call_fetch *fetch,
                             const pd_tensor_desc *tensor)
{
    if (tensor->rank > 8 || tensor->dtype < 0 || tensor->dtype >= CORE_DTYPE_COUNT ||
        !state->np_dtype[tensor->dtype])
        return core_array_copy(state, tensor);
    if (!same_shape(fetch, tensor) && note_shape(state, fetch, tensor)) return NULL;
    PyObject *array = PyObject_Call(state->np_empty, fetch->args, NULL);
    Py_buffer view;
    if (!array || PyObject_GetBuffer(array, &view, PyBUF_WRITABLE)) {
        Py_XDECREF(array);
        return NULL;
    }
    if (view.len) memcpy(view.buf, tensor->data, (size_t)view.len);
    PyBuffer_Release(&view);
    return array;
}

static PyObject *copy_value(PyTypeObject *type, struct core_state *state, const pd_value *value)
{
    PyObject *copy = core_value_new(type, pd_value_kind(value));
    if (copy && core_failed(state, pd_value_assign(((struct core_value *)copy)->at, value))) Py_CLEAR(copy);
    return copy;
}

static PyObject *tensor_result(struct core_state *state, struct core_call_fetch *fetch, const pd_value *value,
                               int as_numpy)
{
    pd_tensor_desc tensor;
    if (!as_numpy) return copy_value(state->tensor_type, state, value);
    if (core_failed(state, pd_value_tensor(value, &tensor))) return NULL;
    if (pd_value_lod_levels(value) > 0) {
        PyErr_Format(PyExc_RuntimeError,
                     "The fetched %R holds sequences (LoD), which an array cannot show. Run with "
                     "return_numpy=False to "
                     "get a LoDTensor; np.array(tensor) then gives its rows.",
                     fetch->name);
        return NULL;
    }
    return tensor.data ? quick_array(state, fetch, &tensor) : Py_NewRef(Py_None);
}

PyObject *core_call_result(struct core_state *state, struct core_call *call, int i, int as_numpy)
{
    const pd_value *value = pd_prepared_fetch(call->prepared, i);
    struct core_call_fetch *fetch = &call->fetches[i];
    if (!value)
        return core_raise(state, PD_NOT_FOUND, "%R was to be fetched, but the run gave no value for it.",
                          fetch->name);
    switch (pd_value_kind(value)) {
    case PD_SELECTED_ROWS:
        return copy_value(state->rows_type, state, value);
    case PD_LOD_TENSOR_ARRAY:
        break;
    default:
        return tensor_result(state, fetch, value, as_numpy);
    }
    int n = pd_value_items(value);
    PyObject *list = PyList_New(n);
    for (int k = 0; list && k < n; k++) {
        PyObject *item = tensor_result(state, fetch, pd_value_item(value, k), as_numpy);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, k, item);
    }
    return list;
}
