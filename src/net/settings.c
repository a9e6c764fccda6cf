/* What the environment says about the network: the shared secret, the transport, the size of a ring. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "net/hello_inside.h"
#include "net/shm_ring.h"

/* Secrets seen so far. The environment may change while a process runs (tests), and who holds one keeps it.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct secret {
    struct secret *next;
    int n;
    uint8_t bytes[];
} * secrets;

static pd_status keep(const char *bytes, size_t n, const uint8_t **at, int *out_n)
{
    pthread_mutex_lock(&lock);
    struct secret *s = secrets;
    while (s && !((size_t)s->n == n && memcmp(s->bytes, bytes, n) == 0))
        s = s->next;
    if (!s && (s = pd_malloc(sizeof *s + n))) {
        s->next = secrets;
        s->n = (int)n;
        memcpy(s->bytes, bytes, n);
        secrets = s;
    }
    pthread_mutex_unlock(&lock);
    if (!s) return pd_no_memory();
    *at = s->bytes;
    *out_n = s->n;
    return PD_OK;
}

static pd_status read_file(const char *path, char *out, size_t cap, size_t *n)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return pd_fail(PD_IO, "the secret's file PADDLE_PS_SECRET_FILE=%s cannot be read: %s", path,
                       strerror(errno));
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

pd_status pd_secret(const uint8_t **at, int *n)
{
    char text[4096];
    size_t length = 0;
    const char *value = getenv("PADDLE_PS_SECRET"), *path = getenv("PADDLE_PS_SECRET_FILE");
    if (value && *value) return keep(value, strlen(value), at, n);
    if (path && *path) {
        PD_TRY(read_file(path, text, sizeof text, &length));
        return keep(text, length, at, n);
    }
    *at = NULL;
    *n = 0;
    return PD_OK;
}

static int find_transport(const char *name, enum pd_transport_choice *out)
{
    static const char *const names[] = {"auto", "tcp", "shm"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (enum pd_transport_choice)i;
            return 1;
        }
    return 0;
}

pd_status pd_transport_choose(const char *option, enum pd_transport_choice *out)
{
    enum pd_transport_choice choice = PD_TRANSPORT_AUTO;
    const char *value = getenv("PADDLE_PS_TRANSPORT");
    if (option && *option && !find_transport(option, &choice))
        return pd_fail(PD_INVALID, "there is no transport '%s': use auto, tcp or shm", option);
    if (choice == PD_TRANSPORT_AUTO && value && *value && !find_transport(value, &choice))
        return pd_fail(PD_INVALID, "PADDLE_PS_TRANSPORT is '%s': use auto, tcp or shm", value);
    *out = choice;
    return PD_OK;
}

pd_status pd_ring_choose(uint64_t wish, size_t *out)
{
    const char *value = getenv("PADDLE_PS_RING");
    uint64_t size = wish ? wish : PD_RING_USUAL;
    if (!wish && value && *value) {
        char *end;
        errno = 0;
        size = strtoull(value, &end, 10);
        int shift = *end == 'K' || *end == 'k' ? 10 : *end == 'M' || *end == 'm' ? 20 : 0;
        if (shift) end++;
        if (errno || *end || end == value || *value == '-' || size == 0 || size > (UINT64_C(1) << 40))
            return pd_fail(PD_INVALID,
                           "PADDLE_PS_RING is '%s': write a number of bytes, as in 8388608, 512K or 8M",
                           value);
        size <<= shift;
    }
    *out = size < PD_RING_LEAST ? PD_RING_LEAST : size > PD_RING_MOST ? PD_RING_MOST : (size_t)size;
    return PD_OK;
}
