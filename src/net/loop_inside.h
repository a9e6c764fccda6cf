/* What src/net itself may do with a loop; others use loop.h. All of it on the loop's thread. */
#ifndef PD_NET_LOOP_INSIDE_H
#define PD_NET_LOOP_INSIDE_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "net/loop.h"

enum {
    PD_LOOP_SCRATCH = 32 << 10,           /* what one read of small messages may bring */
    PD_LOOP_RAW = PD_LOOP_SCRATCH + 1024, /* and their records */
};

/* Something that lives on a loop and is ended by pd_loop_free. */
struct pd_member {
    struct pd_member *prev, *next;
    void (*end)(struct pd_member *member); /* must call pd_loop_remove */
};

/* Work to do before the loop sleeps again. A task is queued once, however often it is asked for. */
struct pd_task {
    struct pd_task *next;
    int queued;
    void (*run)(struct pd_task *task);
};

/* Something that becomes ready without the kernel's knowing: a ring in shared memory. */
struct pd_poller {
    struct pd_poller *prev, *next;
    int (*poll)(struct pd_poller *poller); /* handles what is there; 1: there was something */
    int (*sleep)(struct pd_poller
                     *poller); /* asks the other side for a wake-up; 0: something is there, do not sleep */
    void (*wake)(struct pd_poller *poller); /* takes that back */
};

struct pd_spare {
    uint8_t *at;
    size_t cap;
};

/* Makes `watch` look at a socket or an eventfd, with `data`; uv_poll_start says for what. */
pd_status pd_loop_watch(struct pd_loop *loop, uv_poll_t *watch, int fd, void *data);
/* PD_LOOP_SCRATCH bytes, 64-byte aligned, for one read and the handling of what it brought. */
uint8_t *pd_loop_scratch(struct pd_loop *loop);
/* PD_LOOP_RAW bytes for a pipe that reads what it does not hand up as it is. Good until it returns. */
uint8_t *pd_loop_raw(struct pd_loop *loop);
/* One buffer kept between messages, so that a stream of middle-sized ones does not allocate. Taking gives
 * what is there (perhaps nothing); giving back takes ownership, and frees what is too large to keep. */
struct pd_spare pd_loop_take_spare(struct pd_loop *loop);
void pd_loop_give_spare(struct pd_loop *loop, struct pd_spare spare);

void pd_loop_add(struct pd_loop *loop, struct pd_member *member);
void pd_loop_remove(struct pd_loop *loop, struct pd_member *member);
void pd_loop_add_poller(struct pd_loop *loop, struct pd_poller *poller);
void pd_loop_remove_poller(struct pd_loop *loop, struct pd_poller *poller);
void pd_loop_want(struct pd_loop *loop, struct pd_task *task);
void pd_loop_forget(struct pd_loop *loop, struct pd_task *task);

/* Around every callback from libuv: when the outermost one ends, the queued tasks run. */
void pd_loop_enter(struct pd_loop *loop);
void pd_loop_exit(struct pd_loop *loop);
/* Inside a callback? Then a task will run soon. */
int pd_loop_inside(const struct pd_loop *loop);
/* A callback of the user was made; bytes moved (spinning starts anew). */
void pd_loop_made(struct pd_loop *loop);
void pd_loop_moved(struct pd_loop *loop);
/* PD_GONE once the loop is being freed: nothing new may start on it. */
pd_status pd_loop_check(const struct pd_loop *loop);
/* Milliseconds, as the loop's timers count them. */
uint64_t pd_loop_now(struct pd_loop *loop);

#endif
