/* Jobs of several processes in which some are killed: the servers agree on every step and on who takes part
 * in it (pserver/server/order.h). Servers and trainers are this program, started again with other arguments,
 * so each runs under the sanitizer it was built with, and what a sanitizer finds is an exit status that is
 * not 0. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "files_help.h"
#include "ps_job_help.h"

enum {
    SERVERS = 2,
    TRAINERS = 3,
    PARAMS = 6,
    STEPS = 90,
    ROOM = 15, /* steps that trainers may make while one is being killed */
    DEADLINE_S = 120,
};

/* Gradients, and by how much a step of all trainers and one of the first two lets the weights fall. All
 * numbers are exact in floats, so a weight tells how many steps of each kind there were. */
static const float grads[TRAINERS] = {6, 18, 60};
enum { FALL_OF_ALL = 14, FALL_OF_TWO = 6 };

/* Seen by all processes. */
struct board {
    struct ps_job job;
    char policy[16], folder[PATH_MAX];
    _Atomic int gate;            /* nobody goes on after this step yet */
    _Atomic int steps[TRAINERS]; /* the last one that the trainer has ended */
    int last[TRAINERS];          /* the steps that it counted: all, and those that all took part in */
    int counted[TRAINERS];
    float w[PARAMS]; /* what servers hold in the end */
};

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* ---- the processes ---- */

static void set_flags(const struct board *b)
{
    must(pd_flag_set("ps_on_trainer_loss", b->policy));
    must(pd_flag_set("ps_loops", "2"));
    must(pd_flag_set("ps_reconnect", "300"));
    must(pd_flag_set("rpc_deadline", "60000"));
    must(pd_flag_set("ps_dir", b->folder));
    must(pd_flag_set("ps_log", b->folder[0] ? "write" : ""));
    must(pd_flag_set("log_level", "warning"));
}

static int be_server(struct board *b, int index)
{
    pd_scope *scope;
    must(pd_scope_create(NULL, &scope));
    pd_status status = serve_job(&b->job, index, scope);
    if (status != PD_JOB_OVER) fail_msg("server %d: %s: %s", index, pd_status_name(status), pd_error());
    for (int i = index; i < PARAMS; i += SERVERS)
        b->w[i] = weight(scope, i, 0);
    pd_scope_release(scope);
    return 0;
}

/* How many of `steps` steps all trainers took part in, as parameter i tells. */
static int count_of(float w, int steps)
{
    float fallen = 1 - w - (float)(FALL_OF_TWO * steps);
    int n = (int)fallen / (FALL_OF_ALL - FALL_OF_TWO);
    if (fallen < 0 || (float)(n * (FALL_OF_ALL - FALL_OF_TWO)) != fallen)
        fail_msg("after %d steps a weight is %g: no number of steps gives that", steps, (double)w);
    return n;
}

/* The step of weights that all trainers took part in from the first one on. */
static int step_of(float w)
{
    int step = (int)(1 - w) / FALL_OF_ALL;
    if (1 - w != (float)(step * FALL_OF_ALL)) fail_msg("no number of steps gives weight %g", (double)w);
    return step;
}

/* Trains to the last step. After each all weights, on whatever server and loop, tell of the same steps. */
static int be_trainer(struct board *b, int id)
{
    pd_scope *scope;
    pd_executor *exe;
    pd_program *p = trainer_program(&b->job, id, grads[id]);
    int shrinks = strcmp(b->policy, "shrink") == 0;
    must(pd_scope_create(NULL, &scope));
    must(pd_executor_create(&exe));
    for (int step = 0, counted = 0; step < STEPS;) {
        while (step >= atomic_load(&b->gate))
            nap();
        must(pd_executor_run(exe, p, scope, 0, NULL, NULL, 0, NULL, NULL));
        step = shrinks ? step + 1 : step_of(weight(scope, 0, 0));
        int all = shrinks ? count_of(weight(scope, 0, 0), step) : step;
        for (int i = 0; i < PARAMS; i++)
            if (weight(scope, i, 0) != weight(scope, 0, 0) ||
                weight(scope, i, WIDTH - 1) != weight(scope, 0, 0))
                fail_msg("step %d: w0 is %g, w%d is %g", step, (double)weight(scope, 0, 0), i,
                         (double)weight(scope, i, 0));
        if (all != step && all > counted) fail_msg("step %d: a lost trainer counts again", step);
        counted = b->counted[id] = all;
        b->last[id] = step;
        atomic_store(&b->steps[id], step);
    }
    pd_leave_job(0, "");
    pd_executor_free(exe);
    pd_scope_release(scope);
    pd_program_free(p);
    return 0;
}

static int be_somebody(char **argv)
{
    int index = atoi(argv[2]);
    struct board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[3]), 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (b == MAP_FAILED) return 1;
    set_flags(b);
    return strcmp(argv[1], "server") == 0 ? be_server(b, index) : be_trainer(b, index);
}

/* ---- the one who starts them ---- */

struct play {
    struct board *board;
    int board_file;
    int64_t until;
    pid_t servers[SERVERS], trainers[TRAINERS]; /* 0: has ended */
};

static pid_t start(const struct play *p, const char *role, int index)
{
    char number[16], file[16];
    snprintf(number, sizeof number, "%d", index);
    snprintf(file, sizeof file, "%d", p->board_file);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    execl("/proc/self/exe", "test_pserver_order", role, number, file, (char *)NULL);
    _exit(127);
}

static void kill_all(struct play *p)
{
    for (int i = 0; i < SERVERS + TRAINERS; i++) {
        pid_t *pid = i < SERVERS ? &p->servers[i] : &p->trainers[i - SERVERS];
        if (*pid <= 0) continue;
        kill(*pid, SIGKILL);
        waitpid(*pid, NULL, 0);
        *pid = 0;
    }
}

static void give_up(struct play *p, const char *what)
{
    char steps[64] = "";
    for (int t = 0; t < TRAINERS; t++)
        snprintf(steps + strlen(steps), sizeof steps - strlen(steps), " %d",
                 atomic_load(&p->board->steps[t]));
    kill_all(p);
    fail_msg("%s; the trainers were in steps%s", what, steps);
}

static void look_again(struct play *p)
{
    if (pd_clock_ns() > p->until) give_up(p, "the job does not end");
    nap();
}

static void begin(struct play *p, const char *policy, const char *folder, int absent)
{
    p->board_file = memfd_create("board", 0);
    assert_true(p->board_file >= 0);
    assert_int_equal(ftruncate(p->board_file, sizeof *p->board), 0);
    p->board = mmap(NULL, sizeof *p->board, PROT_READ | PROT_WRITE, MAP_SHARED, p->board_file, 0);
    assert_true(p->board != MAP_FAILED);
    p->board->job =
        (struct ps_job){.n_servers = SERVERS, .trainers = TRAINERS, .params = PARAMS, .is_sync = 1};
    free_endpoints(&p->board->job);
    snprintf(p->board->policy, sizeof p->board->policy, "%s", policy);
    snprintf(p->board->folder, sizeof p->board->folder, "%s", folder);
    p->until = pd_clock_ns() + (int64_t)DEADLINE_S * 1000000000;
    for (int i = 0; i < SERVERS; i++)
        p->servers[i] = start(p, "server", i);
    for (int i = 0; i < TRAINERS; i++)
        if (i != absent) p->trainers[i] = start(p, "trainer", i);
}

static void wait_for_step(struct play *p, int trainer, int step)
{
    atomic_store(&p->board->gate, step + ROOM);
    while (atomic_load(&p->board->steps[trainer]) < step)
        look_again(p);
}

static void kill_one(struct play *p, pid_t *pid)
{
    int status;
    kill(*pid, SIGKILL);
    assert_int_equal(waitpid(*pid, &status, 0), *pid);
    *pid = 0;
    /* A sanitizer may have ended it before. */
    if (!WIFSIGNALED(status)) give_up(p, "a process that was to be killed had ended by itself");
}

static void finish(struct play *p)
{
    atomic_store(&p->board->gate, STEPS);
    for (int left = 1; left; look_again(p)) {
        left = 0;
        for (int i = 0; i < SERVERS + TRAINERS; i++) {
            pid_t *pid = i < SERVERS ? &p->servers[i] : &p->trainers[i - SERVERS];
            int status, has_ended = *pid > 0 && waitpid(*pid, &status, WNOHANG) == *pid;
            char text[80];
            left += *pid > 0 && !has_ended;
            if (!has_ended) continue;
            *pid = 0;
            if (status == 0) continue;
            snprintf(text, sizeof text, "%s %d ended with status %d, signal %d",
                     i < SERVERS ? "server" : "trainer", i < SERVERS ? i : i - SERVERS, WEXITSTATUS(status),
                     WIFSIGNALED(status) ? WTERMSIG(status) : 0);
            give_up(p, text);
        }
    }
}

static void end_play(struct play *p)
{
    munmap(p->board, sizeof *p->board);
    close(p->board_file);
}

/* Trainer 2 was killed: all servers with all their loops count it in the same steps, up to the one in which
 * it was, or the one before. */
static void check_one_lost(const struct play *p)
{
    int counted = count_of(p->board->w[0], STEPS);
    for (int i = 1; i < PARAMS; i++)
        assert_int_equal(count_of(p->board->w[i], STEPS), counted);
    assert_true(counted >= p->board->last[2] && counted <= p->board->last[2] + 1);
    for (int t = 0; t < 2; t++) {
        assert_int_equal(p->board->last[t], STEPS);
        assert_int_equal(p->board->counted[t], counted);
    }
}

/* The others go on without it. */
static void test_shrink(void **state)
{
    struct play p = {0};
    (void)state;
    begin(&p, "shrink", "", -1);
    wait_for_step(&p, 2, STEPS / 3);
    kill_one(&p, &p.trainers[2]);
    finish(&p);
    check_one_lost(&p);
    end_play(&p);
}

/* A server is killed with it, the first or the other one, and started again. */
static void test_killed_together(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        struct play p = {0};
        char *folder = make_folder();
        int which = round % SERVERS;
        begin(&p, "shrink", folder, -1);
        wait_for_step(&p, 2, STEPS / 3);
        kill(p.servers[which], SIGKILL);
        kill_one(&p, &p.trainers[2]);
        kill_one(&p, &p.servers[which]);
        p.servers[which] = start(&p, "server", which);
        finish(&p);
        check_one_lost(&p);
        end_play(&p);
        drop_folder(folder);
    }
}

static void check_all_counted(const struct play *p)
{
    for (int i = 0; i < PARAMS; i++)
        assert_int_equal(step_of(p->board->w[i]), STEPS);
}

/* Each time it is started again, at once, and takes up the step in which it was killed. */
static void test_wait(void **state)
{
    struct play p = {0};
    (void)state;
    begin(&p, "wait", "", -1);
    for (int round = 1; round <= 3; round++) {
        wait_for_step(&p, 2, round * STEPS / 5);
        kill_one(&p, &p.trainers[2]);
        p.trainers[2] = start(&p, "trainer", 2);
    }
    finish(&p);
    check_all_counted(&p);
    end_play(&p);
}

/* Killed while it connects, before any step: who comes next has its place, on all servers. */
static void test_killed_early(void **state)
{
    struct play p = {0};
    (void)state;
    begin(&p, "wait", "", 1);
    for (int round = 0; round < 6; round++) {
        nanosleep(&(struct timespec){.tv_nsec = (5 + 20 * round) * 1000000L}, NULL);
        kill_one(&p, &p.trainers[2]);
        p.trainers[2] = start(&p, "trainer", 2);
    }
    p.trainers[1] = start(&p, "trainer", 1);
    finish(&p);
    check_all_counted(&p);
    end_play(&p);
}

/* The order of steps outlives the first server, and the other one. */
static void test_servers_killed(void **state)
{
    struct play p = {0};
    char *folder = make_folder();
    (void)state;
    begin(&p, "wait", folder, -1);
    for (int round = 1; round <= 4; round++) {
        int which = round == 2;
        wait_for_step(&p, 0, round * STEPS / 6);
        kill_one(&p, &p.servers[which]);
        p.servers[which] = start(&p, "server", which);
    }
    finish(&p);
    check_all_counted(&p);
    end_play(&p);
    drop_folder(folder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shrink),          cmocka_unit_test(test_wait),
        cmocka_unit_test(test_killed_early),    cmocka_unit_test(test_servers_killed),
        cmocka_unit_test(test_killed_together),
    };
    return argc == 4 ? be_somebody(argv) : cmocka_run_group_tests(tests, NULL, NULL);
}
