/* Seals: a short code over bytes and their place in the stream, by which the receiver knows that they are
 * what was sent.
 *
 * Without a key it is a checksum (CRC-32C), which finds damage. With a key it is Poly1305, for each record
 * with a key of its own (the next bytes of AES-256 in counter mode): who does not have the key cannot change,
 * repeat, reorder or insert anything. It is the fastest of what OpenSSL has: 12.7 GB/s on a core where
 * AES-GMAC does 8.6. */
#ifndef PD_NET_SEAL_H
#define PD_NET_SEAL_H

#include <paddle/status.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum {
    PD_SEAL_KEY = 32,
    PD_SEAL_SUM = 4,  /* bytes of a checksum */
    PD_SEAL_TAG = 16, /* of a code with a key */
    PD_SEAL_BACK = 16,
};

/* One direction of a connection. */
struct pd_seal;

/* `key` has PD_SEAL_KEY bytes; NULL: checksums. */
pd_status pd_seal_new(const uint8_t *key, struct pd_seal **out);
void pd_seal_free(struct pd_seal *seal);
int pd_seal_bytes(const struct pd_seal *seal); /* PD_SEAL_SUM or PD_SEAL_TAG */
/* The code of the next record: over the first `n` bytes of the parts, then those of its length (u32,
 * little-endian). */
pd_status pd_seal_next(struct pd_seal *seal, const uint8_t length[4], const struct iovec *parts, size_t n,
                       uint8_t out[PD_SEAL_TAG]);
/* The last `n` records (PD_SEAL_BACK at most) were not sent after all: the next one takes the place of the
 * first of them. */
void pd_seal_back(struct pd_seal *seal, int n);
/* In constant time. */
int pd_seal_same(const struct pd_seal *seal, const uint8_t *a, const uint8_t *b);

#endif
