/* The sink of the process and the messages kept for it; see log.h. */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/std_files.h"

/* With the head that pd_log_to_stderr adds, a line stays below PIPE_BUF: a pipe takes it in one piece. */
enum { LONGEST = 3840, MOST_KEPT = 32, UNKNOWN = PD_LOG_DEBUG + 1 };

/* Until the flags have been read everything looks wanted, and pd_log_write asks them. */
int pd_log_limit = UNKNOWN;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows; held while the sink runs */
static struct {
    pd_log_sink sink;
    void *arg;
    struct {
        enum pd_log_level level;
        char *text;
    } kept[MOST_KEPT];
    int n, dropped;
} now;

static __thread int inside; /* this thread runs the sink: what it says itself is dropped */

/* A child process must not find the lock held by a thread that it does not have. */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    if (!inside) pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    if (!inside) pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

static void give(enum pd_log_level level, const char *text)
{
    inside = 1;
    now.sink(now.arg, level, text);
    inside = 0;
}

static void keep(enum pd_log_level level, const char *text)
{
    char *copy = now.n < MOST_KEPT ? pd_strdup(text) : NULL;
    if (!copy) {
        now.dropped++;
        return;
    }
    now.kept[now.n].level = level;
    now.kept[now.n++].text = copy;
}

void pd_log_write(enum pd_log_level level, const char *format, ...)
{
    if (inside) return;
    if (__atomic_load_n(&pd_log_limit, __ATOMIC_RELAXED) == UNKNOWN) pd_flag_text(PD_FLAG_log_level);
    if (!pd_log_wants(level)) return;
    char text[LONGEST];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length >= LONGEST) memcpy(text + LONGEST - 4, "...", 4);
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    if (now.sink)
        give(level, text);
    else
        keep(level, text);
    pthread_mutex_unlock(&lock);
}

void pd_log_set(pd_log_sink sink, void *arg)
{
    char text[96];
    if (sink == pd_log_to_stderr) pd_std_files_take();
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    now.sink = sink;
    now.arg = arg;
    if (sink) {
        for (int i = 0; i < now.n; i++) {
            give(now.kept[i].level, now.kept[i].text);
            pd_free(now.kept[i].text);
        }
        if (now.dropped) {
            snprintf(text, sizeof text, "%d more messages were dropped before there was a place for them",
                     now.dropped);
            give(PD_LOG_WARNING, text);
        }
        now.n = now.dropped = 0;
    }
    pthread_mutex_unlock(&lock);
}

void pd_log_to_stderr(void *arg, enum pd_log_level level, const char *text)
{
    (void)arg;
    char line[LONGEST + 64];
    struct tm at;
    time_t seconds = time(NULL);
    localtime_r(&seconds, &at);
    int n = snprintf(line, sizeof line, "%02d:%02d:%02d paddle: %s: %s\n", at.tm_hour, at.tm_min, at.tm_sec,
                     pd_log_level_name(level), text);
    if (n >= (int)sizeof line) n = sizeof line - 1;
    line[n - 1] = '\n';
    int saved = errno;
    /* The rest after a partial write; a closed standard error is nobody's error here. */
    for (ssize_t done = 0, wrote; done < n; done += wrote) {
        wrote = write(STDERR_FILENO, line + done, (size_t)(n - done));
        if (wrote < 0 && errno == EINTR) wrote = 0;
        if (wrote < 0) break;
    }
    errno = saved;
}

static const char *const names[] = {
#define NAME(name, value, text) [value] = text,
    PD_LOG_MAP(NAME)
#undef NAME
};
enum { LEVELS = sizeof names / sizeof *names };

const char *pd_log_level_name(enum pd_log_level level)
{
    return (unsigned)level < LEVELS ? names[level] : "message";
}

int pd_log_find_level(const char *name)
{
    for (int i = 0; i < LEVELS; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

void pd_log_set_limit(enum pd_log_level level)
{
    __atomic_store_n(&pd_log_limit, (int)level, __ATOMIC_RELAXED);
}
