/* See seal.h. */
#include "net/seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "net/wire.h"

enum {
    ONE_KEY = 32,
    AHEAD = PD_SEAL_BACK, /* keys that are made at once; as many stay, for those who go back */
    KEYS = 2 * AHEAD * ONE_KEY,
};

struct pd_seal {
    EVP_MAC_CTX *mac;     /* NULL: checksums */
    EVP_CIPHER_CTX *keys; /* the stream that the records' keys come from */
    uint64_t number;      /* of the next record */
    int used;             /* of the keys that were made */
    uint8_t made[];       /* with a key: KEYS bytes; idle connections are many */
};

static pd_status no_cipher(void)
{
    return pd_fail(PD_INTERNAL, "OpenSSL cannot compute Poly1305");
}

static EVP_MAC *poly1305;

static void find_poly1305(void)
{
    poly1305 = EVP_MAC_fetch(NULL, "POLY1305", NULL);
}

pd_status pd_seal_new(const uint8_t *key, struct pd_seal **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static const uint8_t start[16];
    struct pd_seal *seal = pd_calloc(1, sizeof *seal + (key ? KEYS : 0));
    if (!seal) return pd_no_memory();
    seal->used = 2 * AHEAD;
    if (key) {
        pthread_once(&once, find_poly1305);
        seal->mac = poly1305 ? EVP_MAC_CTX_new(poly1305) : NULL;
        seal->keys = EVP_CIPHER_CTX_new();
        if (!seal->mac || !seal->keys ||
            EVP_EncryptInit_ex(seal->keys, EVP_aes_256_ctr(), NULL, key, start) != 1) {
            pd_seal_free(seal);
            return no_cipher();
        }
    }
    *out = seal;
    return PD_OK;
}

void pd_seal_free(struct pd_seal *seal)
{
    if (!seal) return;
    EVP_MAC_CTX_free(seal->mac);
    EVP_CIPHER_CTX_free(seal->keys);
    if (seal->mac) OPENSSL_cleanse(seal->made, KEYS);
    pd_free(seal);
}

int pd_seal_bytes(const struct pd_seal *seal)
{
    return seal->mac ? PD_SEAL_TAG : PD_SEAL_SUM;
}

/* The number is the start value: a record that is lost or comes twice is found as well. */
static void sum(uint64_t number, const uint8_t length[4], const struct iovec *parts, size_t n,
                uint8_t out[PD_SEAL_TAG])
{
    uint32_t crc = (uint32_t)number;
    for (; n; parts++) {
        size_t step = parts->iov_len < n ? parts->iov_len : n;
        crc = pd_crc32c(crc, parts->iov_base, step);
        n -= step;
    }
    crc = pd_crc32c(crc, length, 4);
    pd_le_put(out, crc, PD_SEAL_SUM);
}

static pd_status next_key(struct pd_seal *seal, const uint8_t **key)
{
    static const uint8_t zeros[KEYS / 2];
    uint8_t *second = seal->made + sizeof zeros;
    int got;
    if (seal->used == 2 * AHEAD) {
        memcpy(seal->made, second, sizeof zeros);
        if (EVP_EncryptUpdate(seal->keys, second, &got, zeros, sizeof zeros) != 1) return no_cipher();
        seal->used = AHEAD;
    }
    *key = seal->made + (size_t)seal->used++ * ONE_KEY;
    return PD_OK;
}

void pd_seal_back(struct pd_seal *seal, int n)
{
    seal->number -= (uint64_t)n;
    seal->used -= seal->mac ? n : 0;
}

pd_status pd_seal_next(struct pd_seal *seal, const uint8_t length[4], const struct iovec *parts, size_t n,
                       uint8_t out[PD_SEAL_TAG])
{
    const uint8_t *key;
    size_t got;
    if (!seal->mac) {
        sum(seal->number++, length, parts, n, out);
        return PD_OK;
    }
    PD_TRY(next_key(seal, &key));
    int ok = EVP_MAC_init(seal->mac, key, ONE_KEY, NULL) == 1;
    for (; ok && n; parts++) {
        size_t step = parts->iov_len < n ? parts->iov_len : n;
        ok = !step || EVP_MAC_update(seal->mac, parts->iov_base, step) == 1;
        n -= step;
    }
    /* The length last: before them it would cost half the speed. */
    ok = ok && EVP_MAC_update(seal->mac, length, 4) == 1 &&
         EVP_MAC_final(seal->mac, out, &got, PD_SEAL_TAG) == 1 && got == PD_SEAL_TAG;
    return ok ? PD_OK : no_cipher();
}

int pd_seal_same(const struct pd_seal *seal, const uint8_t *a, const uint8_t *b)
{
    return CRYPTO_memcmp(a, b, (size_t)pd_seal_bytes(seal)) == 0;
}
