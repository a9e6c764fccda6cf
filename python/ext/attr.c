/* Attributes of ops between Python values and pd_attr. The engine converts them to the type an op declares,
 * so only the plain choice is made here: bool, int (long where 32 bits are too few), float, text, block, and
 * lists of these. */
#include "core.h"

enum kind { KIND_NONE, KIND_BOOL, KIND_INT, KIND_FLOAT, KIND_TEXT, KIND_BLOCK };

static enum kind kind_of(struct core_state *state, PyObject *value)
{
    if (PyBool_Check(value) || (state->np_bool && Py_IS_TYPE(value, (PyTypeObject *)state->np_bool)))
        return KIND_BOOL;
    if (PyUnicode_Check(value) || PyBytes_Check(value) || PyObject_TypeCheck(value, state->var_type))
        return KIND_TEXT;
    if (PyFloat_Check(value)) return KIND_FLOAT;
    if (PyIndex_Check(value)) return KIND_INT;
    if (PyObject_HasAttrString(value, "idx")) return KIND_BLOCK;
    if (PyObject_HasAttrString(value, "__float__") && !PySequence_Check(value)) return KIND_FLOAT;
    return KIND_NONE;
}

static int read_long(PyObject *value, long long *out)
{
    PyObject *number = PyNumber_Index(value);
    if (!number) return -1;
    *out = PyLong_AsLongLong(number);
    Py_DECREF(number);
    return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

static int read_float(PyObject *value, float *out)
{
    double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();
        PyObject *converted = PyNumber_Float(value);
        if (!converted) return -1;
        number = PyFloat_AsDouble(converted);
        Py_DECREF(converted);
    }
    *out = (float)number;
    return 0;
}

static int read_block(PyObject *value, int32_t *out)
{
    long long index;
    PyObject *number = PyObject_GetAttrString(value, "idx");
    if (!number) return -1;
    int failed = read_long(number, &index);
    Py_DECREF(number);
    *out = (int32_t)index;
    return failed;
}

static int read_single(struct core_state *state, struct core_scratch *scratch, PyObject *value,
                       enum kind kind, struct pd_attr *out)
{
    long long number;
    int truth;
    switch (kind) {
    case KIND_BOOL:
        if ((truth = PyObject_IsTrue(value)) < 0) return -1;
        out->type = PD_ATTR_BOOL;
        out->b = (uint8_t)truth;
        return 0;
    case KIND_INT:
        if (read_long(value, &number)) return -1;
        out->type = number >= INT32_MIN && number <= INT32_MAX ? PD_ATTR_INT : PD_ATTR_LONG;
        if (out->type == PD_ATTR_INT)
            out->i = (int32_t)number;
        else
            out->l = number;
        return 0;
    case KIND_FLOAT:
        out->type = PD_ATTR_FLOAT;
        return read_float(value, &out->f);
    case KIND_TEXT:
        out->type = PD_ATTR_STRING;
        return (out->s = core_text(state, scratch, value)) ? 0 : -1;
    case KIND_BLOCK:
        out->type = PD_ATTR_BLOCK;
        return read_block(value, &out->block);
    case KIND_NONE:
        break;
    }
    PyErr_Format(PyExc_TypeError,
                 "%R of type %R cannot be an attribute of an op. Use a bool, int, float, str, Block or a "
                 "list of these.",
                 value, Py_TYPE(value));
    return -1;
}

/* The kind that fits all items: whole numbers become floats beside floats, bools become numbers beside
 * numbers. */
static enum kind common_kind(struct core_state *state, PyObject *items)
{
    enum kind common = KIND_NONE;
    for (Py_ssize_t i = 0; i < PyList_Size(items); i++) {
        enum kind kind = kind_of(state, PyList_GetItem(items, i));
        if (kind == KIND_NONE) return KIND_NONE;
        if (common == KIND_NONE || kind == common)
            common = kind;
        else if (kind <= KIND_FLOAT && common <= KIND_FLOAT)
            common = kind > common ? kind : common;
        else
            return KIND_NONE;
    }
    return common;
}

static int read_ints(struct core_scratch *scratch, PyObject *items, int n, struct pd_attr *out)
{
    int64_t *longs = core_scratch_get(scratch, sizeof(*longs) * (size_t)(n + 1));
    int32_t *ints = core_scratch_get(scratch, sizeof(*ints) * (size_t)(n + 1));
    if (!longs || !ints) return -1;
    int wide = 0;
    for (int i = 0; i < n; i++) {
        long long number;
        if (PyBool_Check(PyList_GetItem(items, i)))
            number = PyList_GetItem(items, i) == Py_True;
        else if (read_long(PyList_GetItem(items, i), &number))
            return -1;
        longs[i] = number;
        ints[i] = (int32_t)number;
        wide |= number < INT32_MIN || number > INT32_MAX;
    }
    out->type = wide ? PD_ATTR_LONGS : PD_ATTR_INTS;
    if (wide)
        out->longs = longs;
    else
        out->ints = ints;
    return 0;
}

static int read_list(struct core_state *state, struct core_scratch *scratch, PyObject *items,
                     struct pd_attr *out)
{
    int n = out->n = (int)PyList_Size(items);
    if (n == 0) return read_ints(scratch, items, 0, out);
    size_t room = (size_t)n;
    float *floats;
    uint8_t *bools;
    const char **strings;
    int32_t *blocks;
    switch (common_kind(state, items)) {
    case KIND_BOOL:
        out->type = PD_ATTR_BOOLS;
        if (!(out->bools = bools = core_scratch_get(scratch, room))) return -1;
        for (int i = 0; i < n; i++)
            bools[i] = PyObject_IsTrue(PyList_GetItem(items, i)) == 1;
        return 0;
    case KIND_INT:
        return read_ints(scratch, items, n, out);
    case KIND_FLOAT:
        out->type = PD_ATTR_FLOATS;
        if (!(out->floats = floats = core_scratch_get(scratch, room * sizeof(*floats)))) return -1;
        for (int i = 0; i < n; i++) {
            if (read_float(PyList_GetItem(items, i), &floats[i])) return -1;
        }
        return 0;
    case KIND_TEXT:
        out->type = PD_ATTR_STRINGS;
        if (!(strings = core_scratch_get(scratch, room * sizeof(*strings)))) return -1;
        out->strings = strings;
        for (int i = 0; i < n; i++) {
            if (!(strings[i] = core_text(state, scratch, PyList_GetItem(items, i)))) return -1;
        }
        return 0;
    case KIND_BLOCK:
        out->type = PD_ATTR_BLOCKS;
        if (!(out->blocks = blocks = core_scratch_get(scratch, room * sizeof(*blocks)))) return -1;
        for (int i = 0; i < n; i++) {
            if (read_block(PyList_GetItem(items, i), &blocks[i])) return -1;
        }
        return 0;
    case KIND_NONE:
        break;
    }
    PyErr_Format(PyExc_TypeError,
                 "The list %R cannot be an attribute of an op: its items must be of one kind.", items);
    return -1;
}

int core_attr_read(struct core_state *state, struct core_scratch *scratch, PyObject *value,
                   struct pd_attr *out)
{
    memset(out, 0, sizeof(*out));
    /* An array has __index__, whatever its size: it goes on as a list or, without dimensions, as a number. */
    if (state->np_ndarray && PyObject_TypeCheck(value, (PyTypeObject *)state->np_ndarray)) {
        value = PyObject_CallMethod(value, "tolist", NULL);
        if (!value || core_scratch_keep(scratch, value)) return -1;
    }
    enum kind kind = kind_of(state, value);
    if (kind != KIND_NONE || !(PySequence_Check(value) || PyAnySet_Check(value)))
        return read_single(state, scratch, value, kind, out);
    PyObject *items = PySequence_List(value);
    if (!items || core_scratch_keep(scratch, items)) return -1;
    return read_list(state, scratch, items, out);
}

static PyObject *write_item(const struct pd_attr *attr, int i)
{
    switch (attr->type) {
    case PD_ATTR_INTS:
        return PyLong_FromLong(attr->ints[i]);
    case PD_ATTR_LONGS:
        return PyLong_FromLongLong(attr->longs[i]);
    case PD_ATTR_FLOATS:
        return PyFloat_FromDouble(attr->floats[i]);
    case PD_ATTR_BOOLS:
        return PyBool_FromLong(attr->bools[i]);
    case PD_ATTR_BLOCKS:
        return PyLong_FromLong(attr->blocks[i]);
    default:
        return PyUnicode_FromString(attr->strings[i]);
    }
}

PyObject *core_attr_write(const struct pd_attr *attr)
{
    switch (attr->type) {
    case PD_ATTR_INT:
        return PyLong_FromLong(attr->i);
    case PD_ATTR_LONG:
        return PyLong_FromLongLong(attr->l);
    case PD_ATTR_FLOAT:
        return PyFloat_FromDouble(attr->f);
    case PD_ATTR_STRING:
        return PyUnicode_FromString(attr->s ? attr->s : "");
    case PD_ATTR_BOOL:
        return PyBool_FromLong(attr->b);
    case PD_ATTR_BLOCK:
        return PyLong_FromLong(attr->block);
    default:
        break;
    }
    PyObject *list = PyList_New(attr->n);
    for (int i = 0; list && i < attr->n; i++) {
        PyObject *item = write_item(attr, i);
        if (!item || PyList_SetItem(list, i, item)) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

PyObject *core_dtype_object(struct core_state *state, int number)
{
    if (state->var_types && number >= 0 && number < PyList_Size(state->var_types))
        return Py_NewRef(PyList_GetItem(state->var_types, number));
    return PyLong_FromLong(number);
}
