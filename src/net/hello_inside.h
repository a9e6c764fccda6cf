/* The handshake's messages as bytes; conn.h's users need only hello.h. Every unpack checks all it reads:
 * these bytes come from anybody who can reach the port. */
#ifndef PD_NET_HELLO_INSIDE_H
#define PD_NET_HELLO_INSIDE_H

#include <stddef.h>

#include "base/buf.h"
#include "net/hello.h"
#include "net/shm_pass.h"

enum {
    PD_NONCE = 32,
    PD_PROOF_BYTES = 32,
    PD_REFUSED_MOST = 1023,   /* bytes of its text */
    PD_HELLO_META_MAX = 4096, /* no message of the handshake is larger */
};

/* What a handshake may take, in milliseconds: 10 s. Tests shorten it before they start. */
extern int pd_handshake_ms;

/* HELLO */
struct pd_hello_message {
    struct pd_hello hello;
    uint8_t has_secret;
    uint64_t ring; /* bytes of a ring it would like; 0: the server's choice */
    uint8_t nonce[PD_NONCE];
};
void pd_hello_pack(const struct pd_hello_message *message, struct pd_buf *out);
pd_status pd_hello_unpack(const void *bytes, size_t n, struct pd_hello_message *out);

/* CHALLENGE */
struct pd_challenge {
    uint8_t needs_secret;
    uint8_t nonce[PD_NONCE];
};
void pd_challenge_pack(const struct pd_challenge *message, struct pd_buf *out);
pd_status pd_challenge_unpack(const void *bytes, size_t n, struct pd_challenge *out);

/* PROOF; WELCOME ends with one too. Empty without a secret. */
struct pd_proof {
    uint8_t n;
    uint8_t bytes[PD_PROOF_BYTES];
};
void pd_proof_pack(const struct pd_proof *proof, struct pd_buf *out);
pd_status pd_proof_unpack(const void *bytes, size_t n, struct pd_proof *out);

/* WELCOME */
struct pd_welcome_message {
    struct pd_welcome welcome;
    char shm_name[PD_SHM_NAME]; /* empty: no shared memory */
    uint8_t shm_token[PD_SHM_TOKEN];
    uint64_t ring;
};
/* The proof covers the bytes before it, so it is made from them and added by pd_proof_pack. */
void pd_welcome_pack(const struct pd_welcome_message *message, struct pd_buf *out);
/* *body is the number of bytes that the proof covers. */
pd_status pd_welcome_unpack(const void *bytes, size_t n, struct pd_welcome_message *out,
                            struct pd_proof *proof, size_t *body);

/* REFUSED: what is wrong, in words. Control characters become spaces. */
void pd_refused_pack(const char *text, struct pd_buf *out);
pd_status pd_refused_unpack(const void *bytes, size_t n, char *out, size_t cap);
/* The code that a REFUSED carries in its head; PD_INVALID for what is none. */
pd_status pd_refused_status(uint64_t extra);

/* SWITCH: 1: both use the shared memory from now on; 0: TCP. */
void pd_switch_pack(int to_shm, struct pd_buf *out);
pd_status pd_switch_unpack(const void *bytes, size_t n, int *to_shm);

/* The secret's proof over what both have said. `label` keeps the two directions apart. */
pd_status pd_proof_make(const uint8_t *secret, int secret_n, const char *label, const struct pd_buf *hello,
                        const struct pd_buf *challenge, const void *body, size_t body_n,
                        struct pd_proof *out);
/* In constant time. */
int pd_proof_same(const struct pd_proof *a, const struct pd_proof *b);

/* What a server keeps, writes and tells of a client's incarnation: from it nobody can say the incarnation
 * itself, by which the client takes its place again. Never 0, but for 0. */
uint64_t pd_hello_mark(uint64_t incarnation);
/* Fills version, pid, host, boot and has_secret; and a nonce. */
pd_status pd_hello_fill(struct pd_hello_message *message, int has_secret);
pd_status pd_nonce_make(uint8_t nonce[PD_NONCE]);
/* The boot id of this host, "" when the kernel does not tell. */
void pd_boot_id(char out[40]);

enum pd_transport_choice { PD_TRANSPORT_AUTO, PD_TRANSPORT_TCP, PD_TRANSPORT_SHM };
/* What an option ("auto", "tcp", "shm" or NULL) and, where it leaves the choice, PADDLE_PS_TRANSPORT say. */
pd_status pd_transport_choose(const char *option, enum pd_transport_choice *out);
/* Bytes of a ring: the wish, else PADDLE_PS_RING ("8388608", "8M", "512K"), else the default. */
pd_status pd_ring_choose(uint64_t wish, size_t *out);

#endif
