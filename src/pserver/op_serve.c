/* listen_and_serv at work: reads the server's half of the Program out of the op's attributes and serves until
 * the job ends. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/flags.h"
#include "base/log.h"
#include "exec/frame.h"
#include "pserver/op_run.h"
#include "pserver/server/server.h"
#include "pserver/store/durable.h"

/* "w@GRAD.block0:3" */
static pd_status read_grad(const char *entry, struct pd_server_grad *out, char **name)
{
    const char *colon = strrchr(entry, ':');
    char *end;
    long block = colon ? strtol(colon + 1, &end, 10) : -1;
    if (!colon || colon == entry || end == colon + 1 || *end || block < 1)
        return pd_fail(PD_INVALID, "grad_to_block_id has '%s', expected 'gradient:block'", entry);
    *name = pd_strndup(entry, (size_t)(colon - entry));
    if (!*name) return pd_no_memory();
    *out = (struct pd_server_grad){*name, (int)block};
    return PD_OK;
}

/* The op that adds up what the trainers gave of a gradient reads it in their order: from variables that are
 * inputs of this op. NULL: the Program has none, and the server merges. */
static const struct pd_io *merged_from(const struct pd_run *r, const struct pd_program *program,
                                       const char *grad, int trainers)
{
    const struct pd_opdesc *self = ((const struct pd_frame_op *)r->frame)->plan->desc;
    for (int b = 0; b < program->blocks.n; b++)
        for (int i = 0; i < program->blocks.at[b]->ops.n; i++) {
            const struct pd_opdesc *op = program->blocks.at[b]->ops.at[i];
            const struct pd_io *x = pd_opdesc_slot(op, 0, "X");
            const char *out = pd_opdesc_arg(op, 1, "Out");
            if (strcmp(op->type, "sum") != 0 || !x || x->args.n != trainers || !out || strcmp(out, grad) != 0)
                continue;
            if (pd_opdesc_names(self, 0, x->args.at[0])) return x;
        }
    return NULL;
}

static pd_status find_parts(const struct pd_run *r, const struct pd_program *program, int trainers, int n,
                            struct pd_server_grad *grads, struct pd_map *parts)
{
    for (int i = 0; trainers > 1 && i < n; i++) {
        const struct pd_io *x = merged_from(r, program, grads[i].name, trainers);
        if (x) grads[i].parts = (const char *const *)x->args.at;
        for (int t = 0; x && t < trainers; t++)
            if (!pd_map_set(parts, x->args.at[t], (void *)grads[i].name)) return pd_no_memory();
    }
    return PD_OK;
}

/* SIGTERM asks the server to end; so does SIGINT where a shell that started the process in the background has
 * it ignored. Who has a handler of their own keeps it: Python's makes a KeyboardInterrupt of SIGINT. */
enum { N_SIGNALS = 2 };

static const struct {
    int number;
    void (*taken_from)(int); /* only from this one */
} taken[N_SIGNALS] = {{SIGTERM, SIG_DFL}, {SIGINT, SIG_IGN}};

struct signals {
    struct sigaction before[N_SIGNALS];
    int is_mine[N_SIGNALS];
};

static atomic_int asked_to_end; /* the signal may come to any thread */

static void on_term(int number)
{
    (void)number;
    asked_to_end = 1;
}

static int wants_end(void)
{
    return asked_to_end;
}

static void take_signals(struct signals *s)
{
    struct sigaction mine = {.sa_handler = on_term, .sa_flags = SA_ONSTACK};
    asked_to_end = 0;
    for (int i = 0; i < N_SIGNALS; i++) {
        sigaction(taken[i].number, NULL, &s->before[i]);
        s->is_mine[i] =
            s->before[i].sa_handler == taken[i].taken_from && sigaction(taken[i].number, &mine, NULL) == 0;
    }
}

static void give_back_signals(const struct signals *s)
{
    for (int i = 0; i < N_SIGNALS; i++)
        if (s->is_mine[i]) sigaction(taken[i].number, &s->before[i], NULL);
}

/* While a server serves, paddle.PID.port in the system's temporary folder holds its port. Old launchers and
 * tests wait for that file; with port 0 it is where they learn the port. It is a help, not a need. */
static void port_path(char path[64])
{
    snprintf(path, 64, P_tmpdir "/paddle.%d.port", (int)getpid());
}

/* Written aside and renamed: who sees the file can read it. */
static void write_port(int port)
{
    char path[64], aside[80], text[16];
    port_path(path);
    snprintf(aside, sizeof aside, "%s.part", path);
    int n = snprintf(text, sizeof text, "%d", port);
    remove(aside);
    int file = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    int is_written = file >= 0 && write(file, text, (size_t)n) == n;
    if (file >= 0) close(file);
    if (!is_written || rename(aside, path) != 0) pd_log(PD_LOG_DEBUG, "%s was not written", path);
}

static void remove_port(void)
{
    char path[64];
    port_path(path);
    remove(path);
}

static pd_status serve(const struct pd_run *r, const struct pd_server_config *config,
                       const struct pd_map *parts)
{
    struct pd_engine engine = pd_engine_of(((struct pd_frame_op *)r->frame)->frame, r);
    engine.is_checked = pd_flag_int(PD_FLAG_check_nan_inf);
    engine.parts = parts;
    struct pd_server *server;
    struct signals signals;
    take_signals(&signals);
    pd_status status = pd_server_start(&engine, config, &server);
    if (status == PD_OK) {
        write_port(pd_server_port(server));
        status = pd_server_wait(server);
        pd_server_free(server);
        remove_port();
        if (status == PD_OK) status = pd_fail(PD_JOB_OVER, "all trainers are done");
    }
    /* A job that is done ends the process, and well: who asks it to end now asks for what comes anyway. */
    if (status != PD_JOB_OVER) give_back_signals(&signals);
    return status;
}

pd_status pd_ps_listen_and_serv_run(const struct pd_run *r)
{
    const struct pd_attr *grads = pd_ps_attr(r, "grad_to_block_id"), *servers = pd_ps_attr(r, "endpoints"),
                         *slices = pd_ps_attr(r, "slices"), *lines = pd_ps_attr(r, "job"),
                         *hashed = pd_ps_attr(r, "hashed_tables");
    struct pd_durable_config durable;
    struct pd_server_config config = {
        .endpoint = pd_ps_attr(r, "endpoint")->s,
        .trainers = pd_ps_attr(r, "Fanin")->i,
        .is_sync = pd_ps_attr(r, "distributed_mode")->i == 0 && pd_ps_attr(r, "sync_mode")->b,
        .compensates = pd_ps_attr(r, "dc_asgd")->b,
        .servers = servers->n ? servers->n : 1,
        .lr_block = pd_ps_attr(r, "lr_decay_block_id")->i,
        .prepare_block = pd_ps_attr(r, "prepare_block_id")->i,
        .durable = &durable,
        .n_hashed = hashed->n,
        .hashed = hashed->strings,
        .n_lines = lines->n,
        .lines = lines->strings,
        .wants_end = wants_end,
    };
    PD_TRY(pd_server_config_read(&config, &durable));
    durable.n_servers = servers->n;
    durable.servers = servers->strings;
    durable.n_slices = slices->n;
    durable.slices = slices->strings;
    durable.placing = pd_ps_attr(r, "placing")->s;
    struct pd_server_grad *list = pd_calloc((size_t)grads->n, sizeof *list);
    char **names = pd_calloc((size_t)grads->n, sizeof *names);
    struct pd_map parts = {0};
    const struct pd_frame *frame = ((const struct pd_frame_op *)r->frame)->frame;
    pd_status status = list && names ? PD_OK : pd_no_memory();
    for (int i = 0; status == PD_OK && i < grads->n; i++)
        status = read_grad(grads->strings[i], &list[i], &names[i]);
    if (status == PD_OK)
        status = find_parts(r, frame->plan->program, config.trainers, grads->n, list, &parts);
    config.grads = list;
    config.n_grads = grads->n;
    if (status == PD_OK) status = serve(r, &config, &parts);
    pd_map_free(&parts);
    for (int i = 0; names && i < grads->n; i++)
        pd_free(names[i]);
    pd_free(names);
    pd_free(list);
    return status;
}
