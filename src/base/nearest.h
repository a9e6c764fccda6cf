/* The known name that a misspelt one was meant to be, for messages. */
#ifndef PD_BASE_NEAREST_H
#define PD_BASE_NEAREST_H

/* Start with {.name = ..., .length = ...}, offer every known name, read `best`: NULL when none is near
 * enough. A name is near when one letter in four, and three at most, must be added, left out, changed or
 * swapped with a neighbour. */
struct pd_nearest {
    const char *name;
    int length;
    const char *best; /* borrowed from an offer */
    int changes;      /* of the best one; private until there is one */
};

void pd_nearest_offer(struct pd_nearest *nearest, const char *known);

#endif
