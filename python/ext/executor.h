/* The parts of one executor call: the request as Python made it, the lane it runs in, the remembered call it
 * matches, the lent arrays. */
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

/* What one run at a time uses: the plans, and the calls that are remembered. */
struct core_lane {
    struct core_state *state;
    pd_executor *at;      /* NULL: none was made yet, or the executor is closed */
    int running;          /* a run has it */
    unsigned long thread; /* that had it last */
    unsigned forks;       /* how often this process was forked when it took it */
    uint64_t clock;
    struct core_call calls[CORE_CALLS];
    struct core_call *ready; /* the one whose plan is known to be there still */
    struct core_lane *next;
};

/* Runs that go on side by side have a lane each. All of it is looked at with the GIL held. */
enum { CORE_LANES_KEPT = 32, CORE_LANES_NESTED = 8 };
struct core_executor {
    PyObject_HEAD struct core_lane first; /* at == NULL: closed */
    struct core_lane *others;
    int n_others;
};

/* lane.c */
/* Before the first executor is made. */
void core_lanes_init(void);
/* A lane for a run of this thread, its own where that is free. NULL with an exception set: also for an
 * executor that is closed. */
struct core_lane *core_lane_take(struct core_executor *executor);
/* After the run. More than CORE_LANES_KEPT are not kept for later. */
void core_lane_give_back(struct core_executor *executor, struct core_lane *lane);
/* Frees all lanes' plans. */
void core_lanes_shut(struct core_executor *executor);
int core_lanes_running(const struct core_executor *executor);
/* NULL, with the exception that says so. */
void *core_raise_closed(void);

/* call.c */
/* The remembered call that matches, or a new one; its plan is ready. NULL with an exception set. */
struct core_call *core_call_find(struct core_lane *lane, const struct core_request *request);
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
