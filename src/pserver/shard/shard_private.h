/* The inside of a shard, for shard*.c only. */
#ifndef PD_PSERVER_SHARD_PRIVATE_H
#define PD_PSERVER_SHARD_PRIVATE_H

#include "pserver/shard/shard.h"

/* What was given to a part so far, added up (shard_sum.c). */
struct part_sum {
    uint64_t step;
    void *data;    /* a block; NULL: nothing was added yet */
    int next;      /* the trainer whose turn it is */
    uint64_t *who; /* a bit for each trainer whose part is in it */
};

struct unit {
    struct pd_unit_spec spec; /* grad is owned */
    int number;
    int is_direct; /* its table is updated by its kind, not by the engine */
    int64_t numel, width, height, part_rows, part_elements;
    size_t item;
    uint32_t parts;         /* dense; 0 for rows */
    struct pd_given *given; /* by trainer */
    uint64_t *applied;      /* sync, by part: the last step applied */
    struct part_sum *sums;  /* by part; NULL: what is given is kept apart until the step is applied */
    size_t block;           /* bytes of a block, and those that are free */
    struct block *blocks;
    void **shown; /* what trainers were given of it last, by trainer; NULL: nobody asked (shard_delay.c) */
    const struct pd_tensor *value; /* and where it is */
    uint64_t done_step;            /* done_parts of `parts` are applied in this step */
    uint32_t done_parts;
};

/* A part that was placed on the stage. */
struct staged {
    int unit;
    uint32_t part;
    size_t at;
};

struct trainer {
    enum pd_trainer_state state;
    uint64_t incarnation;
    uint64_t step;    /* last one applied for it; sync: that it took part in */
    uint64_t from;    /* sync: the first step that counts it */
    uint64_t passed;  /* the step that it gives nothing to */
    uint64_t ended;   /* the step whose push it has ended */
    uint64_t request; /* to answer when that is applied */
    int waits;        /* for the answer */
    char *stage;      /* shard_stage.c */
    size_t stage_size, stage_used;
    PD_VEC(struct staged) staged;
    int n_unstaged;   /* of them, that have arrived */
    const void *lent; /* the one that is staged is here instead */
};

struct pd_shard {
    struct pd_shard_config config;
    PD_VEC(struct unit *) units;
    struct trainer *trainers;
    int n_absent; /* of them */
    int missing;  /* one that had not ended the step when that was last asked */
    uint64_t step, begun, applying, allowed;
    uint64_t reopened;   /* sync: a snapshot had parts of this step */
    uint64_t changes;    /* async: parts and pushes that were applied */
    int taking_part;     /* trainers over which the present step is averaged */
    int only;            /* async, while blocks run: the trainer whose gradients they use; -1: all */
    const void *at_hand; /* the only one that was given of the part being applied, when it is on the stage */
    void *merged, *waste;
    size_t merged_size, waste_size;
    PD_VEC(int64_t) rows;
    void *rows_data;
    size_t rows_data_size;
    uint64_t repeated;    /* parts that came twice */
    int has_failed;       /* an update of a part that had arrived */
    int holds_answers;    /* and in sync mode all updates, which wait for pd_shard_release */
    struct block *blocks; /* free ones of PD_PS_PART bytes */
    size_t held;          /* bytes of all blocks */
    uint64_t adding;      /* the last step that something was added up for */
    PD_VEC(int32_t) who;  /* took part in the step that is committed */
    /* Steps that are kept before they are applied (shard_prepare.c). */
    uint64_t prepared;                  /* the log has this one as it will be applied */
    uint64_t in_log;                    /* the log has changes of this one without END, good or void */
    PD_VEC(struct pd_kept_change) kept; /* of the next step, as a restart found it */
    const int32_t *again;               /* while a step of the log is done again: who took part in it */
    int n_again;
};

/* Has it arrived? Of a dense gradient of which something was given. */
static inline int has_part(const struct pd_given *g, uint32_t part)
{
    return (int)(g->got[part / 64] >> (part % 64) & 1);
}

/* ... in this step, from that trainer. */
static inline int has_given(const struct unit *u, int trainer, uint64_t step, uint32_t part)
{
    const struct pd_given *g = &u->given[trainer];
    return g->step == step && g->got && has_part(g, part);
}

/* Counts a part that arrived. 1: all parts have. */
static inline int pd_shard_count_given(const struct unit *u, struct pd_given *g, uint32_t part)
{
    g->got[part / 64] |= (uint64_t)1 << (part % 64);
    return ++g->n_parts == u->parts;
}

/* Sync: counts a part that is applied. 1: it is the step's last one. Parts may come in any order, and some of
 * a step may be in the snapshot that a log goes on from: only a count tells which one that is. */
static inline int pd_shard_count_applied(struct unit *u, uint32_t part, uint64_t step)
{
    u->applied[part] = step;
    u->done_parts = u->done_step == step ? u->done_parts + 1 : 1;
    u->done_step = step;
    return u->done_parts == u->parts;
}

/* Does a step change it in which nobody has rows? */
static inline int pd_shard_ends_bare(const struct unit *u)
{
    const struct pd_table *t = u->spec.table;
    return t->kind->ends_bare && t->kind->ends_bare(t);
}

static inline pd_status pd_shard_update_rows(const struct unit *u, int is_given, int64_t n,
                                             const int64_t *rows, const void *grad)
{
    return u->spec.table->kind->update_rows(u->spec.table, is_given, n, rows, grad);
}

/* Async: is a dense part of this trainer's push applied when it arrives? Where gradients are checked nothing
 * is before the push has ended, unless a part of it was when the server was started. */
static inline int pd_shard_is_early(const struct pd_shard *shard, const struct unit *u, int trainer)
{
    return u->is_direct && !u->spec.is_rows && (!shard->config.is_checked || u->given[trainer].is_early);
}

/* shard.c */
/* Makes it that of (trainer's incarnation, step): what is older goes. */
pd_status pd_shard_given_for(struct pd_shard *shard, struct unit *unit, int trainer, uint64_t step,
                             struct pd_given **out);
pd_status pd_shard_begin(struct pd_shard *shard, uint64_t step); /* once a step, before its first update */
/* Merges all that is left of the step, and logs it, updates by it, or both. */
enum { PD_SHARD_LOGS = 1, PD_SHARD_UPDATES = 2 };
pd_status pd_shard_merge(struct pd_shard *shard, uint64_t step, int what);
/* Async, at the end of a push: what waited for that. */
pd_status pd_shard_apply_own_rows(struct pd_shard *shard, struct unit *unit, int trainer, uint64_t step);
pd_status pd_shard_apply_own_parts(struct pd_shard *shard, struct unit *unit, int trainer, uint64_t step);
int64_t pd_shard_part_size(const struct unit *unit, uint32_t part); /* elements */
/* shard_sum.c */
pd_status pd_sum_new(const struct pd_shard *shard, struct unit *unit); /* sets unit->sums, if it has some */
void pd_sum_free(struct unit *unit, int trainers);
void pd_sum_free_blocks(struct pd_shard *shard);
void *pd_sum_place(struct pd_shard *shard, struct unit *unit, struct pd_given *given,
                   uint32_t part); /* NULL: no memory */
void pd_sum_drop(struct pd_shard *shard, struct unit *unit,
                 struct pd_given *given); /* what was not added yet */
int pd_sum_has(const struct unit *unit, int trainer, uint64_t step, uint32_t part); /* is it added? */
/* Adds what has its turn; *is_whole: all have given it. */
pd_status pd_sum_arrived(struct pd_shard *shard, struct unit *unit, uint32_t part, uint64_t step,
                         int *is_whole);
void pd_sum_ask_again(
    struct pd_shard *shard); /* a trainer has joined: it may be one that this step waits for */
/* Adds the rest and averages. *grad is NULL when nobody gave it, else good until pd_sum_clear. */
pd_status pd_sum_finish(struct pd_shard *shard, struct unit *unit, uint32_t part, uint64_t step,
                        const void **grad);
void pd_sum_clear(struct pd_shard *shard, struct unit *unit, uint32_t part);
/* n elements of the unit's type: to += from, and x / divisor. */
void pd_sum_add(const struct unit *unit, void *to, const void *from, int64_t n);
void pd_sum_scale(const struct unit *unit, void *x, int64_t n, int divisor);
/* shard_delay.c */
void pd_shard_free_shown(struct unit *unit, int trainers);
/* *grad is replaced by what it counts as, good until the next call. */
pd_status pd_shard_compensate_part(struct pd_shard *shard, const struct unit *unit, int trainer,
                                   int64_t first, int64_t n, const void **grad);
void pd_shard_compensate_given(struct pd_shard *shard, const struct unit *unit, int trainer, uint64_t step);
/* shard_prepare.c */
pd_status pd_shard_prepare(struct pd_shard *shard, uint64_t step); /* if that is still to be done */
void pd_shard_void(struct pd_shard *shard);                /* who takes part has changed, or what was given */
pd_status pd_shard_apply_prepared(struct pd_shard *shard); /* what a restart found */
void pd_shard_drop_prepared(struct pd_shard *shard);
/* shard_log.c */
int pd_shard_is_logged(const struct pd_shard *shard);
pd_status pd_shard_log_part(struct pd_shard *shard, int trainer, int unit, uint32_t part, uint64_t step,
                            const void *data, size_t bytes);
pd_status pd_shard_log_rows(struct pd_shard *shard, enum pd_change_kind kind, int trainer, int unit,
                            uint64_t step, int is_given, int64_t n, const int64_t *rows, const void *data,
                            size_t bytes);
pd_status pd_shard_log_given(struct pd_shard *shard, uint64_t step);
pd_status pd_shard_log_prepare(struct pd_shard *shard, uint64_t step);
/* END or READY, with those who take part in the step; then commits. */
pd_status pd_shard_commit(struct pd_shard *shard, enum pd_change_kind kind, int trainer, uint64_t step);
/* The same with a list. */
pd_status pd_shard_commit_of(struct pd_shard *shard, enum pd_change_kind kind, int trainer, uint64_t step,
                             const int32_t *who, size_t bytes);
pd_status pd_shard_redo_end(struct pd_shard *shard, const struct pd_change *change, const void *payload,
                            size_t n);
/* shard_stage.c */
/* Where a part shall arrive that is applied at once; NULL: it is not, or there is no room. */
void *pd_shard_stage(struct pd_shard *shard, int trainer, const struct unit *unit, uint32_t part,
                     uint64_t step, size_t bytes);
/* It has arrived: where it lies until the next one is placed; NULL: it was not placed there. */
const void *pd_shard_unstage(struct pd_shard *shard, int trainer, const struct unit *unit, uint32_t part);
void pd_shard_clear_stage(struct trainer *trainer); /* what was placed will not arrive */
void pd_shard_free_stage(struct trainer *trainer);
/* shard_step.c */
void pd_shard_drop_given(struct pd_shard *shard, int trainer); /* what it gave and is not applied */
int pd_shard_count_in(const struct pd_shard *shard);
int pd_shard_counts(const struct pd_shard *shard, int trainer); /* does the next step count it? */
int pd_shard_gives(const struct pd_shard *shard, int trainer, uint64_t step); /* and it does not pass it */
int pd_shard_all_gave(const struct pd_shard *shard, const struct unit *unit, uint32_t part, uint64_t step);

#endif
