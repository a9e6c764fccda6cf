/* See admission.h. */
#include "pserver/server/admission.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "net/hello.h"
#include "net/lookup.h"

enum { ASK_AGAIN_MS = 2000 }; /* a name's addresses may change */

struct host {
    struct pd_admission *admission;
    char *name; /* as the endpoint has it */
    struct pd_endpoint where;
    int is_address;
    struct pd_addresses addresses;
    struct pd_lookup *lookup; /* under way */
    int64_t asked;
};

struct pd_admission {
    struct pd_loop *loop;
    int is_closed, n;
    struct host hosts[];
};

static void looked_up(void *arg, pd_status status, const char *text, const struct pd_addresses *addresses)
{
    struct host *host = arg;
    (void)text;
    host->lookup = NULL;
    if (status == PD_OK) host->addresses = *addresses;
}

static void look_up(struct host *host)
{
    int64_t now = pd_clock_ns();
    if (host->is_address || host->lookup || (host->asked && (now - host->asked) / 1000000 < ASK_AGAIN_MS))
        return;
    host->asked = now;
    (void)pd_lookup_start(host->admission->loop, &host->where, looked_up, host, &host->lookup);
}

pd_status pd_admission_new(struct pd_loop *loop, int n, const char *const *names, int is_closed,
                           struct pd_admission **out)
{
    struct pd_admission *a = pd_calloc(1, sizeof *a + sizeof(struct host) * (size_t)n);
    if (!a) return pd_no_memory();
    a->loop = loop;
    a->is_closed = is_closed;
    for (int i = 0; i < n; i++) {
        struct host *host = &a->hosts[a->n++];
        host->admission = a;
        host->name = pd_strdup(names[i]);
        pd_status status = host->name ? pd_endpoint_parse(names[i], &host->where) : pd_no_memory();
        if (status != PD_OK) {
            pd_admission_free(a);
            return status;
        }
        host->is_address = pd_endpoint_is_numeric(&host->where, PD_LOOKUP_ADDRESSES, host->addresses.at,
                                                  host->addresses.lengths, &host->addresses.n);
    }
    *out = a;
    return PD_OK;
}

pd_status pd_admission_check(struct pd_admission *a, const struct pd_hello *hello, const char *peer)
{
    struct pd_endpoint from;
    struct sockaddr_storage address[1];
    socklen_t length[1];
    int n;
    if (hello->id < 0 || hello->id >= a->n)
        return pd_fail(PD_RANGE, "it calls itself server %d, and the job has %d: do all have the same list?",
                       hello->id, a->n);
    if (a->is_closed) return PD_OK;
    struct host *host = &a->hosts[hello->id];
    PD_TRY(pd_endpoint_parse(peer, &from));
    if (!pd_endpoint_is_numeric(&from, 1, address, length, &n)) n = 0;
    for (int i = 0; n && i < host->addresses.n; i++)
        if (pd_endpoint_same_host(&host->addresses.at[i], address)) return PD_OK;
    look_up(host);
    if (!host->is_address && !host->addresses.n)
        return pd_fail(PD_UNAVAILABLE,
                       "it calls itself server %d, and the name of %s is not known here yet: is it in the "
                       "DNS, or in /etc/hosts?",
                       hello->id, host->name);
    return pd_fail(PD_INVALID,
                   "it calls itself server %d, which is %s, and does not come from there: behind NAT, or "
                   "with mapped addresses, servers need a secret (PADDLE_PS_SECRET)",
                   hello->id, host->name);
}

void pd_admission_free(struct pd_admission *a)
{
    if (!a) return;
    for (int i = 0; i < a->n; i++) {
        pd_lookup_cancel(a->hosts[i].lookup);
        pd_free(a->hosts[i].name);
    }
    pd_free(a);
}
