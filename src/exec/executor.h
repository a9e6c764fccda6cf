/* The executor: plans in a bounded cache, feeds in, fetches out. */
#ifndef PD_EXEC_EXECUTOR_H
#define PD_EXEC_EXECUTOR_H

#include "exec/frame.h"
#include "exec/pace.h"

struct pd_feed_slot {
    int number;  /* in the plan */
    int fed;     /* given for the next run */
    int written; /* the Program writes it: the caller's memory must not be touched */
    int stays;   /* persistable: the scope has it after the run */
    int shares;  /* it holds the memory of the value that was fed */
};

struct pd_prepared {
    uint64_t program_uid, program_version;
    char **feed_names, **fetch_names;
    int n_feeds, n_fetches;
    int fused; /* as pd_exec_fuses() said when it was made */
    struct pd_plan *plan;
    struct pd_frame *frame;
    struct pd_feed_slot *feeds;
    struct pd_step step;
    struct pd_pace pace;
    uint64_t last_used;
    int running;
};

struct pd_executor {
    PD_VEC(struct pd_prepared *) plans;
    uint64_t clock;
};

enum { PD_EXECUTOR_PLANS = 64 };

pd_status pd_exec_new(struct pd_executor **out);
/* The seed of Programs that have none, in place of one that is drawn. Plans that are made already keep
 * theirs. */
void pd_exec_set_drawn(uint64_t seed);
void pd_exec_free(struct pd_executor *executor);
/* Do the flags ask for plans with fused ops? Looking for NaN keeps to the Program's ops, to name the one. */
int pd_exec_fuses(void);
/* From the cache, or a new plan. */
pd_status pd_exec_prepare(struct pd_executor *executor, struct pd_program *program, int n_feeds,
                          const char *const *feeds, int n_fetches, const char *const *fetches,
                          struct pd_prepared **out);
/* Lends memory to the next run. `lod` is borrowed. */
pd_status pd_exec_feed(struct pd_prepared *prepared, int i, enum pd_dtype dtype, int rank, const int64_t *dim,
                       const void *data, struct pd_lod *lod);
pd_status pd_exec_feed_value(struct pd_prepared *prepared, int i, const struct pd_value *value);
void pd_exec_unfeed(struct pd_prepared *prepared);
pd_status pd_exec_run(struct pd_prepared *prepared, struct pd_scope *scope, int (*poll)(void *), void *arg);
const struct pd_value *pd_exec_fetched(const struct pd_prepared *prepared, int i);

#endif
