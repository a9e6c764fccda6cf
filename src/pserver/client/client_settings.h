/* What a trainer's flags say: read once, when its client is made. */
#ifndef PD_PSERVER_CLIENT_SETTINGS_H
#define PD_PSERVER_CLIENT_SETTINGS_H

#include "net/hello.h"

struct pd_client_settings {
    char job[sizeof((struct pd_hello *)0)->job];
    int deadline_ms, notice_ms;
    int silence_ms;       /* after which a connection counts as stalled; 0: never */
    int retry_times;      /* how often a connection may break under one wait; -1: any */
    int accepts_rollback; /* servers may have less than they acknowledged */
};

struct pd_client_settings pd_client_settings_read(void);

#endif
