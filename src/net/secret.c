/* The secret of a job, and the key that stands for it.
 *
 * A secret is what people think up; its key is made by scrypt, which takes 16 MiB and some 30 ms: who has
 * recorded a handshake pays that for each guess. It is done once for each secret of a process, never for a
 * connection. */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "net/hello.h"

enum {
    KEY = 32,
    SCRYPT_N = 1 << 14,
    SCRYPT_R = 8,
    SCRYPT_P = 1,
    SCRYPT_MEMORY = 32 << 20,
    SHORT = 16, /* characters: fewer can be guessed in spite of it */
};

static const char salt[] = "cpaddle secret";

/* Secrets seen so far. The environment may change while a process runs (tests), and who holds one keeps it.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct secret {
    struct secret *next;
    uint8_t key[KEY];
    size_t n;
    uint8_t bytes[];
} * secrets;

static struct secret *stretch(const char *bytes, size_t n)
{
    struct secret *s = pd_malloc(sizeof *s + n);
    if (!s) return NULL;
    s->n = n;
    memcpy(s->bytes, bytes, n);
    if (EVP_PBE_scrypt(bytes, n, (const unsigned char *)salt, sizeof salt - 1, SCRYPT_N, SCRYPT_R, SCRYPT_P,
                       SCRYPT_MEMORY, s->key, KEY) == 1)
        return s;
    pd_free(s);
    return NULL;
}

static pd_status keep(const char *name, const char *bytes, size_t n, const uint8_t **key)
{
    int is_new = 0;
    pthread_mutex_lock(&lock);
    struct secret *s = secrets;
    while (s && !(s->n == n && memcmp(s->bytes, bytes, n) == 0))
        s = s->next;
    if (!s && (s = stretch(bytes, n))) {
        is_new = 1;
        s->next = secrets;
        secrets = s;
    }
    pthread_mutex_unlock(&lock);
    if (!s) return pd_fail(PD_NO_MEMORY, "no key could be made of the secret in %s: it takes 16 MiB", name);
    if (is_new && n < SHORT)
        pd_log(PD_LOG_WARNING,
               "the secret in %s has %zu characters: who listens on the network can guess it. Use %d or "
               "more, as `openssl rand -hex 16` gives them",
               name, n, SHORT);
    *key = s->key;
    return PD_OK;
}

/* Once for each process: the file is read for each connection. */
static void warn_of_readers(const char *path, FILE *file)
{
    static int is_told;
    struct stat about;
    if (fstat(fileno(file), &about) != 0 || !(about.st_mode & (S_IRGRP | S_IROTH))) return;
    pthread_mutex_lock(&lock);
    int is_first = !is_told;
    is_told = 1;
    pthread_mutex_unlock(&lock);
    if (is_first)
        pd_log(PD_LOG_WARNING,
               "the secret's file PADDLE_PS_SECRET_FILE=%s can be read by other users: chmod 600 it", path);
}

static pd_status read_file(const char *path, char *out, size_t cap, size_t *n)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return pd_fail(PD_IO, "the secret's file PADDLE_PS_SECRET_FILE=%s cannot be read: %s", path,
                       strerror(errno));
    warn_of_readers(path, file);
    size_t got = fread(out, 1, cap, file);
    int failed = ferror(file);
    fclose(file);
    if (failed) return pd_fail(PD_IO, "the secret's file PADDLE_PS_SECRET_FILE=%s cannot be read", path);
    if (got == cap)
        return pd_fail(PD_INVALID, "the secret in PADDLE_PS_SECRET_FILE=%s is longer than %zu bytes", path,
                       cap);
    while (got && strchr(" \t\r\n", out[got - 1]))
        got--;
    if (!got)
        return pd_fail(PD_INVALID,
                       "the secret's file PADDLE_PS_SECRET_FILE=%s is empty: put the secret in, or unset it",
                       path);
    *n = got;
    return PD_OK;
}

static pd_status is_empty(const char *name)
{
    return pd_fail(PD_INVALID,
                   "%s is set and empty, which protects nothing: give the job's secret, or unset it", name);
}

void pd_secret_prepare(void)
{
    (void)OPENSSL_init_crypto(OPENSSL_INIT_ADD_ALL_DIGESTS, NULL); /* without an option it does nothing */
}

pd_status pd_secret(const uint8_t **key, int *n)
{
    char text[4096];
    size_t length = 0;
    const char *value = getenv("PADDLE_PS_SECRET"), *path = getenv("PADDLE_PS_SECRET_FILE");
    *key = NULL;
    *n = 0;
    if (value && !*value) return is_empty("PADDLE_PS_SECRET");
    if (path && !*path) return is_empty("PADDLE_PS_SECRET_FILE");
    if (path) PD_TRY(read_file(path, text, sizeof text, &length));
    if (value && path && (strlen(value) != length || memcmp(value, text, length) != 0))
        return pd_fail(
            PD_INVALID,
            "PADDLE_PS_SECRET and PADDLE_PS_SECRET_FILE=%s are both set, to different secrets: unset one",
            path);
    if (value) {
        PD_TRY(keep("PADDLE_PS_SECRET", value, strlen(value), key));
    } else if (path) {
        PD_TRY(keep("PADDLE_PS_SECRET_FILE", text, length, key));
    }
    if (*key) *n = KEY;
    return PD_OK;
}
