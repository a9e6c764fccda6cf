/* What listener.c (sockets, limits) and greet.c (the server's half of the handshake) share. */
#ifndef PD_NET_LISTENER_INSIDE_H
#define PD_NET_LISTENER_INSIDE_H

#include "net/conn_inside.h"

enum { PD_GOODBYE_MS = 1000 }; /* for a refusal to arrive */

/* What it has to say next. */
enum pd_guest_turn { PD_GUEST_SAYS_HELLO, PD_GUEST_SAYS_PROOF, PD_GUEST_SAYS_SWITCH };

/* A client that shakes hands. */
struct pd_guest {
    struct pd_handshake base;
    struct pd_listener *listener; /* NULL after the move */
    struct pd_guest *prev, *next;
    struct pd_conn *conn;
    uint64_t since;
    enum pd_guest_turn turn;
    int refused;
    int surplus, files; /* one too many for the files that the process may open */
    struct pd_hello_message hello;
    /* What is needed after the move. */
    struct pd_welcome_message welcome;
    enum pd_transport_choice choice;
    int same_host, socket, most_shm_fd;
    size_t ring;
    struct pd_loop *target;
    const struct pd_conn_events *events;
    void *user;
    void (*accepted)(void *user, struct pd_conn *conn);
    struct pd_shm_offer *offer;
};

struct pd_listener {
    struct pd_loop *loop;
    struct pd_member member;
    const struct pd_listener_events *events;
    void *arg;
    char job[64];
    const uint8_t *secret;
    int secret_n;
    const struct pd_tls_settings *tls; /* NULL: without */
    enum pd_transport_choice choice;
    size_t ring;
    char boot[40];

    int n_sockets, open_handles;
    struct socket {
        int fd;
        uv_poll_t watch;
        struct pd_listener *listener;
    } * sockets;
    int resting; /* accepts nobody for the moment */

    struct pd_guest *oldest, *newest; /* in the handshake */
    int n_guests, most_guests;
    int files;       /* that the process may open */
    int most_fd;     /* clients whose socket has this number or a higher one are refused: what is left is for
                        files */
    int most_shm_fd; /* and these use TCP: shared memory takes four files, and others must fit too */
    int n_surplus, most_surplus; /* guests that are only here to be told so */
    struct pd_timer *sweep;

    uint64_t quiet_until; /* warnings about clients are few */
    int unsaid;
    uint64_t refused; /* clients that were not accepted */
};

/* A client takes its place in the list for as long as it shakes hands; one too many (`surplus`) is refused
 * with the reason when it has said hello. Takes the socket, also on failure. */
pd_status pd_guest_new(struct pd_listener *listener, int socket, const char *peer, int surplus);
/* The oldest guest: out with it. */
void pd_guest_late(struct pd_guest *guest);
/* The listener is gone. */
void pd_guest_drop(struct pd_guest *guest);
/* There are `most` guests, and somebody new comes. */
void pd_guest_make_room(struct pd_guest *guest, int most);

/* In listener.c: a warning about a client, unless there were many. */
void pd_listener_warn(struct pd_listener *listener, const char *peer, const char *text);

#endif
