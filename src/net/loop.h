/* An event loop (libuv) that owns its connections, timers and whatever its user keeps on it: one thread
 * touches them, ever.
 *
 * A loop runs on a thread of its own (pd_loop_start: servers) or is turned by its user (pd_loop_turn:
 * trainers, inside an op). Other threads only post to it. Callbacks run on the loop's thread and may not
 * block. */
#ifndef PD_NET_LOOP_H
#define PD_NET_LOOP_H

#include <paddle/status.h>
#include <stdint.h>

struct pd_loop;
struct pd_timer;

pd_status pd_loop_new(struct pd_loop **out);
/* Starts the thread (signals blocked). `name` shows in debuggers, at most 15 characters. */
pd_status pd_loop_start(struct pd_loop *loop, const char *name);
/* Ends the thread if there is one: from here on the caller is the loop's thread, and may take down what it
 * keeps on the loop. No post is taken any more; those that were are run by pd_loop_free. */
void pd_loop_stop(struct pd_loop *loop);
/* The same for up to `ms`; 0: the thread has not come to its end yet, and will when it can. */
int pd_loop_stop_within(struct pd_loop *loop, int ms);
/* Stops the loop, runs what was posted, closes everything that is still open on the loop
 * (each connection's `closed` runs, on the calling thread), stops the timers. Not from the loop's own thread.
 * Others may still post to it, and are told that it takes no more. NULL is fine, and so is doing it twice. */
void pd_loop_close(struct pd_loop *loop);
/* The same, and frees it. A loop that a listener hands connections to is freed after the listener's. */
void pd_loop_free(struct pd_loop *loop);

/* Runs fn(arg) on the loop's thread; from any thread. PD_NO_MEMORY, or PD_GONE once the loop is being freed.
 */
pd_status pd_loop_post(struct pd_loop *loop, void (*fn)(void *arg), void *arg);
/* For a loop without a thread: handles what is ready; with nothing ready waits up to timeout_ms (0: not at
 * all). Returns the number of callbacks made, so that 0 means that nothing happened. */
int pd_loop_turn(struct pd_loop *loop, int timeout_ms);
/* Microseconds of polling before the loop sleeps; 0 at first. To wake a sleeping core costs ten times a small
 * message, so who waits for one polls for a moment first; but only where the processes of the job do not
 * outnumber the cores, or the one that polls would keep the other from answering. */
void pd_loop_set_spin(struct pd_loop *loop, int microseconds);
/* For a job with that many trainers and loops of servers: as FLAGS_ps_spin says, or chosen as if all of them
 * were on this host. */
void pd_loop_spin_for(struct pd_loop *loop, int processes);

/* Calls fn(arg) after `ms`, then every `repeat_ms` (0: once). pd_timer_stop frees it, also after it fired
 * (and inside fn), and leaves NULL there; NULL is fine. pd_loop_free stops those that are left: `out` may be
 * NULL. */
pd_status pd_timer_start(struct pd_loop *loop, uint64_t ms, uint64_t repeat_ms, void (*fn)(void *arg),
                         void *arg, struct pd_timer **out);
void pd_timer_stop(struct pd_timer **timer);

#endif
