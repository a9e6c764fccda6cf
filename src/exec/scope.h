/* Scopes: where variables live between runs. A child sees its parent's variables. */
#ifndef PD_EXEC_SCOPE_H
#define PD_EXEC_SCOPE_H

#include "base/map.h"
#include "tensor/value.h"

struct pd_scope {
    int refs; /* atomic */
    struct pd_scope *parent; /* counted */
    struct pd_map vars;      /* name -> struct pd_value, counted */
    PD_VEC(const char *) order; /* names in the order of creation; the map's keys */
    PD_VEC(struct pd_scope *) kids; /* not counted; a kid leaves when it dies */
    uint64_t uid;     /* never used again */
    uint64_t changes; /* raised when a variable is made or erased here */
};

pd_status pd_scope_new(struct pd_scope *parent, struct pd_scope **out);
struct pd_scope *pd_scope_ref(struct pd_scope *scope);
void pd_scope_unref(struct pd_scope *scope);
/* Finds here or makes an empty tensor here. */
pd_status pd_scope_get(struct pd_scope *scope, const char *name, struct pd_value **out);
/* Here, then in the parents; NULL: not there. */
struct pd_value *pd_scope_lookup(const struct pd_scope *scope, const char *name);
pd_status pd_scope_remove(struct pd_scope *scope, const char *name);
/* The scope at the top, where persistable variables are made. */
struct pd_scope *pd_scope_root(struct pd_scope *scope);
/* Sum of the changes of the scope and its parents: tells a plan whether its variables may have moved. */
uint64_t pd_scope_stamp(const struct pd_scope *scope);

#endif
