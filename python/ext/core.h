/* What the files of the extension paddle._core share: the module's state, the objects' layouts, small
 * helpers.
 *
 * Each object keeps a pointer to the module's state, because the limited API offers no way to find the module
 * from a Python subclass. The module outlives its objects: every heap type refers to it. */
#ifndef PADDLE_EXT_CORE_H
#define PADDLE_EXT_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <paddle/paddle.h>
#include <string.h>

enum { CORE_STATUS_COUNT = PD_JOB_OVER + 1, CORE_DTYPE_COUNT = 22, CORE_MAX_RANK = 32 };

struct core_state {
    PyTypeObject *program_type, *var_type, *op_type, *scope_type, *holder_type;
    PyTypeObject *tensor_type, *rows_type, *array_type, *executor_type, *dataset_type;
    PyObject *errors[CORE_STATUS_COUNT]; /* by pd_status */
    PyObject *enforce;                   /* the base class of engine errors */
    /* numpy, looked up when first needed */
    PyObject *np_empty, *np_asarray, *np_contiguous, *np_ndarray, *np_bool;
    PyObject *np_dtype[CORE_DTYPE_COUNT]; /* by the number of the element type */
    /* what the Python side hands over: see module.c */
    PyObject *var_types;    /* list: number -> VarType */
    PyObject *default_main; /* the Program that run() takes when it gets none */
    PyObject *global_scope;
    PyObject *convert_feed; /* (program, name, value) -> array or tensor */
    int has_left; /* the process had a job and said goodbye: a trainer's Program that runs again comes back to
                     it */
};

struct core_program {
    PyObject_HEAD struct core_state *state;
    pd_program *at;
};

/* A variable or an op of a Program: a handle of the Program and an id. */
struct core_part {
    PyObject_HEAD struct core_state *state;
    struct core_program *program;
    int64_t id;
};

struct core_scope {
    PyObject_HEAD struct core_state *state;
    pd_scope *at;
};

/* LoDTensor, SelectedRows, LoDTensorArray and what a scope holds: each one is a reference to a value. */
struct core_value {
    PyObject_HEAD struct core_state *state;
    pd_value *at;
    PyObject *name; /* what its scope calls it; NULL: it was not asked of a scope */
};

/* module.c */
/* The state of the module that made `type` or one of its bases; NULL with an exception set. */
struct core_state *core_state_of(PyTypeObject *type);

/* errors.c */
int core_errors_init(struct core_state *state, PyObject *module);
/* Turns a failed status into an exception; returns NULL. PD_OK gives None. */
PyObject *core_result(struct core_state *state, pd_status status);
/* Sets the exception; 0 when the status is PD_OK, else -1. */
int core_failed(struct core_state *state, pd_status status);
/* An exception of the class that belongs to `status`, with a message of our own. Returns NULL. */
PyObject *core_raise(struct core_state *state, pd_status status, const char *format, ...);

/* scratch.c: memory and Python objects that live as long as one call. */
struct core_scratch {
    struct core_scratch_block *blocks;
    PyObject *keep; /* list */
};
void *core_scratch_get(struct core_scratch *scratch, size_t bytes); /* NULL with an exception set */
int core_scratch_keep(struct core_scratch *scratch,
                      PyObject *object); /* takes the reference, also on error */
void core_scratch_free(struct core_scratch *scratch);
/* UTF-8 of a str, of bytes, or of a variable's name; NULL with an exception set. Lives as long as the
 * scratch. */
const char *core_text(struct core_state *state, struct core_scratch *scratch, PyObject *object);
/* The same for a sequence of them, or for a single one. None: no names. */
int core_names(struct core_state *state, struct core_scratch *scratch, PyObject *object, const char ***names,
               int *n);
/* Integers of a sequence. */
int core_int64s(struct core_scratch *scratch, PyObject *object, int64_t **values, int64_t *n);
PyObject *core_bytes_to_text(pd_bytes *bytes); /* frees them */

/* attr.c */
int core_attr_read(struct core_state *state, struct core_scratch *scratch, PyObject *value,
                   struct pd_attr *out);
PyObject *core_attr_write(const struct pd_attr *attr);
PyObject *core_dtype_object(struct core_state *state, int number); /* the VarType; new reference */

/* numpy.c */
int core_numpy_init(struct core_state *state);
/* Element type of a buffer's format; -1: none of ours. */
int core_format_dtype(const char *format);
/* A new array with a copy of the tensor. */
PyObject *core_array_copy(struct core_state *state, const pd_tensor_desc *tensor);
/* Fills `view` with a C-contiguous buffer of the array, or of a copy that the view keeps alive, and *dtype.
 * `what` names the array in errors. 0 or -1. Release with PyBuffer_Release. */
int core_array_view(struct core_state *state, PyObject *array, const char *what, Py_buffer *view, int *dtype);

/* value.c and its siblings */
PyObject *core_value_wrap(PyTypeObject *type, struct core_state *state,
                          pd_value *value); /* takes the reference */
PyObject *core_value_new(PyTypeObject *type, int kind);
/* Gives a new one its name; NULL is fine for both. */
PyObject *core_value_named(PyObject *self, PyObject *name);
void core_value_dealloc(PyObject *self);
int core_value_traverse(PyObject *self, visitproc visit, void *arg);
/* Sequences of sequences of offsets (lengths 0) or lengths (1) into the value's LoD, and back. */
int core_lod_set(struct core_state *state, pd_value *value, PyObject *lod, int lengths);
PyObject *core_lod_get(const pd_value *value, int lengths);

/* sigstack.c: makes this thread safe for signals while kernels run. Cheap after the first call. */
void core_signal_stack(void);
/* executor.c: for calls that last. `arg` is a struct core_watch; the engine calls it now and then, without
 * the GIL. Not 0: a signal handler has raised. */
struct core_watch {
    PyThreadState *thread; /* of the calling thread, which has let go of the GIL */
};
int core_poll_signals(void *arg);
PyObject *core_leave_job(int failed, const char *why,
                         int at_exit); /* ends early with what a signal handler raises */
PyObject *core_leave_job_at_exit(PyObject *module, PyObject *unused);

/* The types, made by PyInit. */
extern PyType_Spec core_program_spec, core_var_spec, core_op_spec, core_scope_spec, core_holder_spec;
extern PyType_Spec core_tensor_spec, core_rows_spec, core_array_spec, core_executor_spec, core_dataset_spec;
extern PyMethodDef core_library_methods[];

/* Takes the reference to `object`, drops the one that was at `place`. */
static inline void core_replace(PyObject **place, PyObject *object)
{
    PyObject *old = *place;
    *place = object;
    Py_XDECREF(old);
}

/* Type slots and keyword lists are not const in CPython, but not written to either. */
#define CORE_TEXT(text) ((char *)(text))
#define CORE_FAST(function) ((PyCFunction)(void (*)(void))(function))
/* Stops with a TypeError unless the call has between `least` and `most` arguments. */
int core_arity(const char *name, Py_ssize_t n, Py_ssize_t least, Py_ssize_t most);

#endif
