/* A shard: the parameters that one loop of a server owns, and the steps that change them. Single-threaded, no
 * network, no lock: the session (session.c) feeds it and carries its answers.
 *
 * Sync: a step is applied when every trainer that is in the job has ended its push of it; gradients are
 * averaged over those that pushed. A part that all have given is applied at once, while it is in the cache,
 * unless one of them may be lost and the step goes on without it.
 * Async: each part is applied when it arrives; where gradients are checked, when the push has ended, so that
 * one that is refused leaves nothing. Either way a part is applied once: it is known by (trainer,
 * incarnation, step, unit, part), and one that was seen before is put aside. */
#ifndef PD_PSERVER_SHARD_H
#define PD_PSERVER_SHARD_H

#include "base/buf.h"
#include "base/vec.h"
#include "pserver/shard/table.h"

struct pd_shard;

/* A gradient that trainers push, and the optimize block it feeds. */
struct pd_unit_spec {
    const char *grad;         /* name on the wire, and of the averaged gradient */
    const char *const *parts; /* by trainer: what its block merges; NULL: `grad`. Borrowed */
    int block;
    int is_rows;
    int adds;               /* trainers' gradients are added up, and not averaged */
    struct pd_table *table; /* what it changes; taken */
};

enum pd_trainer_state {
    PD_TRAINER_ABSENT, /* has not come yet */
    PD_TRAINER_IN,
    PD_TRAINER_DONE,
    PD_TRAINER_LOST,   /* gone without a word; others go on without it */
    PD_TRAINER_FAILED, /* between servers only: said that it failed, and is waited for ('wait') */
};

/* A change of the parameters, as the log keeps it. */
enum pd_change_kind {
    PD_CHANGE_PART = 1, /* a dense part, averaged: its elements */
    PD_CHANGE_ROWS = 2, /* rows, averaged: row numbers, then rows */
    PD_CHANGE_GIVEN =
        3, /* what one trainer gave to a unit that runs through the engine: as PART (whole) or ROWS */
    PD_CHANGE_END = 4,  /* the step is complete: the numbers (i32) of those who took part */
    PD_CHANGE_SUMS = 5, /* sums over servers (sums.h) that the step used: f64; `unit` is which */
    /* A step that is whole, and not allowed yet, is kept before anybody hears that it is: */
    PD_CHANGE_PREPARE = 6, /* what was kept of this step until now is void */
    PD_CHANGE_READY = 7,   /* what is between them is all of it: as END, but it is not applied yet */
};

struct pd_change {
    enum pd_change_kind kind;
    int trainer;
    uint64_t step;
    uint32_t unit, part;
    uint64_t rows;
};

/* A change that was read from the log. */
struct pd_kept_change {
    struct pd_change change;
    void *payload; /* owned: pd_free_aligned */
    size_t n;
};

/* What the shard asks of its server. All on the shard's thread. */
struct pd_shard_hooks {
    /* Once before the first update of a step: learning rate schedules. */
    pd_status (*begin_step)(void *arg, uint64_t step);
    /* The gradients of units without a rule, as those who take part pushed them
     * (pd_shard_given): run their blocks. */
    pd_status (*run_blocks)(void *arg, struct pd_shard *shard);
    /* Optional: something was applied that must outlive the process. `trainer` is -1 for what is averaged
     * over all. */
    pd_status (*log)(void *arg, const struct pd_change *change, const struct pd_span *spans, int n);
    /* Optional: is `log` good for anything? NULL: yes. */
    int (*keeps)(void *arg);
    /* Optional: the changes of this step (of this trainer in async) are complete; after it they may be
     * acknowledged. Also called when a step is prepared. */
    pd_status (*commit)(void *arg, int trainer, uint64_t step);
    /* With `is_gated`: the step is whole, kept in the log where there is one, and waits for pd_shard_allow.
     * May come again for the same step. */
    void (*whole)(void *arg, uint64_t step);
    /* Optional, sync: the step is applied. 1: hold the answers until pd_shard_release. */
    int (*applied)(void *arg, uint64_t step);
    /* The trainer's push of `step` is in the parameters now: send its answer. */
    void (*answer)(void *arg, int trainer, uint64_t request, uint64_t step);
    void *arg;
};

struct pd_shard_config {
    int trainers, is_sync;
    int is_gated;    /* sync: no step is applied before pd_shard_allow */
    int is_whole;    /* sync: no part is applied before its step is whole */
    int is_checked;  /* pushes with NaN or Inf are refused: PD_NOT_FINITE of pd_shard_arrived */
    int compensates; /* async: dense gradients are corrected by how far their parameters have moved since the
                        trainer was given them (shard_delay.c) */
    struct pd_shard_hooks hooks;
};

pd_status pd_shard_new(const struct pd_shard_config *config, struct pd_shard **out);
void pd_shard_free(struct pd_shard *shard);
/* Before the first trainer. Takes spec->table, also on error. */
pd_status pd_shard_add(struct pd_shard *shard, const struct pd_unit_spec *spec, int *unit);
int pd_shard_units(const struct pd_shard *shard);
const struct pd_unit_spec *pd_shard_unit(const struct pd_shard *shard, int unit);

/* A trainer comes, or comes back. Another incarnation than before: what it had pushed of an unapplied step is
 * dropped. One that was not in the job takes part from the next step on; when parts of that are applied
 * already, from the one after. */
pd_status pd_shard_join(struct pd_shard *shard, int trainer, uint64_t incarnation);
/* It leaves (DONE, LOST). May complete a step of the others. */
pd_status pd_shard_leave(struct pd_shard *shard, int trainer, enum pd_trainer_state how);
enum pd_trainer_state pd_shard_trainer(const struct pd_shard *shard, int trainer);

uint64_t pd_shard_step(const struct pd_shard *shard); /* last one applied */
/* Async: goes up with every change, whichever trainer's it is. */
uint64_t pd_shard_changes(const struct pd_shard *shard);
int pd_shard_is_within(const struct pd_shard *shard); /* sync: some of the next one is applied already */
void pd_shard_set_step(struct pd_shard *shard, uint64_t step); /* after a restart, or an accepted rollback */
uint64_t pd_shard_trainer_step(const struct pd_shard *shard,
                               int trainer); /* last one applied for it, or before it takes part */
void pd_shard_set_trainer_step(struct pd_shard *shard, int trainer, uint64_t step);
/* Async: are parts of the trainer's next step in the parameters? */
int pd_shard_has_parts(const struct pd_shard *shard, int trainer);
/* What is applied of pushes, or in sync mode of a step, that have not ended, as text for a snapshot (none:
 * nothing), and back, after pd_shard_set_trainer_step and pd_shard_set_step. Who gave it and sends it again
 * finds it done. NULL is fine for `text`; one that does not fit the shard is an error. */
void pd_shard_write_open(const struct pd_shard *shard, struct pd_buf *out);
pd_status pd_shard_read_open(struct pd_shard *shard, const char *text);
/* Raises the steps of trainers to those of their open pushes. */
void pd_shard_open_steps(const char *text, int trainers, uint64_t *steps);

/* A part is about to arrive: checks everything that was announced and says where its bytes go, in one span
 * (dense) or two (row numbers, rows). A part seen before goes to waste memory, and pd_shard_arrived will
 * know. */
pd_status pd_shard_place(struct pd_shard *shard, int trainer, uint64_t step, uint32_t unit, uint32_t part,
                         uint64_t rows, struct pd_span out[2], int *n);
/* It has arrived there. PD_RANGE, PD_NOT_FINITE: it is refused; async: with all that waits of its push. Any
 * error of an update that it lets begin, which is no fault of the part: then pd_shard_has_failed. */
pd_status pd_shard_arrived(struct pd_shard *shard, int trainer, uint64_t step, uint32_t unit, uint32_t part,
                           uint64_t rows);
int pd_shard_has_failed(const struct pd_shard *shard);
/* The only part that is placed for this trainer may also be used where it is, at this alignment, if it is
 * applied at once; 0: it may not. pd_shard_lend, before pd_shard_arrived, says where that is. */
size_t pd_shard_may_lend(const struct pd_shard *shard, int trainer);
void pd_shard_lend(struct pd_shard *shard, int trainer, const void *data);
/* The trainer is given the value of a table now. Remembered where gradients are corrected by that; `value`
 * stays where it is. */
pd_status pd_shard_shown(struct pd_shard *shard, int trainer, const struct pd_table *table,
                         const struct pd_tensor *value);
/* The trainer gives nothing to this step, which it ends now, and is not averaged over. Did it pass the one
 * before, too? */
int pd_shard_pass(struct pd_shard *shard, int trainer, uint64_t step);
/* The step after the trainer's last one, or one before that (it asks again): no later one. */
pd_status pd_shard_may_end(const struct pd_shard *shard, int trainer, uint64_t step);
/* The trainer's push of this step is whole; `request` is answered when it is applied. */
pd_status pd_shard_end(struct pd_shard *shard, int trainer, uint64_t step, uint64_t request);

/* What a trainer gave for a unit in the step that is being applied; NULL data: nothing. For run_blocks. */
struct pd_given {
    uint64_t step, incarnation;
    void *data; /* dense: all of it; rows: n_rows rows */
    PD_VEC(int64_t) rows;
    size_t data_size;
    uint32_t n_parts; /* that arrived */
    uint64_t *got;    /* dense: a bit for each part */
    void **blocks;    /* dense, of units that are added up as they come: what waits for its turn, by part */
    int is_early;     /* its parts were applied before this server was started, and were not checked then */
};
const struct pd_given *pd_shard_given(const struct pd_shard *shard, int unit, int trainer);
uint64_t pd_shard_applying(const struct pd_shard *shard); /* the step being applied */
/* Trainers that take part in the step being applied. */
int pd_shard_takes_part(const struct pd_shard *shard, int trainer);

/* Trainers whom the present step waits for; 0 when it waits for nobody (nothing pushed yet, or all there). */
int pd_shard_waits_for(const struct pd_shard *shard, int *trainers, int cap);
/* Sync: does somebody wait in a step, and does it wait for this trainer, too? */
int pd_shard_has_waiters(const struct pd_shard *shard);
int pd_shard_is_awaited(const struct pd_shard *shard, int trainer);
/* From now on pushes are applied, but not answered: the server ends. */
void pd_shard_hold(struct pd_shard *shard);
/* Sends the answers that `applied` held back; a step may be whole by then. */
pd_status pd_shard_release(struct pd_shard *shard);
/* After a restart, before the first trainer: does a change from the log once more. Changes of a step come
 * before its END. */
pd_status pd_shard_redo(struct pd_shard *shard, const struct pd_change *change, const void *payload,
                        size_t n);
/* After it: all that the log has of a step without END. Where that has READY and is the next one of a gated
 * shard, whether it was applied elsewhere is for the order to say: pd_shard_allow does it then, whoever is
 * gone by now. It is dropped when a trainer joins before that, for a lane hears what was committed before it
 * hears who joins. 1: takes the list and its payloads; 0: it is of no use. */
int pd_shard_set_prepared(struct pd_shard *shard, struct pd_kept_change *changes, int n);
size_t pd_shard_held(const struct pd_shard *shard); /* bytes of room for dense gradients, kept or added up */
uint64_t pd_shard_prepared(const struct pd_shard *shard);                 /* that step; 0: none */
uint64_t pd_shard_incarnation(const struct pd_shard *shard, int trainer); /* the last one seen; 0: none */
uint64_t pd_shard_repeated(const struct pd_shard *shard);                 /* parts that came twice */
uint64_t pd_shard_counted(const struct pd_shard *shard,
                          int trainer); /* sync: the last step it took part in */
/* Steps up to this one may be applied when they are whole. */
pd_status pd_shard_allow(struct pd_shard *shard, uint64_t step);
/* Have all trainers come and gone? */
int pd_shard_finished(const struct pd_shard *shard);

#endif
