/* The names that trainers may use at a server: found in one step, however many there are, and counted, so that
 * what a stranger says of names costs no more than the Program allows. Made before the server serves, not
 * changed after. */
#ifndef PD_PSERVER_KNOWN_NAMES_H
#define PD_PSERVER_KNOWN_NAMES_H

#include "base/map.h"
#include "program/program.h"

struct pd_known_names {
    struct pd_map grads;  /* name -> its place */
    struct pd_map params; /* likewise, by the name of the parameter */
    struct name_place {
        struct name_place *next;
        int lane, unit;
    } * places;
    int most;      /* names that an OPEN may have */
    uint32_t meta; /* bytes that it, or PROGRAM, may have from somebody who is nobody yet */
};

pd_status pd_known_names_add(struct pd_known_names *names, const char *grad, const char *param, int lane, int unit);
/* All are added: sets the limits. `text`: bytes of PROGRAM. */
void pd_known_names_close(struct pd_known_names *names, const struct pd_program *program, size_t text);
void pd_known_names_free(struct pd_known_names *names);

#endif
