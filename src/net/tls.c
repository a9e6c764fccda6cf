/* TLS as a transport: a pipe over TCP's. OpenSSL reads from that pipe, and writes into memory, from where it
 * goes on: so a part of a record that does not go out is ours to keep, and what was put into it is told as
 * written only when all of it is. */
#include "net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "net/conn.h"
#include "net/hello_inside.h"
#include "net/loop_inside.h"

enum {
    RECORD = 16 << 10, /* TLS's own */
    AT_ONCE = 8,       /* records made before they are written */
};

struct pd_tls {
    SSL *ssl;
    struct pd_pipe *under; /* where OpenSSL reads now */
    int is_server, is_over;
    uint8_t first[4]; /* bytes that came: a client without TLS says so by them */
    int first_n;
    pd_status failed;  /* of the pipe below; its message is pd_error() */
    struct pd_buf out; /* made and not written */
    size_t out_at;
    size_t held; /* bytes of the user's that are in there, and not told as written */
};

struct tls_pipe {
    struct pd_pipe base;
    struct pd_tls *tls;
    struct pd_task task;
    int wants_read, wants_write;
    int has_more;    /* the last read filled all that it was given */
    int write_waits; /* for the handshake */
};

static const struct pd_transport tls_transport;

/* ---- between OpenSSL and the pipe below ---- */

static int bio_write(BIO *bio, const char *bytes, int n)
{
    struct pd_tls *tls = BIO_get_data(bio);
    pd_buf_add(&tls->out, bytes, (size_t)n);
    return tls->out.failed ? -1 : n;
}

static int bio_read(BIO *bio, char *out, int n)
{
    struct pd_tls *tls = BIO_get_data(bio);
    size_t got = 0;
    int end = 0;
    BIO_clear_retry_flags(bio);
    tls->failed = tls->under->transport->read(tls->under, &(struct iovec){out, (size_t)n}, 1, &got, &end);
    if (tls->failed != PD_OK) return -1;
    for (size_t i = 0; i < got && tls->first_n < 4; i++)
        tls->first[tls->first_n++] = (uint8_t)out[i];
    if (end) tls->is_over = 1;
    if (!got && !end) BIO_set_retry_read(bio);
    return got ? (int)got : end ? 0 : -1;
}

static long bio_ctrl(BIO *bio, int command, long number, void *at)
{
    (void)bio, (void)number, (void)at;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "pipe");
    if (!method) return;
    BIO_meth_set_write(method, bio_write);
    BIO_meth_set_read(method, bio_read);
    BIO_meth_set_ctrl(method, bio_ctrl);
}

pd_status pd_tls_new(const struct pd_tls_settings *settings, const char *host, struct pd_tls **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_method);
    struct pd_tls *tls = pd_calloc(1, sizeof *tls);
    if (!tls) return pd_no_memory();
    BIO *bio = method ? BIO_new(method) : NULL;
    tls->ssl = SSL_new(host ? settings->client : settings->server);
    tls->is_server = !host;
    int ok = bio && tls->ssl;
    if (ok) {
        BIO_set_data(bio, tls);
        BIO_set_init(bio, 1);
        SSL_set_bio(tls->ssl, bio, bio);
        SSL_set_read_ahead(tls->ssl, 1);
        SSL_set_default_read_buffer_len(tls->ssl, 4 * RECORD);
        if (!host)
            SSL_set_accept_state(tls->ssl);
        else
            SSL_set_connect_state(tls->ssl);
        /* An address is compared with addresses, a name with names. */
        if (host && X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls->ssl), host) != 1)
            ok = SSL_set1_host(tls->ssl, host) == 1 && SSL_set_tlsext_host_name(tls->ssl, host) == 1;
        ERR_clear_error();
    } else {
        BIO_free(bio);
    }
    if (!ok) {
        pd_tls_free(tls);
        return pd_fail(PD_NO_MEMORY, "no TLS for a connection");
    }
    *out = tls;
    return PD_OK;
}

void pd_tls_free(struct pd_tls *tls)
{
    if (!tls) return;
    SSL_free(tls->ssl);
    pd_buf_free(&tls->out);
    pd_free(tls);
}

/* ---- out ---- */

/* Writes what was made; *full: the pipe below takes no more now. */
static pd_status flush(struct pd_tls *tls, int *full)
{
    *full = 0;
    if (tls->out.failed) return pd_no_memory();
    while (tls->out_at < tls->out.n && !*full) {
        struct iovec part = {tls->out.at + tls->out_at, tls->out.n - tls->out_at};
        size_t wrote = 0;
        PD_TRY(tls->under->transport->write(tls->under, &part, 1, &wrote));
        tls->out_at += wrote;
        *full = wrote < part.iov_len;
    }
    if (!*full) tls->out_at = tls->out.n = 0;
    return PD_OK;
}

/* A server tells a client that has no TLS so, in the words of the protocol. */
static void tell_plain(struct pd_tls *tls, const char *text)
{
    struct pd_buf meta = {0};
    uint8_t head[PD_FRAME_HEAD];
    size_t wrote;
    pd_refused_pack(text, &meta);
    struct pd_frame_head about = {.type = PD_REFUSED, .meta = (uint32_t)meta.n, .extra = PD_INVALID};
    if (!meta.failed) about.step = pd_frame_sum(&about, meta.at);
    pd_frame_pack(&about, head);
    if (!meta.failed)
        (void)tls->under->transport->write(
            tls->under, (struct iovec[]){{head, sizeof head}, {meta.at, meta.n}}, 2, &wrote);
    pd_buf_free(&meta);
}

/* The other side's alert, when it looked at the certificate. */
static int is_about_ours(unsigned long code)
{
    static const int alerts[] = {SSL_AD_BAD_CERTIFICATE,     SSL_AD_UNSUPPORTED_CERTIFICATE,
                                 SSL_AD_CERTIFICATE_REVOKED, SSL_AD_CERTIFICATE_EXPIRED,
                                 SSL_AD_CERTIFICATE_UNKNOWN, SSL_AD_UNKNOWN_CA};
    for (size_t i = 0; ERR_GET_LIB(code) == ERR_LIB_SSL && i < sizeof alerts / sizeof *alerts; i++)
        if (ERR_GET_REASON(code) == SSL_AD_REASON_OFFSET + alerts[i]) return 1;
    return 0;
}

static pd_status broken(struct pd_tls *tls)
{
    char why[200];
    unsigned long code = ERR_peek_last_error();
    long verify = SSL_get_verify_result(tls->ssl);
    /* A server logs it. A client tries again, as after anything that somebody on the way may have done. */
    pd_status certificate = tls->is_server ? PD_INVALID : PD_IO;
    if (tls->failed != PD_OK) return tls->failed;
    if (tls->is_server && tls->first_n == 4 && memcmp(tls->first, "CPDL", 4) == 0) {
        static const char text[] = "the server uses TLS and the client does not: set PADDLE_PS_TLS_CERT, "
                                   "PADDLE_PS_TLS_KEY and PADDLE_PS_TLS_CA in every process";
        tell_plain(tls, text);
        return pd_fail(PD_INVALID, "%s", text);
    }
    if (verify != X509_V_OK)
        return pd_fail(certificate, "TLS: the other side's certificate is not accepted: %s",
                       X509_verify_cert_error_string(verify));
    if (!SSL_is_init_finished(tls->ssl) && tls->is_over)
        return pd_fail(PD_IO, "the other side hung up on TLS: does it use TLS, and does it accept this "
                              "process's certificate (PADDLE_PS_TLS_CERT)?");
    if (is_about_ours(code))
        return pd_fail(
            certificate,
            "TLS: the other side does not accept this process's certificate (PADDLE_PS_TLS_CERT): %s",
            ERR_reason_error_string(code));
    ERR_error_string_n(code, why, sizeof why);
    return pd_fail(PD_IO, "TLS: %s", code ? why : "the connection ended");
}

/* Up to n bytes from the parts into records. *took: how many; fewer when the handshake is not through. */
static pd_status make_records(struct tls_pipe *pipe, const struct iovec *parts, int n, size_t skip,
                              size_t *took)
{
    struct pd_tls *tls = pipe->tls;
    uint8_t *joined = pd_loop_raw(pipe->base.loop);
    *took = 0;
    for (int made = 0, i = 0; i < n && made < AT_ONCE; made++) {
        size_t size = 0, wrote = 0;
        const uint8_t *bytes = joined;
        while (i < n && skip >= parts[i].iov_len)
            skip -= parts[i++].iov_len;
        if (i == n) break;
        if (parts[i].iov_len - skip >= RECORD) {
            bytes = (const uint8_t *)parts[i].iov_base + skip;
            size = RECORD;
        } else {
            size_t from = skip;
            for (int k = i; k < n && size < RECORD; k++, from = 0) {
                size_t room = RECORD - size, step = parts[k].iov_len - from;
                if (step > room) step = room;
                memcpy(joined + size, (const uint8_t *)parts[k].iov_base + from, step);
                size += step;
            }
        }
        ERR_clear_error();
        if (SSL_write_ex(tls->ssl, bytes, size, &wrote) != 1) {
            if (SSL_get_error(tls->ssl, 0) != SSL_ERROR_WANT_READ) return broken(tls);
            pipe->write_waits = 1;
            return PD_OK;
        }
        *took += wrote;
        skip += wrote;
    }
    return PD_OK;
}

static pd_status tls_write(struct pd_pipe *base, const struct iovec *parts, int n, size_t *done)
{
    struct tls_pipe *pipe = (struct tls_pipe *)base;
    struct pd_tls *tls = pipe->tls;
    size_t all = pd_parts_bytes(parts, n);
    int full;
    *done = 0;
    for (;;) {
        PD_TRY(flush(tls, &full));
        if (full) return PD_OK;
        *done += tls->held;
        tls->held = 0;
        if (*done >= all || pipe->write_waits) return PD_OK;
        PD_TRY(make_records(pipe, parts, n, *done, &tls->held));
    }
}

/* ---- in ---- */

static pd_status tls_read(struct pd_pipe *base, const struct iovec *parts, int n, size_t *done, int *end)
{
    struct tls_pipe *pipe = (struct tls_pipe *)base;
    struct pd_tls *tls = pipe->tls;
    size_t at = 0;
    int full;
    *done = 0;
    *end = 0;
    pipe->has_more = 1;
    for (int i = 0; i < n && pipe->has_more;) {
        size_t got = 0;
        if (at == parts[i].iov_len) {
            i++, at = 0;
            continue;
        }
        ERR_clear_error();
        if (SSL_read_ex(tls->ssl, (uint8_t *)parts[i].iov_base + at, parts[i].iov_len - at, &got) == 1) {
            *done += got;
            at += got;
            continue;
        }
        pipe->has_more = 0;
        int error = SSL_get_error(tls->ssl, 0);
        if (error == SSL_ERROR_WANT_READ) break;
        /* Without its goodbye it is the end of a connection, as without TLS. */
        int is_end = error == SSL_ERROR_ZERO_RETURN || (tls->is_over && SSL_is_init_finished(tls->ssl));
        if (!is_end && !*done) {
            pd_status status = broken(tls);
            (void)flush(tls, &full); /* why it ends */
            return status;
        }
        *end = is_end && !*done;
        break;
    }
    if (pipe->write_waits && SSL_is_init_finished(tls->ssl)) {
        pipe->write_waits = 0;
        pd_loop_want(base->loop, &pipe->task);
    }
    return tls->held ? PD_OK : flush(tls, &full); /* the handshake's answers */
}

/* ---- the rest of the vtable ---- */

static void run(struct pd_task *task)
{
    struct tls_pipe *pipe = (struct tls_pipe *)((char *)task - offsetof(struct tls_pipe, task));
    pd_pipe_ready(pipe->base.conn, pipe->wants_read && pipe->has_more, pipe->wants_write);
}

static void tls_want(struct pd_pipe *base, int read, int write)
{
    struct tls_pipe *pipe = (struct tls_pipe *)base;
    pipe->wants_read = read;
    pipe->wants_write = write;
    if (read && pipe->has_more) pd_loop_want(base->loop, &pipe->task);
    /* While the handshake needs bytes, room to write is of no use. */
    base->under->transport->want(base->under, read || pipe->write_waits, write && !pipe->write_waits);
}

static void tls_last_words(struct pd_pipe *base)
{
    struct pd_tls *tls = ((struct tls_pipe *)base)->tls;
    int full;
    if (SSL_is_init_finished(tls->ssl)) (void)SSL_shutdown(tls->ssl);
    (void)flush(tls, &full);
}

static void tls_free(struct pd_pipe *base)
{
    struct tls_pipe *pipe = (struct tls_pipe *)base;
    pipe->tls->under = NULL;
    pd_loop_forget(base->loop, &pipe->task);
    pd_free(pipe);
}

pd_status pd_tls_pipe(struct pd_tls *tls, struct pd_pipe *under, struct pd_pipe **out)
{
    struct tls_pipe *pipe = pd_calloc(1, sizeof *pipe);
    if (!pipe) return pd_no_memory();
    pipe->base = (struct pd_pipe){.transport = &tls_transport, .loop = under->loop, .conn = under->conn};
    pipe->task.run = run;
    pipe->base.under = tls->under = under;
    pipe->tls = tls;
    pipe->has_more = 1; /* OpenSSL may hold bytes that came before the move to this loop */
    *out = &pipe->base;
    return PD_OK;
}

static const struct pd_transport tls_transport = {
    .name = "tls",
    .write = tls_write,
    .read = tls_read,
    .want = tls_want,
    .last_words = tls_last_words,
    .free = tls_free,
};
