/* See sockets.h. A bit for each descriptor, so that the child needs no lock and no memory. */
#include "net/sockets.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

enum { MOST = 1 << 16 }; /* descriptors that are known; those beyond are kept by children */

static _Atomic uint64_t ours[MOST / 64];

static void in_child(void)
{
    for (int word = 0; word < MOST / 64; word++) {
        uint64_t bits = atomic_exchange(&ours[word], 0);
        for (; bits; bits &= bits - 1)
            close(word * 64 + __builtin_ctzll(bits));
    }
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

int pd_socket_made(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (fd < 0) return fd; /* errno tells why */
    pthread_once(&once, watch_forks);
    if (fd < MOST) atomic_fetch_or(&ours[fd / 64], (uint64_t)1 << (fd % 64));
    return fd;
}

void pd_socket_close(int fd)
{
    /* First: once it is closed, the number may be another thread's. */
    if (fd >= 0 && fd < MOST) atomic_fetch_and(&ours[fd / 64], ~((uint64_t)1 << (fd % 64)));
    close(fd);
}
