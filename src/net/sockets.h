/* The sockets of this process, so that a forked child lets go of them.
 *
 * Users' readers fork. A child that holds its parent's sockets keeps them open when the parent is killed: the
 * other side would wait for a process that is gone, and the port of a server would stay taken. */
#ifndef PD_NET_SOCKETS_H
#define PD_NET_SOCKETS_H

int pd_socket_made(int fd);   /* by socket() or accept(); returns it. Negative: nothing is done */
void pd_socket_close(int fd); /* instead of close() */

#endif
