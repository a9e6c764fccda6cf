/* See lookup.h.
 *
 * A thread for each name that is being looked up, shared by all who ask for that name meanwhile: a name
 * server that needs longer than a connection's patience is asked once, and the next try gets its answer. The
 * thread is detached and owns what it works on, so a loop can be freed while getaddrinfo blocks (libuv's own
 * lookup keeps the loop until it is over). */
#include "net/lookup.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/thread.h"

enum { STACK = 1 << 20 }; /* what NSS modules may need */

/* A name that is being looked up. */
struct name {
    struct name *next;
    struct pd_endpoint endpoint;
    struct pd_lookup *first; /* who asked and still waits */
};

/* One who asked. */
struct pd_lookup {
    struct pd_lookup *next;
    struct name *name; /* NULL: it is looked up */
    struct pd_loop *loop;
    void (*done)(void *arg, pd_status status, const char *text, const struct pd_addresses *addresses);
    void *arg;
    int is_posted; /* the loop will run `deliver`, which frees */
    int is_left;   /* nobody wants to hear it */
    pd_status status;
    char text[512];
    struct pd_addresses addresses;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all names and their lists */
static struct name *names;

PD_LOCK_FORKS(&lock)

/* The threads stay with the parent, so a child asks anew. */
static void in_child(void)
{
    names = NULL;
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

static void deliver(void *arg)
{
    struct pd_lookup *lookup = arg;
    if (!lookup->is_left) lookup->done(lookup->arg, lookup->status, lookup->text, &lookup->addresses);
    pd_free(lookup);
}

static void *look_up(void *arg)
{
    struct name *name = arg, **at = &names;
    struct pd_addresses found = {0};
    char text[sizeof name->first->text] = "";
    pd_status status =
        pd_endpoint_resolve(&name->endpoint, 0, PD_LOOKUP_ADDRESSES, found.at, found.lengths, &found.n);
    if (status != PD_OK) snprintf(text, sizeof text, "%s", pd_error());
    pthread_mutex_lock(&lock);
    while (*at != name)
        at = &(*at)->next;
    *at = name->next;
    for (struct pd_lookup *lookup = name->first, *next; lookup; lookup = next) {
        next = lookup->next;
        lookup->name = NULL;
        lookup->status = status;
        lookup->addresses = found;
        memcpy(lookup->text, text, sizeof text);
        /* Before the post, after which the lookup may be gone. A loop that takes no posts is being freed, and
         * cancels. */
        lookup->is_posted = 1;
        if (pd_loop_post(lookup->loop, deliver, lookup) != PD_OK) lookup->is_posted = 0;
    }
    pthread_mutex_unlock(&lock);
    pd_free(name);
    return NULL;
}

/* Under the lock. The name that is being looked up already, or a new one. */
static pd_status find_name(const struct pd_endpoint *endpoint, struct name **out)
{
    struct name *name = names;
    while (name &&
           (name->endpoint.port != endpoint->port || strcmp(name->endpoint.host, endpoint->host) != 0))
        name = name->next;
    if (!name) {
        name = pd_calloc(1, sizeof *name);
        if (!name) return pd_no_memory();
        name->endpoint = *endpoint;
        pthread_t thread;
        int rc = pd_thread_start(&thread, STACK, look_up, name);
        if (rc) {
            pd_free(name);
            return pd_fail(PD_IO, "a thread to look the name '%s' up cannot be started: %s", endpoint->host,
                           strerror(rc));
        }
        pthread_detach(thread);
        name->next = names;
        names = name;
    }
    *out = name;
    return PD_OK;
}

pd_status pd_lookup_start(struct pd_loop *loop, const struct pd_endpoint *endpoint,
                          void (*done)(void *arg, pd_status status, const char *text,
                                       const struct pd_addresses *addresses),
                          void *arg, struct pd_lookup **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    struct pd_lookup *lookup = pd_calloc(1, sizeof *lookup);
    if (!lookup) return pd_no_memory();
    lookup->loop = loop;
    lookup->done = done;
    lookup->arg = arg;
    pthread_mutex_lock(&lock);
    pd_status status = find_name(endpoint, &lookup->name);
    if (status == PD_OK) {
        lookup->next = lookup->name->first;
        lookup->name->first = lookup;
    }
    pthread_mutex_unlock(&lock);
    if (status != PD_OK) {
        pd_free(lookup);
        return status;
    }
    *out = lookup;
    return PD_OK;
}

void pd_lookup_cancel(struct pd_lookup *lookup)
{
    if (!lookup) return;
    pthread_mutex_lock(&lock);
    lookup->is_left = 1;
    int is_mine = !lookup->is_posted;
    if (lookup->name) {
        struct pd_lookup **at = &lookup->name->first;
        while (*at != lookup)
            at = &(*at)->next;
        *at = lookup->next;
    }
    pthread_mutex_unlock(&lock);
    if (is_mine) pd_free(lookup);
}
