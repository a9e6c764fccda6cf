/* The functions of libmicrohttpd that we call, looked up at run time: it brings GnuTLS and what that stands
 * on along, which only a process that answers HTTP shall load. Only http*.c include this. */
#ifndef PD_NET_HTTP_LIB_H
#define PD_NET_HTTP_LIB_H

#include <microhttpd.h>
#include <paddle/status.h>

#define PD_HTTP_FUNCTIONS(X)                                                                                 \
    X(start_daemon)                                                                                          \
    X(stop_daemon)                                                                                           \
    X(quiesce_daemon)                                                                                        \
    X(suspend_connection)                                                                                    \
    X(resume_connection)                                                                                     \
    X(create_response_from_buffer)                                                                           \
    X(add_response_header)                                                                                   \
    X(queue_response)                                                                                        \
    X(destroy_response)                                                                                      \
    X(lookup_connection_value)

struct pd_http_lib {
#define PD_HTTP_FIELD(name) __typeof__(&MHD_##name) name;
    PD_HTTP_FUNCTIONS(PD_HTTP_FIELD)
#undef PD_HTTP_FIELD
};

/* An error says what to install. */
pd_status pd_http_lib(const struct pd_http_lib **out);

#endif
