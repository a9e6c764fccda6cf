/* Scopes: where variables live between runs. A child sees its parent's variables.
 *
 * Several threads may use a scope, each with an executor of its own: all calls here may come from any thread.
 * The values themselves have no lock: two threads that write one at a time are the user's affair. A value
 * that is not counted lasts until somebody erases it. */
#ifndef PD_EXEC_SCOPE_H
#define PD_EXEC_SCOPE_H

#include "base/map.h"
#include "tensor/value.h"

struct pd_scope {
    int refs;                       /* atomic */
    struct pd_scope *parent;        /* counted */
    struct pd_map vars;             /* name -> struct pd_value, counted */
    PD_VEC(const char *) order;     /* names in the order of creation; the map's keys */
    PD_VEC(struct pd_scope *) kids; /* not counted; a kid leaves when it dies */
    uint64_t uid;                   /* never used again */
    uint64_t changes;               /* raised when a variable is made or erased here; atomic */
};

pd_status pd_scope_new(struct pd_scope *parent, struct pd_scope **out);
struct pd_scope *pd_scope_ref(struct pd_scope *scope);
void pd_scope_unref(struct pd_scope *scope);
/* Finds here or makes an empty tensor here. */
pd_status pd_scope_get(struct pd_scope *scope, const char *name, struct pd_value **out);
/* Here, then in the parents; NULL: not there. */
struct pd_value *pd_scope_lookup(const struct pd_scope *scope, const char *name);
/* Both for who keeps the value: it is counted. With `make`, one that is not there is made, at the top. */
pd_status pd_scope_hold(struct pd_scope *scope, const char *name, int make, struct pd_value **out);
/* The names here, in the order of creation: an array to free, of texts that last until they are erased. */
pd_status pd_scope_list(const struct pd_scope *scope, const char ***names, int *n);
void pd_scope_forget_kids(struct pd_scope *scope); /* whoever holds a kid keeps it */
pd_status pd_scope_remove(struct pd_scope *scope, const char *name);
/* The scope at the top, where persistable variables are made. */
struct pd_scope *pd_scope_root(struct pd_scope *scope);
/* Sum of the changes of the scope and its parents: tells a plan whether its variables may have moved. */
uint64_t pd_scope_stamp(const struct pd_scope *scope);

#endif
