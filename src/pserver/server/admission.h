/* Who may call itself a server, and how many may ask questions, before they are let in.
 *
 * Without a secret anybody who reaches the port can say what it likes of itself. So a server of the job must
 * come from the host of its endpoint, and nobody stands for a server that is there; tools are few, and idle
 * ones are hung up on. With a secret the host does not matter: who got here has proved to be of the job. */
#ifndef PD_PSERVER_ADMISSION_H
#define PD_PSERVER_ADMISSION_H

#include <paddle/status.h>

struct pd_admission;
struct pd_hello;
struct pd_loop;

/* `names`: the endpoints of all servers. Names of hosts are looked up on the loop when somebody comes. */
pd_status pd_admission_new(struct pd_loop *loop, int n, const char *const *names, int is_closed,
                           struct pd_admission **out);
/* On the loop's thread: does a process at `peer` ("1.2.3.4:5678") come from the host of server hello->id? */
pd_status pd_admission_check(struct pd_admission *admission, const struct pd_hello *hello, const char *peer);
/* Before the loop goes. */
void pd_admission_free(struct pd_admission *admission);

#endif
