/* A byte ring in memory that two processes share: one writes, one reads.
 *
 * Positions are counts of bytes since the beginning and never go back. Each end trusts only its own: what the
 * other end publishes is checked against it before a byte is touched, so the worst that a broken or hostile
 * peer can do is to send wrong bytes, as over any wire. */
#ifndef PD_NET_SHM_RING_H
#define PD_NET_SHM_RING_H

#include <paddle/status.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* The control block in shared memory. What the two ends write lies on cache lines of its own (two, as
 * processors fetch lines in pairs). */
struct pd_ring_control {
    struct {
        _Alignas(128) _Atomic uint64_t position;
        _Atomic uint64_t origin; /* the position that lies at the beginning of the bytes */
        _Atomic uint32_t asleep; /* wants a wake-up when there is room */
    } writer;
    struct {
        _Alignas(128) _Atomic uint64_t position;
        _Atomic uint32_t asleep; /* wants a wake-up when there are bytes */
    } reader;
};

/* One process's end of a ring. */
struct pd_ring {
    struct pd_ring_control *control;
    uint8_t *bytes;
    uint64_t size;     /* a power of two */
    uint64_t position; /* our own */
    uint64_t seen;     /* the other end's, when last looked at */
    uint64_t origin;   /* writer's end only, as are the next four */
    uint64_t reserved; /* bytes from the beginning that have memory */
    int is_short;      /* ... and there is no more: it waits until the ring is empty, to start anew */
    int memory;        /* the file that the bytes lie in, from `start` on */
    uint64_t start;
    int bell;    /* eventfd that wakes the other end */
    int streams; /* reader's end: the bytes go past the cache */
};

enum {
    PD_RING_LEAST = 64 << 10,
    PD_RING_MOST = 64 << 20,
    PD_RING_USUAL = 2 << 20,
    PD_RING_FIRST = 16 << 10, /* bytes that have memory from the beginning */
};

/* Memory for a stretch of a file in memory; 0: there is none. A process that touches a page for which there
 * is none is killed (SIGBUS). Systems that do not tell (old kernels, sandboxes) are taken to have it. */
int pd_ring_reserve(int memory, uint64_t from, uint64_t n);

/* Copies in as much as there is room for, and wakes a sleeping reader. */
pd_status pd_ring_write(struct pd_ring *ring, const struct iovec *parts, int n, size_t *done);
/* Copies out up to the parts' sizes, and wakes a writer that waits for room. */
pd_status pd_ring_read(struct pd_ring *ring, const struct iovec *parts, int n, size_t *done);
/* The next n bytes in place, when they are there, in one piece and aligned; else NULL. pd_ring_drop takes
 * bytes that were shown so. */
const void *pd_ring_show(struct pd_ring *ring, size_t n, size_t alignment);
void pd_ring_drop(struct pd_ring *ring, size_t n);
/* Is there something to read, or room to write? 1 also when the other end's position is bad: trying tells. */
int pd_ring_readable(struct pd_ring *ring);
int pd_ring_writable(struct pd_ring *ring);
/* Asks for a wake-up, then look again; and takes it back. */
void pd_ring_sleep_reader(struct pd_ring *ring, int asleep);
void pd_ring_sleep_writer(struct pd_ring *ring, int asleep);

#endif
