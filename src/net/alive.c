/* See alive.h.
 *
 * An idle connection has the kernel's keepalive. While bytes are unacknowledged keepalive rests, and the
 * kernel would send them again for a quarter of an hour. TCP_USER_TIMEOUT shortens that, but it also ends a
 * connection whose other end answers every probe and only takes nothing in, as a stopped process does. So the
 * time since the last acknowledgement is looked at here. */
#include "net/alive.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/flags.h"

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* Linux 6.15 and later */
#endif

enum {
    PROBES = 3,
    LOOKS = 5, /* within the time */
    EVERY_MOST_MS = 2000,
    TRY_LEAST_MS = 1000, /* the kernel's own bounds */
    TRY_MOST_MS = 120000,
};

static int between(int least, int value, int most)
{
    return value < least ? least : value > most ? most : value;
}

static void set(int socket, int level, int option, int value)
{
    setsockopt(socket, level, option, &value, sizeof value); /* no harm where it fails: deadlines are left */
}

void pd_alive_start(struct pd_alive *alive, int socket)
{
    int seconds = pd_flag_int(PD_FLAG_ps_dead_after); /* the kernel takes the largest, too */
    *alive = (struct pd_alive){.after_ms = seconds * 1000};
    set(socket, SOL_SOCKET, SO_KEEPALIVE, seconds > 0);
    if (!seconds) return;
    /* A quiet time, then probes for the rest: 4 s and 3 times 2 s of 10 s. */
    int idle = (2 * seconds + 4) / 5, every = between(1, (seconds - idle) / PROBES, seconds);
    set(socket, IPPROTO_TCP, TCP_KEEPIDLE, idle);
    set(socket, IPPROTO_TCP, TCP_KEEPINTVL, every);
    set(socket, IPPROTO_TCP, TCP_KEEPCNT, between(1, (seconds - idle) / every, PROBES));
    /* The kernel waits twice as long before each further try. With a bound it asks a stopped process's
     * machine often enough, and is there soon when a link comes back. */
    set(socket, IPPROTO_TCP, TCP_RTO_MAX_MS, between(TRY_LEAST_MS, seconds * 250, TRY_MOST_MS));
}

int pd_alive_every_ms(const struct pd_alive *alive)
{
    int every = alive->after_ms / LOOKS;
    return every < EVERY_MOST_MS ? every : EVERY_MOST_MS;
}

int pd_alive_is_lost(struct pd_alive *alive, int socket)
{
    struct tcp_info info;
    socklen_t n = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &n) < 0) return 0;
    /* A connect has a limit of its own; so has a goodbye. Probes ask a machine that has no room for more. */
    int is_up = info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT;
    if (!is_up || !(info.tcpi_unacked || info.tcpi_probes)) {
        alive->since_ms = 0;
        return 0;
    }
    /* Counted from here, not from the last word: the connection may have been idle for long before. */
    int64_t now = pd_clock_ns() / 1000000;
    if (!alive->since_ms || now - (int64_t)info.tcpi_last_ack_recv > alive->since_ms) {
        alive->since_ms = now;
        return 0;
    }
    return now - alive->since_ms >= alive->after_ms - pd_alive_every_ms(alive);
}
