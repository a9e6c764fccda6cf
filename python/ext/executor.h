/* The parts of one executor call: the request as Python made it, the remembered call it matches, the lent
 * arrays. */
#ifndef PADDLE_EXT_EXECUTOR_H
#define PADDLE_EXT_EXECUTOR_H

#include "core.h"

enum { CORE_CALLS = 16 };

/* All borrowed from the caller of run(). */
struct core_request {
    PyObject *program, *scope, *feed, *fetches; /* feed and fetches may be NULL */
    Py_ssize_t n_fetches;
    int fetches_are_list, as_numpy;
    int fed; /* `feed` holds what the Program's readers give, too */
};

static inline PyObject *core_request_fetch(const struct core_request *request, Py_ssize_t i)
{
    return request->fetches_are_list ? PyList_GetItem(request->fetches, i)
                                     : PyTuple_GetItem(request->fetches, i);
}

/* A fetched item is a name, or a variable known by its Program's number and its id. */
struct core_call_fetch {
    PyObject *name; /* str */
    uint64_t uid;   /* 0: the item was a str */
    int64_t id;
    uint64_t changes;
    /* np.empty's arguments for the last result, used again while the shape stays. */
    PyObject *args;
    int dtype, rank;
    int64_t dims[8];
};

struct core_call {
    uint64_t uid, changes, used;
    int fed;   /* as in the request */
    int reads; /* batches of readers must be fed first; there is no plan then */
    int n_feeds, n_fetches;
    PyObject **feeds; /* names */
    struct core_call_fetch *fetches;
    pd_prepared *prepared;
};

struct core_executor {
    PyObject_HEAD struct core_state *state;
    pd_executor *at; /* NULL: closed */
    int running;
    uint64_t clock;
    struct core_call calls[CORE_CALLS];
    struct core_call *ready; /* the one whose plan is known to be there still */
};

/* call.c */
/* The remembered call that matches, or a new one; its plan is ready. NULL with an exception set. */
struct core_call *core_call_find(struct core_executor *executor, const struct core_request *request);
void core_call_clear(struct core_call *call);
/* The i-th result: an array, a LoDTensor, a list for a tensor array, or SelectedRows. */
PyObject *core_call_result(struct core_state *state, struct core_call *call, int i, int as_numpy);

/* feed.c */
enum { CORE_FEW_VIEWS = 16 };
struct core_lent {
    int n;
    PyObject *keep; /* list of tensors lent, NULL: none */
    Py_buffer *views;
    Py_buffer few[CORE_FEW_VIEWS]; /* not cleared */
};
int core_feed(struct core_state *state, struct core_call *call, const struct core_request *request,
              struct core_lent *lent);
void core_lent_release(struct core_lent *lent);

#endif
