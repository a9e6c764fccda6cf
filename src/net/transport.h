/* A transport moves bytes of one connection; framing, queues and the handshake are above it (conn.c).
 *
 * One struct per transport: tcp.c, record.c and shm.c end with theirs. All calls are on the loop's thread and
 * never block. A pipe says by pd_pipe_ready that it can read or write; one that needs no system call to know
 * (shared memory) also lets the loop poll it (pd_poller in loop_inside.h). */
#ifndef PD_NET_TRANSPORT_H
#define PD_NET_TRANSPORT_H

#include <paddle/status.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct pd_conn;
struct pd_loop;

/* A transport's state for one connection starts with this. */
struct pd_pipe {
    const struct pd_transport *transport;
    struct pd_loop *loop;
    struct pd_conn *conn;
    struct pd_pipe *under; /* the pipe that this one is a layer over; NULL: it has the socket */
    int is_large;          /* what is read now belongs to a message that no cache holds */
    size_t placed; /* the first bytes of what is read into keep their place: the next read has the same, as
                    * long as none of them was told as read */
    int drains;    /* all that is read is thrown away */
};

enum { PD_RECORD_MOST = 128 << 10 }; /* bytes of a record (record.c) */

static inline size_t pd_parts_bytes(const struct iovec *parts, int n)
{
    size_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += parts[i].iov_len;
    return bytes;
}

struct pd_transport {
    const char *name;
    /* Writes as much as goes without blocking; *done is the number of bytes taken. Less than all: full, a
     * wish for `write` is answered when there is room. The memory may be changed after the call. Errors:
     * PD_IO with the message. */
    pd_status (*write)(struct pd_pipe *pipe, const struct iovec *parts, int n, size_t *done);
    /* Reads up to the parts' sizes; *done is less when no more is there now. *end is 1 when the other side
     * has closed and all was read. Errors: PD_IO, or PD_FORMAT when the other side breaks the transport's own
     * rules. */
    pd_status (*read)(struct pd_pipe *pipe, const struct iovec *parts, int n, size_t *done, int *end);
    /* The next n bytes where they lie, when all are there in one piece and aligned; NULL: read them. They are
     * good until give_back, which takes the first n of them; the other side may still change them. Both
     * optional. */
    const void *(*borrow)(struct pd_pipe *pipe, size_t n, size_t alignment);
    void (*give_back)(struct pd_pipe *pipe, size_t n);
    /* Bytes that have come and cannot be read yet: the rest of their record is on its way. Optional. */
    size_t (*arriving)(const struct pd_pipe *pipe);
    /* Says which events are wanted: pd_pipe_ready is then called when it can read, or can write. */
    void (*want)(struct pd_pipe *pipe, int read, int write);

    /* A layer's. `last_words`, optional: no more will be written. `free` leaves the pipe below as it is. */
    void (*last_words)(struct pd_pipe *pipe);
    void (*free)(struct pd_pipe *pipe);

    /* Those of the pipe that has the socket. Bytes that were written and that the other machine has not
     * acknowledged; optional: NULL means none. */
    size_t (*pending)(const struct pd_pipe *pipe);
    int (*socket)(const struct pd_pipe *pipe);
    /* No more will be written. 1: what was written may be lost by closing before the other side ended too. */
    int (*finish)(struct pd_pipe *pipe);
    /* Ends the pipe and frees it, but gives its socket to the caller. Optional: NULL means that this cannot
     * be done. */
    int (*detach)(struct pd_pipe *pipe);
    /* Ends the pipe and frees it. The socket is closed too. */
    void (*close)(struct pd_pipe *pipe);
};

/* In conn.c: the pipe can be read from, or written to, or has an error that the next read tells. */
void pd_pipe_ready(struct pd_conn *conn, int readable, int writable);
/* The pipe is of no more use, as pd_error() says. Inside a callback of the loop. */
void pd_pipe_broken(struct pd_conn *conn, pd_status why);

/* The pipe below all layers, which has the socket. */
static inline struct pd_pipe *pd_pipe_base(const struct pd_pipe *pipe)
{
    while (pipe->under)
        pipe = pipe->under;
    return (struct pd_pipe *)pipe;
}

/* A pipe over a connected (or connecting) non-blocking socket. Takes it, also on failure. */
pd_status pd_tcp_pipe(struct pd_loop *loop, struct pd_conn *conn, int socket, struct pd_pipe **out);
/* Why the socket's connect failed; 0: it did not. */
int pd_tcp_error(const struct pd_pipe *pipe);
int pd_tcp_socket(const struct pd_pipe *pipe);

/* A pipe of records over another one, which it takes on success. The keys have PD_SEAL_KEY bytes each; NULL:
 * checksums only. The first `plain` bytes that are written go out as they are. */
pd_status pd_record_pipe(struct pd_pipe *under, const uint8_t *key_in, const uint8_t *key_out, size_t plain,
                         struct pd_pipe **out);
/* A record's length as it travels, with its check. */
uint32_t pd_record_word(uint32_t length);
/* Bytes that were read from the pipe below before this one was made. Does nothing to other pipes. */
pd_status pd_record_feed(struct pd_pipe *pipe, const void *bytes, size_t n);

/* A pipe over two rings (shm_pass.h says where they come from). Takes the socket, which tells when the other
 * side is gone, and the parts, also on failure. */
struct pd_shm_parts;
pd_status pd_shm_pipe(struct pd_loop *loop, struct pd_conn *conn, int socket, struct pd_shm_parts *parts,
                      int is_server, struct pd_pipe **out);
/* Such pipes of this process, as a server. */
int pd_shm_pipe_count(void);

#endif
