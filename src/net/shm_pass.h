/* How the shared memory gets from the server to the client, once the handshake over TCP has shown who they
 * are.
 *
 * The server binds a Unix datagram socket to a random abstract name and tells name and token in its WELCOME.
 * The client sends the token there; the server answers with the descriptors, once, to a process of its own
 * user. In another network namespace the name is not found, and the two stay with TCP. */
#ifndef PD_NET_SHM_PASS_H
#define PD_NET_SHM_PASS_H

#include <paddle/status.h>
#include <stddef.h>
#include <stdint.h>

#include "net/loop.h"

enum { PD_SHM_NAME = 48, PD_SHM_TOKEN = 16 };

/* The memory holds a page with two pd_ring_control, then the bytes of both rings: to the server, to the
 * client. */
struct pd_shm_parts {
    int memory;
    int bells[2]; /* eventfds: [0] wakes the server, [1] the client */
    size_t ring;  /* bytes of each ring */
};

/* Closes what is open; -1 is closed. */
void pd_shm_parts_close(struct pd_shm_parts *parts);

struct pd_shm_offer;
/* Makes the memory, and offers it under a new name. `ring` is rounded up to a power of two within the limits.
 */
pd_status pd_shm_offer_start(struct pd_loop *loop, size_t ring, struct pd_shm_offer **out);
/* What a client needs to fetch them. */
void pd_shm_offer_tell(const struct pd_shm_offer *offer, char name[PD_SHM_NAME], uint8_t token[PD_SHM_TOKEN],
                       uint64_t *ring);
/* Moves the parts to the caller once they were fetched; 0: they were not. */
int pd_shm_offer_take(struct pd_shm_offer *offer, struct pd_shm_parts *out);
void pd_shm_offer_free(struct pd_shm_offer *offer); /* NULL is fine */

struct pd_shm_fetch;
/* Asks for the parts. done(arg, parts) is called from the loop; the callee moves them out. An error: nobody
 * is there. */
pd_status pd_shm_fetch_start(struct pd_loop *loop, const char *name, const uint8_t token[PD_SHM_TOKEN],
                             size_t ring, void (*done)(void *arg, struct pd_shm_parts *parts), void *arg,
                             struct pd_shm_fetch **out);
void pd_shm_fetch_free(struct pd_shm_fetch *fetch); /* NULL is fine; then done is not called */

#endif
