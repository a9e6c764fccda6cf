/* The job that this process takes part in, and the servers of others. */
#include "api/api.h"
#include "base/flags.h"

#if PD_WITH_DISTRIBUTE
#include "api/op_list.h"
#include "net/hello.h"
#include "pserver/client/bring.h"
#include "pserver/client/client.h"
#include "pserver/client/communicator.h"
#include "pserver/server/empty.h"
#include "pserver/server/server.h"
#include "pserver/server/status.h"

void pd_leave_job_polling(int failed, const char *why, int (*poll)(void *arg), void *arg)
{
    pd_client_goodbye(failed, why, -1, poll, arg);
}

enum { BUSY_MS = 1000 };

void pd_leave_job_at_exit(int failed, const char *why, int (*poll)(void *arg), void *arg)
{
    pd_client_goodbye(failed, why, BUSY_MS, poll, arg);
}

void pd_leave_job_prepare(void)
{
    pd_secret_prepare();
}

int pd_job_id(void)
{
    return pd_client_own_id();
}

pd_status pd_communicator_start(const pd_communicator *how)
{
    if (how->mode != PD_COMMUNICATOR_QUEUE && how->mode != PD_COMMUNICATOR_ROUNDS)
        return pd_fail(PD_INVALID, "a communicator has no mode %d", how->mode);
    PD_TRY(pd_flag_verify());
    return pd_comm_start(&(struct pd_comm_settings){
        .mode = how->mode == PD_COMMUNICATOR_QUEUE ? PD_COMM_QUEUE : PD_COMM_ROUNDS,
        .queue = how->queue,
        .merge = how->merge,
        .wait_ms = how->wait_ms,
        .averages = how->averages,
        .pulls_every = how->pulls_every});
}

pd_status pd_communicator_stop(int (*poll)(void *arg), void *arg)
{
    return pd_comm_stop(poll, arg);
}

int pd_communicator_runs(void)
{
    return pd_comm_is_running();
}

pd_status pd_communicator_flush(int (*poll)(void *arg), void *arg)
{
    return pd_comm_flush(poll, arg);
}

void pd_job_trains_on(void)
{
    pd_client_own_trains_on();
}

uint64_t pd_job_steps(const char *endpoint)
{
    return pd_client_own_steps(endpoint);
}

uint64_t pd_job_key(const char *endpoint)
{
    return pd_client_own_job(endpoint);
}

uint64_t pd_job_passed(const char *endpoint)
{
    return pd_client_own_passed(endpoint);
}

/* A run of no Program, for calls of a client. */
struct meeting_run {
    struct pd_step step; /* the first: its poll is asked with it */
    int (*poll)(void *arg);
    void *arg;
};

static pd_status poll_meeting(const struct pd_run *run)
{
    const struct meeting_run *m = (const void *)run->step;
    return m->poll && m->poll(m->arg) ? pd_fail(PD_INTERRUPTED, "interrupted") : PD_OK;
}

static pd_status meet(const pd_meeting *meeting, struct pd_gather *what, int (*poll)(void *arg), void *arg)
{
    struct meeting_run m = {.step = {.poll = poll_meeting}, .poll = poll, .arg = arg};
    struct pd_run run = {.step = &m.step};
    struct pd_client *client;
    PD_TRY(pd_flag_verify());
    what->n_servers = meeting->n_servers;
    what->servers = meeting->servers;
    what->trainer = meeting->trainer;
    what->trainers = meeting->trainers;
    what->name = meeting->name;
    PD_TRY(pd_client_get(meeting->trainer, &run, 0, &client));
    pd_status status = pd_client_gather(client, &run, what);
    if (status == PD_OK) pd_client_rest(client, &run);
    return pd_client_run_over(&m.step, status);
}

pd_status pd_job_barrier(const pd_meeting *meeting, int (*poll)(void *arg), void *arg)
{
    struct pd_gather what = {0};
    PD_TRY(pd_comm_flush(poll, arg));
    return meet(meeting, &what, poll, arg);
}

pd_status pd_job_gather(const pd_meeting *meeting, const void *bytes, size_t n, pd_bytes *out,
                        int (*poll)(void *arg), void *arg)
{
    struct pd_buf all = {0};
    struct pd_gather what = {.bytes = bytes, .n = n, .out = &all};
    pd_status status = meet(meeting, &what, poll, arg);
    if (status == PD_OK) return pd_api_bytes(&all, out);
    pd_buf_free(&all);
    return status;
}

pd_status pd_serve(const char *endpoint, int (*poll)(void *arg), void *arg)
{
    PD_TRY(pd_flag_verify());
    return pd_serve_empty(&pd_ops, endpoint, poll, arg);
}

int pd_serve_port(const char *endpoint)
{
    return pd_server_port_at(endpoint);
}

pd_status pd_serve_bring(const char *endpoint, const pd_program *startup, const pd_program *serve,
                         int (*poll)(void *arg), void *arg)
{
    PD_TRY(pd_flag_verify());
    return pd_bring(endpoint, startup, serve, poll, arg);
}

pd_status pd_ps_status(const char *endpoint, int as_json, pd_bytes *out)
{
    struct pd_buf text = {0};
    PD_TRY(pd_flag_verify());
    pd_status status = pd_status_fetch(endpoint, as_json, &text);
    if (status == PD_OK) return pd_api_bytes(&text, out);
    pd_buf_free(&text);
    return status;
}
#else
void pd_leave_job_polling(int failed, const char *why, int (*poll)(void *arg), void *arg)
{
    (void)failed, (void)why, (void)poll, (void)arg;
}

void pd_leave_job_at_exit(int failed, const char *why, int (*poll)(void *arg), void *arg)
{
    (void)failed, (void)why, (void)poll, (void)arg;
}

void pd_leave_job_prepare(void) {}

int pd_job_id(void)
{
    return -1;
}

pd_status pd_communicator_start(const pd_communicator *how)
{
    (void)how;
    return pd_fail(PD_UNSUPPORTED, "this build has no communicator (WITH_DISTRIBUTE=OFF)");
}

pd_status pd_communicator_stop(int (*poll)(void *arg), void *arg)
{
    (void)poll, (void)arg;
    return PD_OK;
}

int pd_communicator_runs(void)
{
    return 0;
}

pd_status pd_communicator_flush(int (*poll)(void *arg), void *arg)
{
    (void)poll, (void)arg;
    return PD_OK;
}

void pd_job_trains_on(void) {}

uint64_t pd_job_steps(const char *endpoint)
{
    (void)endpoint;
    return 0;
}

uint64_t pd_job_key(const char *endpoint)
{
    (void)endpoint;
    return 0;
}

uint64_t pd_job_passed(const char *endpoint)
{
    (void)endpoint;
    return 0;
}

pd_status pd_job_barrier(const pd_meeting *meeting, int (*poll)(void *arg), void *arg)
{
    (void)meeting, (void)poll, (void)arg;
    return pd_fail(PD_UNSUPPORTED, "trainers cannot meet: this build has no network (WITH_DISTRIBUTE=OFF)");
}

pd_status pd_job_gather(const pd_meeting *meeting, const void *bytes, size_t n, pd_bytes *out,
                        int (*poll)(void *arg), void *arg)
{
    (void)bytes, (void)n, (void)out;
    return pd_job_barrier(meeting, poll, arg);
}

static pd_status no_network(const char *endpoint)
{
    return pd_fail(PD_UNSUPPORTED, "%s cannot be reached: this build has no network (WITH_DISTRIBUTE=OFF)",
                   endpoint);
}

pd_status pd_serve(const char *endpoint, int (*poll)(void *arg), void *arg)
{
    (void)poll, (void)arg;
    return no_network(endpoint);
}

int pd_serve_port(const char *endpoint)
{
    (void)endpoint;
    return 0;
}

pd_status pd_serve_bring(const char *endpoint, const pd_program *startup, const pd_program *serve,
                         int (*poll)(void *arg), void *arg)
{
    (void)startup, (void)serve, (void)poll, (void)arg;
    return no_network(endpoint);
}

pd_status pd_ps_status(const char *endpoint, int as_json, pd_bytes *out)
{
    (void)as_json, (void)out;
    return no_network(endpoint);
}
#endif

void pd_leave_job(int failed, const char *why)
{
    pd_leave_job_polling(failed, why, NULL, NULL);
}
