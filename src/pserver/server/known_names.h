/* The names that trainers may use at a server: found in one step, however many there are, and counted, so
 * that what a stranger says of names costs no more than the Program allows. Made before the server serves,
 * not changed after. */
#ifndef PD_PSERVER_KNOWN_NAMES_H
#define PD_PSERVER_KNOWN_NAMES_H

#include "base/map.h"
#include "program/program.h"

struct pd_known_names {
    struct pd_map grads; /* name -> its place */
    struct pd_map
        values; /* likewise, of parameters and of all that their updates write: the optimizer's states */
    struct name_place {
        struct name_place *next;
        int lane, unit;
    } * places;
    int most;      /* names that an OPEN may have */
    uint32_t meta; /* bytes that it, or PROGRAM, may have from somebody who is nobody yet */
};

/* Unit `unit` of loop `lane` takes this gradient and updates this parameter by this block: all that the block
 * writes is that loop's. Without a Program there is the parameter alone. */
pd_status pd_known_names_add(struct pd_known_names *names, const struct pd_program *program, const char *grad,
                             const char *param, const struct pd_block *block, int lane, int unit);
/* What this block writes is changed by all loops, one after the other; the first one serves it. Before the
 * others are added. */
enum { PD_UNIT_SHARED = -1 };
pd_status pd_known_names_add_shared(struct pd_known_names *names, const struct pd_program *program,
                                    const struct pd_block *block);
/* All are added: sets the limits. `text`: bytes of PROGRAM. */
void pd_known_names_close(struct pd_known_names *names, const struct pd_program *program, size_t text);
void pd_known_names_free(struct pd_known_names *names);

#endif
