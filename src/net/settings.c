/* What the environment says about the network: the transport, the size of a ring. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "net/hello_inside.h"
#include "net/shm_ring.h"
#include "net/tls.h"

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
        int is_number = !errno && !*end && end != value && *value != '-' && size <= (UINT64_C(1) << 40);
        size <<= shift;
        if (!is_number || size < PD_RING_LEAST || size > PD_RING_MOST || (size & (size - 1)))
            return pd_fail(PD_INVALID,
                           "PADDLE_PS_RING is '%s': write a number of bytes, as in 8388608, 512K or 8M; from "
                           "64K to 64M, a power of two",
                           value);
    }
    *out = size < PD_RING_LEAST ? PD_RING_LEAST : size > PD_RING_MOST ? PD_RING_MOST : (size_t)size;
    return PD_OK;
}

pd_status pd_is_closed_job(int *is_closed)
{
    const uint8_t *key;
    const struct pd_tls_settings *tls;
    int n;
    PD_TRY(pd_secret(&key, &n));
    PD_TRY(pd_tls_choose(&tls));
    *is_closed = n > 0 || tls;
    return PD_OK;
}
