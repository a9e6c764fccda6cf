/* See crew.h. */
#include "cli/psbench/crew.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/psbench/process.h"
#include "cli/psbench/why.h"

void pd_psbench_trouble(struct pd_psbench_shared *shared, const char *who)
{
    if (atomic_exchange(&shared->has_trouble, 1)) return;
    snprintf(shared->trouble, sizeof shared->trouble, "%s: %s", who, pd_psbench_why());
}

static void set_environment(const struct pd_psbench_case *c)
{
    if (strcmp(c->transport, "auto") != 0) setenv("PADDLE_PS_TRANSPORT", c->transport, 1);
    if (!getenv("FLAGS_log_level") && !getenv("GLOG_v")) (void)pd_flag_set("log_level", "warning");
}

static pd_status start(const struct pd_psbench_case *c, struct pd_psbench_crew *crew)
{
    int n = c->options->connections;
    crew->pids = calloc((size_t)n + 1, sizeof *crew->pids);
    crew->shared_bytes = sizeof *crew->shared + (size_t)(n * PD_PSBENCH_OPS) * sizeof *crew->shared->times;
    if (!crew->pids) return pd_psbench_no_memory();
    void *memory = mmap(NULL, crew->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return pd_psbench_no_memory();
    crew->shared = memory;
    for (int i = 0; i <= n; i++) {
        pid_t pid = pd_psbench_fork();
        if (pid < 0) return pd_psbench_fail(PD_IO, "a process cannot be started: %s", strerror(errno));
        if (pid == 0) {
            set_environment(c);
            pd_psbench_pin(c->options, i);
            _exit(i == 0 ? pd_psbench_serve(c, crew->shared)
                         : pd_psbench_train(c, crew->shared, i - 1, crew->pids[0]));
        }
        crew->pids[crew->n++] = pid;
    }
    return PD_OK;
}

/* The next that ends, by its number; only our own: this process may have other children. */
static int wait_for_one(struct pd_psbench_crew *crew, pid_t *pid, int *how)
{
    for (;; usleep(2000))
        for (int i = 0; i < crew->n; i++) {
            if (!crew->pids[i]) continue;
            pid_t done = waitpid(crew->pids[i], how, WNOHANG);
            if (done == 0 || (done < 0 && errno == EINTR)) continue;
            *pid = crew->pids[i];
            crew->pids[i] = 0;
            return done > 0;
        }
}

static pd_status wait_for_all(struct pd_psbench_crew *crew)
{
    for (int left = crew->n; left; left--) {
        int how;
        pid_t pid;
        if (!wait_for_one(crew, &pid, &how) || (WIFEXITED(how) && WEXITSTATUS(how) == 0)) continue;
        if (crew->shared->has_trouble) return pd_psbench_fail(PD_UNAVAILABLE, "%s", crew->shared->trouble);
        if (WIFSIGNALED(how))
            return pd_psbench_fail(PD_UNAVAILABLE,
                                   "process %d of the measurement was ended by signal %d (%s)", (int)pid,
                                   WTERMSIG(how), strsignal(WTERMSIG(how)));
        return pd_psbench_fail(PD_UNAVAILABLE, "process %d of the measurement ended with status %d", (int)pid,
                               WEXITSTATUS(how));
    }
    return PD_OK;
}

pd_status pd_psbench_crew_work(const struct pd_psbench_case *c, struct pd_psbench_crew *crew)
{
    PD_PSBENCH_TRY(start(c, crew));
    return wait_for_all(crew);
}

void pd_psbench_crew_dismiss(struct pd_psbench_crew *crew)
{
    for (int i = 0; i < crew->n; i++)
        if (crew->pids[i]) {
            kill(crew->pids[i], SIGKILL);
            while (waitpid(crew->pids[i], NULL, 0) < 0 && errno == EINTR)
                continue;
        }
    if (crew->shared) munmap(crew->shared, crew->shared_bytes);
    free(crew->pids);
}
