/* The handshake: version, job, role, id, incarnation; a shared secret proved both ways by HMAC-SHA256.
 *
 *   client                                   server
 *   HELLO  who I am, my nonce         ->
 *                                     <-     CHALLENGE  server's nonce, is a secret needed
 *   PROOF  HMAC(secret, HELLO, CHALLENGE) ->
 *                                     <-     WELCOME  what the server grants, HMAC of all of it
 *   SWITCH shared memory or TCP       ->     only when WELCOME offers shared memory
 *
 * Either side may answer REFUSED with a text instead. Without a secret the proofs are empty. A server that
 * has a secret refuses who cannot prove it; a client that has one refuses a server that cannot. Versions,
 * jobs and secrets that differ are told with both sides' values (never the secret). */
#ifndef PD_NET_HELLO_H
#define PD_NET_HELLO_H

#include <paddle/status.h>
#include <stdint.h>

enum pd_role { PD_ROLE_TRAINER = 1, PD_ROLE_SERVER = 2, PD_ROLE_TOOL = 3 };

/* What a client says of itself. */
struct pd_hello {
    uint16_t version; /* set by net */
    uint8_t role;
    uint8_t wants_shm;    /* this client can use shared memory (set by net from the switch) */
    uint16_t loop;        /* which of the server's loops it wants to talk to */
    int32_t id;           /* trainer id; -1: give me one */
    uint64_t incarnation; /* random, new for each process; at the server its mark (pd_hello_mark) */
    uint32_t pid;
    uint32_t trainers; /* barrier width it expects; 0: does not care */
    char job[64];      /* the server's must be the same; a tool's may be empty */
    char host[64];     /* set by net: the host's name, for messages */
    char boot[40];     /* set by net: the host's boot id: same host? */
};

/* What the server grants. */
struct pd_welcome {
    int32_t id;
    uint16_t loops;       /* how many loops the server has */
    uint64_t incarnation; /* the server's */
    uint32_t processes;   /* trainers and loops of servers in the job; 0: not known */
    char note[128];       /* what else a client should know; the layer above says what */
};

enum {
    PD_HELLO = 1,
    PD_CHALLENGE = 2,
    PD_PROOF = 3,
    PD_WELCOME = 4,
    PD_REFUSED = 5,
    PD_SWITCH = 6
}; /* frame types */

/* The key of this process's secret, which is in the environment PADDLE_PS_SECRET, or in the file
 * PADDLE_PS_SECRET_FILE (trailing white space cut). *n is its size; 0: there is no secret. An empty one, or a
 * file that cannot be read, is an error. The memory stays. Takes 30 ms for a secret that is seen first. */
pd_status pd_secret(const uint8_t **key, int *n);
/* Nothing that a connection needs ends, at the end of the process, before what is given to atexit() behind
 * this. */
void pd_secret_prepare(void);
/* Do all who get in prove that they are of the job, by a secret or by a certificate? */
pd_status pd_is_closed_job(int *is_closed);

#endif
