/* How many threads a step is worth: all of them, or one.
 *
 * Threads inside an op wait for each other. Where another process holds a core, the one that is not running
 * makes all the others wait, and a step can take a hundred times as long as with a single thread. So each
 * plan keeps the recent time of its steps for both and takes the faster one; the other is tried now and then,
 * less often the worse it was. One thread does the same parts that all would do (pd_threads_alone), so that
 * results do not depend on it. */
#ifndef PD_EXEC_PACE_H
#define PD_EXEC_PACE_H

#include <stdint.h>

enum pd_pace_mode { PD_PACE_ALL, PD_PACE_ONE };

struct pd_pace {
    double time[2]; /* recent nanoseconds of a step, by mode; 0: not known */
    int seen[2];
    enum pd_pace_mode mode;   /* the faster one */
    enum pd_pace_mode trying; /* of the step that runs now */
    int64_t next_try, interval;
    int64_t began;
};

/* Decides whether the calling thread does the coming step alone. */
void pd_pace_begin(struct pd_pace *pace);
/* Takes note of the step's time and gives the thread its helpers back. A step that bound sizes does not
 * count. */
void pd_pace_end(struct pd_pace *pace, int counts);
/* The decision alone, for tests: a step of `ns` nanoseconds ended at time `now`. */
void pd_pace_note(struct pd_pace *pace, double ns, int64_t now);
enum pd_pace_mode pd_pace_choose(struct pd_pace *pace, int64_t now);

#endif
