/* See shm_ring.h.
 *
 * Who publishes a position then reads the other end's `asleep`; who goes to sleep sets `asleep` and then
 * reads the position. All four are sequentially consistent, so no wake-up is lost. Bytes are ordered by the
 * same publishing store and the load of it.
 *
 * A ring takes memory as it is used, because many connections are idle. The writer, who touches pages first,
 * asks for it before. When there is no more, the ring goes on as a smaller one: it is filled as far as there
 * is memory, and once more when the reader has emptied it. */
#include "net/shm_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "net/shm_copy.h"

enum {
    STRIDE = 256 << 10,  /* a large message is published in pieces, so that both ends work at once */
    RESTART = 16 << 10,  /* a ring that ran empty past this goes back to its first pages */
    GROW_MOST = 1 << 20, /* in one call: it may be interrupted, and starts again then */
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void wake(_Atomic uint32_t *asleep, int bell)
{
    uint64_t one = 1;
    /* The exchange makes it one wake-up for each sleep. A full eventfd is awake enough. */
    if (atomic_load(asleep) && atomic_exchange(asleep, 0)) (void)!write(bell, &one, sizeof one);
}

static pd_status nonsense(void)
{
    return pd_fail(PD_FORMAT, "the other side's place in the shared memory makes no sense");
}

/* Bytes of room; UINT64_MAX when the reader's position makes no sense. */
static uint64_t room(struct pd_ring *ring)
{
    ring->seen = atomic_load_explicit(&ring->control->reader.position, memory_order_acquire);
    uint64_t used = ring->position - ring->seen;
    return used > ring->size ? UINT64_MAX : ring->size - used;
}

static void publish_written(struct pd_ring *ring)
{
    atomic_store(&ring->control->writer.position, ring->position);
    wake(&ring->control->reader.asleep, ring->bell);
}

int pd_ring_reserve(int memory, uint64_t from, uint64_t n)
{
    int rc;
    do
        rc = fallocate(memory, 0, (off_t)from, (off_t)n);
    while (rc < 0 && errno == EINTR);
    return rc == 0 || (errno != ENOSPC && errno != ENOMEM);
}

/* Grows what has memory to `need` bytes, where there is some. */
static void grow(struct pd_ring *ring, uint64_t need)
{
    while (ring->reserved < need) {
        uint64_t more = least(ring->reserved, GROW_MOST);
        if (!pd_ring_reserve(ring->memory, ring->start + ring->reserved, more)) return;
        ring->reserved += more;
    }
}

/* The copy of one stretch that does not wrap; 0: it needs memory that there is not. */
static uint64_t put(struct pd_ring *ring, const uint8_t *from, uint64_t n)
{
    uint64_t offset = (ring->position - ring->origin) & (ring->size - 1);
    n = least(n, ring->size - offset);
    if (offset + n > ring->reserved) {
        grow(ring, offset + n);
        n = least(n, ring->reserved - least(offset, ring->reserved));
        if (!n) {
            ring->is_short = 1;
            return 0;
        }
    }
    pd_shm_copy(ring->bytes + offset, from, n);
    ring->position += n;
    return n;
}

/* An empty ring goes back to its first pages, so that small messages stay in few of them. The reader looks at
 * no byte of an empty ring, and reads the new origin after the next position. */
static void restart(struct pd_ring *ring)
{
    if (!ring->is_short && ((ring->position - ring->origin) & (ring->size - 1)) <= RESTART) return;
    if (room(ring) != ring->size) return;
    ring->is_short = 0;
    ring->origin = ring->position;
    atomic_store_explicit(&ring->control->writer.origin, ring->origin, memory_order_relaxed);
}

pd_status pd_ring_write(struct pd_ring *ring, const struct iovec *parts, int n, size_t *done)
{
    *done = 0;
    restart(ring);
    uint64_t space = ring->size - (ring->position - ring->seen), unpublished = 0;
    if (space > ring->size) return nonsense();
    for (int i = 0; i < n; i++) {
        const uint8_t *from = parts[i].iov_base;
        uint64_t left = parts[i].iov_len;
        while (left) {
            if (space < least(left, STRIDE)) space = room(ring);
            if (space == UINT64_MAX) return nonsense();
            if (!space) goto full;
            uint64_t took = put(ring, from, least(least(left, space), STRIDE - unpublished));
            if (!took) goto full;
            from += took, left -= took, space -= took, *done += took, unpublished += took;
            if (unpublished == STRIDE) {
                publish_written(ring);
                unpublished = 0;
            }
        }
    }
full:
    if (unpublished) publish_written(ring);
    return PD_OK;
}

/* Bytes to read; UINT64_MAX when the writer's position makes no sense. */
static uint64_t waiting(struct pd_ring *ring)
{
    ring->seen = atomic_load_explicit(&ring->control->writer.position, memory_order_acquire);
    uint64_t n = ring->seen - ring->position;
    return n > ring->size ? UINT64_MAX : n;
}

static void publish_read(struct pd_ring *ring)
{
    atomic_store(&ring->control->reader.position, ring->position);
    /* A writer that waits is woken when it can do a good piece of work. Reading goes on until the ring is
     * empty, so this is reached in the end. */
    if (ring->seen - ring->position <= ring->size / 2) wake(&ring->control->writer.asleep, ring->bell);
}

pd_status pd_ring_read(struct pd_ring *ring, const struct iovec *parts, int n, size_t *done)
{
    uint64_t there = ring->seen - ring->position, unpublished = 0;
    *done = 0;
    if (there > ring->size) return nonsense();
    for (int i = 0; i < n; i++) {
        uint8_t *to = parts[i].iov_base;
        uint64_t left = parts[i].iov_len;
        while (left) {
            if (!there) {
                there = waiting(ring);
                if (there == UINT64_MAX) return nonsense();
                if (!there) goto empty;
            }
            uint64_t origin = atomic_load_explicit(&ring->control->writer.origin, memory_order_relaxed);
            uint64_t offset = (ring->position - origin) & (ring->size - 1);
            uint64_t took = least(least(left, there), least(STRIDE - unpublished, ring->size - offset));
            if (ring->streams)
                pd_shm_stream(to, ring->bytes + offset, took);
            else
                pd_shm_copy(to, ring->bytes + offset, took);
            ring->position += took;
            to += took, left -= took, there -= took, *done += took, unpublished += took;
            if (unpublished == STRIDE) {
                publish_read(ring);
                unpublished = 0;
            }
        }
    }
empty:
    if (unpublished) publish_read(ring);
    return PD_OK;
}

const void *pd_ring_show(struct pd_ring *ring, size_t n, size_t alignment)
{
    uint64_t there = ring->seen - ring->position;
    if (there < n) there = waiting(ring);
    if (there > ring->size || there < n) return NULL; /* what makes no sense is told by the next read */
    uint64_t origin = atomic_load_explicit(&ring->control->writer.origin, memory_order_relaxed);
    uint64_t offset = (ring->position - origin) & (ring->size - 1);
    const uint8_t *at = ring->bytes + offset;
    return n <= ring->size - offset && (uintptr_t)at % alignment == 0 ? at : NULL;
}

void pd_ring_drop(struct pd_ring *ring, size_t n)
{
    ring->position += n;
    publish_read(ring);
}

int pd_ring_readable(struct pd_ring *ring)
{
    return atomic_load(&ring->control->writer.position) != ring->position;
}

int pd_ring_writable(struct pd_ring *ring)
{
    uint64_t used = ring->position - atomic_load(&ring->control->reader.position);
    return ring->is_short ? used == 0 || used > ring->size : used != ring->size;
}

void pd_ring_sleep_reader(struct pd_ring *ring, int asleep)
{
    atomic_store(&ring->control->reader.asleep, (uint32_t)asleep);
}

void pd_ring_sleep_writer(struct pd_ring *ring, int asleep)
{
    atomic_store(&ring->control->writer.asleep, (uint32_t)asleep);
}
