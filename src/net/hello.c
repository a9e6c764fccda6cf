/* The handshake's messages and proofs; see hello.h and hello_inside.h. */
#include "net/hello_inside.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/error.h"
#include "net/frame.h"
#include "net/wire.h"

int pd_handshake_ms = 10000;

static pd_status malformed(const char *what)
{
    return pd_fail(PD_FORMAT, "the other side's %s is malformed", what);
}

static void read_fixed(struct pd_reader *r, uint8_t *out, size_t n)
{
    const void *at = pd_read_bytes(r, n);
    if (at)
        memcpy(out, at, n);
    else
        memset(out, 0, n);
}

void pd_hello_pack(const struct pd_hello_message *m, struct pd_buf *out)
{
    pd_put_u16(out, m->hello.version);
    pd_put_u8(out, m->hello.role);
    pd_put_u8(out, m->hello.wants_shm);
    pd_put_u16(out, m->hello.loop);
    pd_put_u32(out, (uint32_t)m->hello.id);
    pd_put_u64(out, m->hello.incarnation);
    pd_put_u32(out, m->hello.pid);
    pd_put_u32(out, m->hello.trainers);
    pd_put_text(out, m->hello.job);
    pd_put_text(out, m->hello.host);
    pd_put_text(out, m->hello.boot);
    pd_put_u8(out, m->has_secret);
    pd_put_u64(out, m->ring);
    pd_buf_add(out, m->nonce, PD_NONCE);
}

pd_status pd_hello_unpack(const void *bytes, size_t n, struct pd_hello_message *out)
{
    struct pd_reader r = pd_reader_of(bytes, n);
    struct pd_hello_message m = {0};
    m.hello.version = pd_read_u16(&r);
    m.hello.role = pd_read_u8(&r);
    m.hello.wants_shm = pd_read_u8(&r);
    m.hello.loop = pd_read_u16(&r);
    m.hello.id = (int32_t)pd_read_u32(&r);
    m.hello.incarnation = pd_read_u64(&r);
    m.hello.pid = pd_read_u32(&r);
    m.hello.trainers = pd_read_u32(&r);
    pd_read_text(&r, m.hello.job, sizeof m.hello.job);
    pd_read_text(&r, m.hello.host, sizeof m.hello.host);
    pd_read_text(&r, m.hello.boot, sizeof m.hello.boot);
    m.has_secret = pd_read_u8(&r);
    m.ring = pd_read_u64(&r);
    read_fixed(&r, m.nonce, PD_NONCE);
    if (!pd_reader_done(&r) || m.hello.wants_shm > 1 || m.has_secret > 1) return malformed("HELLO");
    if (m.hello.role < PD_ROLE_TRAINER || m.hello.role > PD_ROLE_TOOL) return malformed("HELLO (its role)");
    if (m.hello.id < -1) return malformed("HELLO (its trainer id)");
    *out = m;
    return PD_OK;
}

void pd_challenge_pack(const struct pd_challenge *m, struct pd_buf *out)
{
    pd_put_u8(out, m->needs_secret);
    pd_buf_add(out, m->nonce, PD_NONCE);
}

pd_status pd_challenge_unpack(const void *bytes, size_t n, struct pd_challenge *out)
{
    struct pd_reader r = pd_reader_of(bytes, n);
    struct pd_challenge m = {0};
    m.needs_secret = pd_read_u8(&r);
    read_fixed(&r, m.nonce, PD_NONCE);
    if (!pd_reader_done(&r) || m.needs_secret > 1) return malformed("CHALLENGE");
    *out = m;
    return PD_OK;
}

void pd_proof_pack(const struct pd_proof *proof, struct pd_buf *out)
{
    pd_put_u8(out, proof->n);
    pd_buf_add(out, proof->bytes, proof->n);
}

static void read_proof(struct pd_reader *r, struct pd_proof *out)
{
    *out = (struct pd_proof){.n = pd_read_u8(r)};
    if (out->n != 0 && out->n != PD_PROOF_BYTES) {
        r->bad = 1;
        out->n = 0;
    }
    read_fixed(r, out->bytes, out->n);
}

pd_status pd_proof_unpack(const void *bytes, size_t n, struct pd_proof *out)
{
    struct pd_reader r = pd_reader_of(bytes, n);
    struct pd_proof proof;
    read_proof(&r, &proof);
    if (!pd_reader_done(&r)) return malformed("PROOF");
    *out = proof;
    return PD_OK;
}

void pd_welcome_pack(const struct pd_welcome_message *m, struct pd_buf *out)
{
    pd_put_u32(out, (uint32_t)m->welcome.id);
    pd_put_u16(out, m->welcome.loops);
    pd_put_u64(out, m->welcome.incarnation);
    pd_put_u32(out, m->welcome.processes);
    pd_put_text(out, m->welcome.note);
    pd_put_text(out, m->shm_name);
    pd_buf_add(out, m->shm_token, PD_SHM_TOKEN);
    pd_put_u64(out, m->ring);
}

pd_status pd_welcome_unpack(const void *bytes, size_t n, struct pd_welcome_message *out,
                            struct pd_proof *proof, size_t *body)
{
    struct pd_reader r = pd_reader_of(bytes, n);
    struct pd_welcome_message m = {0};
    struct pd_proof p;
    m.welcome.id = (int32_t)pd_read_u32(&r);
    m.welcome.loops = pd_read_u16(&r);
    m.welcome.incarnation = pd_read_u64(&r);
    m.welcome.processes = pd_read_u32(&r);
    pd_read_text(&r, m.welcome.note, sizeof m.welcome.note);
    pd_read_text(&r, m.shm_name, sizeof m.shm_name);
    read_fixed(&r, m.shm_token, PD_SHM_TOKEN);
    m.ring = pd_read_u64(&r);
    size_t covered = (size_t)(r.at - (const uint8_t *)bytes);
    read_proof(&r, &p);
    if (!pd_reader_done(&r)) return malformed("WELCOME");
    *out = m;
    *proof = p;
    *body = covered;
    return PD_OK;
}

void pd_refused_pack(const char *text, struct pd_buf *out)
{
    pd_put_line(out, text, PD_REFUSED_MOST);
}

pd_status pd_refused_status(uint64_t extra)
{
    return extra >= PD_NO_MEMORY && extra <= PD_UNAVAILABLE ? (pd_status)extra : PD_INVALID;
}

pd_status pd_refused_unpack(const void *bytes, size_t n, char *out, size_t cap)
{
    struct pd_reader r = pd_reader_of(bytes, n);
    pd_read_text(&r, out, cap);
    return pd_reader_done(&r) ? PD_OK : malformed("REFUSED");
}

void pd_switch_pack(int to_shm, struct pd_buf *out)
{
    pd_put_u8(out, (uint8_t)to_shm);
}

pd_status pd_switch_unpack(const void *bytes, size_t n, int *to_shm)
{
    struct pd_reader r = pd_reader_of(bytes, n);
    uint8_t value = pd_read_u8(&r);
    if (!pd_reader_done(&r) || value > 1) return malformed("SWITCH");
    *to_shm = value;
    return PD_OK;
}

pd_status pd_proof_make(const uint8_t *secret, int secret_n, const char *label, const struct pd_buf *hello,
                        const struct pd_buf *challenge, const void *body, size_t body_n, struct pd_proof *out)
{
    struct pd_buf all = {0};
    unsigned n = 0;
    if (secret_n == 0) {
        *out = (struct pd_proof){0};
        return PD_OK;
    }
    /* Each part after its length, so that no two transcripts give the same bytes. */
    pd_put_text(&all, label);
    pd_put_u32(&all, (uint32_t)hello->n);
    pd_buf_add(&all, hello->at, hello->n);
    pd_put_u32(&all, (uint32_t)challenge->n);
    pd_buf_add(&all, challenge->at, challenge->n);
    pd_put_u32(&all, (uint32_t)body_n);
    pd_buf_add(&all, body, body_n);
    struct pd_proof proof = {.n = PD_PROOF_BYTES};
    pd_status status = PD_OK;
    if (all.failed)
        status = pd_no_memory();
    else if (!HMAC(EVP_sha256(), secret, secret_n, (const unsigned char *)all.at, all.n, proof.bytes, &n) ||
             n != PD_PROOF_BYTES)
        status = pd_fail(PD_INTERNAL, "OpenSSL cannot compute HMAC-SHA256");
    else
        *out = proof;
    pd_buf_free(&all);
    return status;
}

int pd_proof_same(const struct pd_proof *a, const struct pd_proof *b)
{
    return a->n == b->n && CRYPTO_memcmp(a->bytes, b->bytes, a->n) == 0;
}

uint64_t pd_hello_mark(uint64_t incarnation)
{
    static const char label[] = "cpaddle incarnation";
    uint8_t bytes[sizeof label + 8], digest[32];
    memcpy(bytes, label, sizeof label);
    pd_le_put(bytes + sizeof label, incarnation, 8);
    if (!incarnation || !EVP_Digest(bytes, sizeof bytes, digest, NULL, EVP_sha256(), NULL)) return 0;
    return pd_le_get(digest, 8) | 1;
}

pd_status pd_nonce_make(uint8_t nonce[PD_NONCE])
{
    if (getrandom(nonce, PD_NONCE, 0) != PD_NONCE)
        return pd_fail(PD_IO, "the system gives no random bytes: %s", strerror(errno));
    return PD_OK;
}

void pd_boot_id(char out[40])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    out[0] = 0;
    if (!file) return;
    if (!fgets(out, 40, file)) out[0] = 0;
    out[strcspn(out, "\r\n")] = 0;
    fclose(file);
}

pd_status pd_hello_fill(struct pd_hello_message *m, int has_secret)
{
    m->hello.version = PD_FRAME_VERSION;
    m->hello.pid = (uint32_t)getpid();
    m->has_secret = (uint8_t)has_secret;
    memset(m->hello.host, 0, sizeof m->hello.host);
    if (gethostname(m->hello.host, sizeof m->hello.host - 1) < 0) m->hello.host[0] = 0;
    pd_boot_id(m->hello.boot);
    return pd_nonce_make(m->nonce);
}
