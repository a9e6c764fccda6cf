/* See command.h. */
#include "data/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

enum {
    SAID = 2000,
    PIPE_BYTES = 1 << 20,
    LOOK_MS = 100,
    LEFT_MS = 10000, /* how long what a command has left running may be silent */
    FD_LEAST = 10,   /* of what the shell gets: above the numbers that they get there */
    UNKNOWN = -1,    /* how it ended */
};

extern char **environ;

/* What the first shell does. It has the status pipe as 3, and as 4 a socket that says nothing and is at its
 * end when the group is to end, or when this process is gone. A watcher looks at that while the command runs,
 * and the shell itself afterwards: so the group keeps its number until it is told, and the watcher has a
 * parent that waits for it; nobody may be there to hear the status. What shells say of killed processes is
 * not the command's. Of a pipeline whose end has enough (`zcat | head`), those before it end by SIGPIPE: that
 * is no failure. */
static const char script[] = "(read -r x; kill -9 0) <&4 >/dev/null 2>&1 3>&- 4<&- &\n"
                             "exec 5>&2 2>/dev/null\n"
                             "if command -v bash >&2; then\n"
                             "  bash -o pipefail -c \"$1\" 2>&5 3>&- 4<&- 5>&-\n"
                             "  x=$?\n"
                             "  case \"$x $1\" in '141 '*'|'*) x=0 ;; esac\n"
                             "else\n"
                             "  sh -c \"$1\" 2>&5 3>&- 4<&- 5>&-\n"
                             "  x=$?\n"
                             "fi\n"
                             "trap '' PIPE\n"
                             "kill -9 $!\n"
                             "wait $!\n"
                             "echo $x >&3\n"
                             "exec >&- 3>&- 5>&-\n"
                             "read -r x <&4\n"
                             "kill -9 0\n";

struct pd_command {
    const char *text, *path;
    int brings; /* the file, and nothing goes through it */
    const int *stop;
    int out, err, status, life; /* -1: at its end */
    pid_t pid;                  /* 0: none */
    char ended[8];              /* what came through the status pipe */
    size_t n_ended;
    char said[SAID + 1]; /* the end of what the command said */
    size_t n_said;
    int64_t heard_ns; /* when it ended, or output came last */
};

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Moves a descriptor for the shell out of the way of the numbers that it gets there. */
static int move_up(int *fd)
{
    int moved = fcntl(*fd, F_DUPFD_CLOEXEC, FD_LEAST);
    if (moved < 0) return 0;
    close(*fd);
    *fd = moved;
    return 1;
}

/* Pipes for output, standard error and status, and the socket: our ends in *c, the shell's in `theirs`. */
static int open_ends(struct pd_command *c, int *theirs)
{
    int *mine[4] = {&c->out, &c->err, &c->status, &c->life};
    for (int i = 0; i < 4; i++) {
        int both[2], failed = i < 3 ? pipe2(both, O_CLOEXEC)
                                    : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both);
        if (failed) return 0;
        *mine[i] = both[0];
        theirs[i] = both[1];
        if (!move_up(&theirs[i])) return 0;
    }
    (void)fcntl(c->out, F_SETPIPE_SZ, PIPE_BYTES); /* fewer turns; the system may refuse it */
    return 1;
}

static int spawn(struct pd_command *c, int file, const int *theirs)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, usual;
    char *const words[] = {(char *)"sh", (char *)"-c", (char *)script, (char *)"sh", (char *)c->text, NULL};
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, file, 0);
    for (int i = 0; i < 4; i++)
        posix_spawn_file_actions_adddup2(&actions, theirs[i], 1 + i);
    posix_spawnattr_init(&attr);
    /* A group of its own, so that all of a pipeline can be ended; and no signal ignored, which Python does to
     * SIGPIPE. */
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigdefault(&attr, &usual);
    posix_spawnattr_setsigmask(&attr, &none);
    int failed = posix_spawn(&c->pid, "/bin/sh", &actions, &attr, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    if (failed) c->pid = 0;
    return failed;
}

pd_status pd_command_start(const char *text, const char *path, int file, const int *stop,
                           struct pd_command **out)
{
    int theirs[4] = {-1, -1, -1, -1}, input = -1, failed = 0;
    struct pd_command *c = pd_calloc(1, sizeof *c);
    if (!c) return pd_no_memory();
    *c = (struct pd_command){.text = text,
                             .path = path,
                             .brings = file < 0,
                             .stop = stop,
                             .out = -1,
                             .err = -1,
                             .status = -1,
                             .life = -1};
    input = file < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : fcntl(file, F_DUPFD_CLOEXEC, FD_LEAST);
    if (input < 0 || !open_ends(c, theirs))
        failed = errno;
    else
        failed = spawn(c, input, theirs);
    for (int i = 0; i < 4; i++)
        close_fd(&theirs[i]);
    close_fd(&input);
    if (failed) {
        pd_command_end(c);
        return pd_fail(PD_IO, "the pipe command '%s' cannot be started: %s", text, strerror(failed));
    }
    *out = c;
    return PD_OK;
}

/* Passes on what a command says, and keeps the end of it. */
static void hear(struct pd_command *c)
{
    char text[4096];
    ssize_t n = read(c->err, text, sizeof text);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) {
        close_fd(&c->err);
        return;
    }
    (void)!write(STDERR_FILENO, text, (size_t)n);
    size_t keep = (size_t)n < SAID ? (size_t)n : SAID,
           old = c->n_said < SAID - keep ? c->n_said : SAID - keep;
    memmove(c->said, c->said + c->n_said - old, old);
    memcpy(c->said + old, text + (size_t)n - keep, keep);
    c->n_said = old + keep;
    c->said[c->n_said] = 0;
}

static void hear_status(struct pd_command *c)
{
    ssize_t n = read(c->status, c->ended + c->n_ended, sizeof c->ended - 1 - c->n_ended);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0)
        close_fd(&c->status);
    else
        c->n_ended += (size_t)n;
    c->heard_ns = pd_clock_ns();
}

/* The status of a shell; 128 and more are signals. */
static int status_of(const struct pd_command *c)
{
    return c->n_ended && c->ended[c->n_ended - 1] == '\n' ? atoi(c->ended) : UNKNOWN;
}

/* It has ended. What it has left running may go on to write to standard error; that is not waited for. */
static pd_status judge(struct pd_command *c)
{
    int status = status_of(c);
    struct pollfd err = {.events = POLLIN};
    for (int turn = 0; turn < PIPE_BYTES / 4096 && (err.fd = c->err) >= 0 && poll(&err, 1, 0) > 0; turn++)
        hear(c);
    if (status == 0) return PD_OK;
    char how[96];
    if (status == UNKNOWN)
        snprintf(how, sizeof how, "was killed with its shell, so that nobody can tell whether it failed,");
    else if (status > 128 && status <= 128 + 64)
        snprintf(how, sizeof how, "was ended by signal %d (status %d)", status - 128, status);
    else
        snprintf(how, sizeof how, "ended with status %d", status);
    while (c->n_said && (c->said[c->n_said - 1] == '\n' || c->said[c->n_said - 1] == ' '))
        c->said[--c->n_said] = 0;
    if (c->brings)
        return pd_fail(PD_IO, "data file '%s' could not be read: the command that brings it %s%s%s", c->path,
                       how, c->n_said ? "; it said: " : ", without a word on its standard error", c->said);
    return pd_fail(PD_IO, "the pipe command '%s' %s while it read '%s'%s%s", c->text, how, c->path,
                   c->n_said ? "; it said: " : ", without a word on its standard error", c->said);
}

/* It has ended well, and something that it has left holds its output: what will come of that? */
static pd_status look_at_silence(const struct pd_command *c)
{
    if (c->status >= 0 || pd_clock_ns() - c->heard_ns < (int64_t)LEFT_MS * 1000000) return PD_OK;
    return pd_fail(
        PD_IO,
        "the pipe command '%s' is over for '%s', but something that it has left running holds its "
        "output and has written nothing for %d seconds: is that all? Have the command wait for it, "
        "or give it another output (>/dev/null)",
        c->text, c->path, LEFT_MS / 1000);
}

pd_status pd_command_read(struct pd_command *command, char *to, size_t room, size_t *n)
{
    struct pd_command *c = command;
    while (c->status >= 0 || (c->out >= 0 && status_of(c) == 0)) {
        struct pollfd all[3] = {{.fd = c->out, .events = POLLIN},
                                {.fd = c->err, .events = POLLIN},
                                {.fd = c->status, .events = POLLIN}};
        if (__atomic_load_n(c->stop, __ATOMIC_RELAXED)) return pd_fail(PD_INTERRUPTED, "reading was ended");
        if (poll(all, 3, LOOK_MS) < 0) {
            if (errno == EINTR) continue;
            return pd_fail(PD_IO, "cannot wait for the pipe command '%s': %s", c->text, strerror(errno));
        }
        if (all[1].revents) hear(c);
        if (all[2].revents) hear_status(c);
        if (!all[0].revents) {
            PD_TRY(look_at_silence(c));
            continue;
        }
        ssize_t got = read(c->out, to, room);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return pd_fail(PD_IO, "cannot read from the pipe command '%s': %s", c->text, strerror(errno));
        if (got > 0) {
            c->heard_ns = pd_clock_ns();
            *n = (size_t)got;
            return PD_OK;
        }
        close_fd(&c->out);
    }
    *n = 0;
    return judge(c);
}

void pd_command_end(struct pd_command *command)
{
    if (!command) return;
    close_fd(&command->out);
    close_fd(&command->err);
    close_fd(&command->status);
    /* Also when a process that was forked from this one has the socket too. */
    if (command->life >= 0) shutdown(command->life, SHUT_RDWR);
    close_fd(&command->life);
    /* While the shell is there the group has its number. One that was killed, and waited for by another, has
     * left the watcher, which has read the end of the socket. */
    if (command->pid && waitpid(command->pid, NULL, WNOHANG) == 0) {
        kill(-command->pid, SIGKILL);
        while (waitpid(command->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    pd_free(command);
}
