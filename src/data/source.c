/* See source.h. */
#include "data/source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

enum { SAID = 2000, PIPE_BYTES = 1 << 20, LOOK_MS = 100 };

extern char **environ;

struct pd_source {
    char *path, *command; /* command NULL: the file itself */
    const int *stop;
    int file, out, err; /* -1: none, or at its end */
    pid_t pid;          /* 0: none */
    int64_t size, done;
    char said[SAID + 1]; /* the end of what the command said */
    size_t n_said;
};

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static pd_status start_command(struct pd_source *s)
{
    int out[2], err[2] = {-1, -1}, failed = 0;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, usual;
    char *const words[] = {(char *)"sh", (char *)"-c", s->command, NULL};
    if (pipe2(out, O_CLOEXEC) != 0)
        return pd_fail(PD_IO, "no pipe for the command '%s': %s", s->command, strerror(errno));
    if (pipe2(err, O_CLOEXEC) != 0) {
        int why = errno;
        close(out[0]);
        close(out[1]);
        return pd_fail(PD_IO, "no pipe for the command '%s': %s", s->command, strerror(why));
    }
    (void)fcntl(out[0], F_SETPIPE_SZ, PIPE_BYTES); /* fewer turns; the system may refuse it */
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, s->file, 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    posix_spawnattr_init(&attr);
    /* A group of its own, so that all of a pipeline can be ended; and no signal ignored, which Python does to
     * SIGPIPE. */
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigdefault(&attr, &usual);
    posix_spawnattr_setsigmask(&attr, &none);
    failed = posix_spawn(&s->pid, "/bin/sh", &actions, &attr, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    close(out[1]);
    close(err[1]);
    s->out = out[0];
    s->err = err[0];
    if (!failed) return PD_OK;
    s->pid = 0;
    return pd_fail(PD_IO, "the command '%s' cannot be started: %s", s->command, strerror(failed));
}

pd_status pd_source_open(const char *path, const char *command, const int *stop, struct pd_source **out)
{
    struct stat about;
    pd_status status = PD_OK;
    struct pd_source *s = pd_calloc(1, sizeof *s);
    if (!s) return pd_no_memory();
    s->file = s->out = s->err = -1;
    s->stop = stop;
    int is_plain = !command || !*command || strcmp(command, "cat") == 0;
    s->path = pd_strdup(path);
    s->command = is_plain ? NULL : pd_strdup(command);
    if (!s->path || (!is_plain && !s->command))
        status = pd_no_memory();
    else if ((s->file = open(path, O_RDONLY | O_CLOEXEC)) < 0 || fstat(s->file, &about) != 0)
        status = pd_fail(errno == ENOENT ? PD_NOT_FOUND : PD_IO, "data file '%s' cannot be opened: %s", path,
                         strerror(errno));
    else if (S_ISDIR(about.st_mode))
        status = pd_fail(PD_INVALID, "data file '%s' is a folder; list its files", path);
    if (status == PD_OK) {
        s->size = S_ISREG(about.st_mode) ? about.st_size : 0;
        (void)posix_fadvise(s->file, 0, 0, POSIX_FADV_SEQUENTIAL);
        if (s->command) status = start_command(s);
    }
    if (status != PD_OK) {
        pd_source_close(s);
        return status;
    }
    *out = s;
    return PD_OK;
}

/* Passes on what a command says, and keeps the end of it. */
static void hear(struct pd_source *s)
{
    char text[4096];
    ssize_t n = read(s->err, text, sizeof text);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) {
        close_fd(&s->err);
        return;
    }
    (void)!write(STDERR_FILENO, text, (size_t)n);
    size_t keep = (size_t)n < SAID ? (size_t)n : SAID,
           old = s->n_said < SAID - keep ? s->n_said : SAID - keep;
    memmove(s->said, s->said + s->n_said - old, old);
    memcpy(s->said + old, text + (size_t)n - keep, keep);
    s->n_said = old + keep;
    s->said[s->n_said] = 0;
}

/* The command has closed its output: how did it end? */
static pd_status reap(struct pd_source *s)
{
    int status = 0;
    while (s->err >= 0)
        hear(s);
    while (s->pid && waitpid(s->pid, &status, 0) < 0 && errno == EINTR)
        ;
    s->pid = 0;
    s->done = s->size;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return PD_OK;
    char how[64];
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "was ended by signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof how, "ended with status %d", WEXITSTATUS(status));
    while (s->n_said && (s->said[s->n_said - 1] == '\n' || s->said[s->n_said - 1] == ' '))
        s->said[--s->n_said] = 0;
    return pd_fail(PD_IO, "the pipe command '%s' %s while it read '%s'%s%s", s->command, how, s->path,
                   s->n_said ? "; it said: " : ", without a word on its standard error", s->said);
}

static pd_status read_command(struct pd_source *s, char *to, size_t room, size_t *n)
{
    while (s->out >= 0) {
        struct pollfd both[2] = {{.fd = s->out, .events = POLLIN}, {.fd = s->err, .events = POLLIN}};
        if (__atomic_load_n(s->stop, __ATOMIC_RELAXED)) return pd_fail(PD_INTERRUPTED, "reading was ended");
        if (poll(both, 2, LOOK_MS) < 0) {
            if (errno == EINTR) continue;
            return pd_fail(PD_IO, "cannot wait for the pipe command '%s': %s", s->command, strerror(errno));
        }
        if (s->err >= 0 && both[1].revents) hear(s);
        if (!both[0].revents) continue;
        ssize_t got = read(s->out, to, room);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return pd_fail(PD_IO, "cannot read from the pipe command '%s': %s", s->command, strerror(errno));
        if (got > 0) {
            off_t at = lseek(s->file, 0, SEEK_CUR); /* it shares our place in the file */
            if (at > 0) s->done = at;
            *n = (size_t)got;
            return PD_OK;
        }
        close_fd(&s->out);
    }
    *n = 0;
    return s->pid ? reap(s) : PD_OK;
}

pd_status pd_source_read(struct pd_source *source, char *to, size_t room, size_t *n)
{
    if (source->command) return read_command(source, to, room, n);
    for (;;) {
        ssize_t got = read(source->file, to, room);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return pd_fail(PD_IO, "data file '%s' cannot be read: %s", source->path, strerror(errno));
        source->done += got;
        *n = (size_t)got;
        return PD_OK;
    }
}

int64_t pd_source_size(const struct pd_source *source)
{
    return source->size;
}

int64_t pd_source_done(const struct pd_source *source)
{
    return source->done;
}

void pd_source_close(struct pd_source *source)
{
    if (!source) return;
    close_fd(&source->out);
    close_fd(&source->err);
    close_fd(&source->file);
    if (source->pid) {
        kill(-source->pid, SIGKILL);
        while (waitpid(source->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    pd_free(source->command);
    pd_free(source->path);
    pd_free(source);
}
