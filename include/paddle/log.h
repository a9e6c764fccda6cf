/* Messages of the library beside errors: a flag it could not use, a server that came back.
 *
 * The library prints nothing. It hands each message to the sink that the program set. Until there is one, the
 * first 32 messages are kept for it. The flag log_level ("error", "warning", "info" or "debug") says which
 * ones are made. */
#ifndef PADDLE_LOG_H
#define PADDLE_LOG_H

#include <paddle/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One table gives the levels and their names, the weightiest first. */
#define PD_LOG_MAP(X)                                                                                        \
    X(ERROR, 0, "error")                                                                                     \
    X(WARNING, 1, "warning")                                                                                 \
    X(INFO, 2, "info")                                                                                       \
    X(DEBUG, 3, "debug")

enum pd_log_level {
#define PD_LOG_ENUM(name, value, text) PD_LOG_##name = value,
    PD_LOG_MAP(PD_LOG_ENUM)
#undef PD_LOG_ENUM
};

/* Takes one message: plain text without a newline at its end, borrowed for the call. Called by whichever
 * thread has something to say, one call at a time. It should be short, and may call nothing of the library
 * but pd_log_level_name: locks are held. */
typedef void (*pd_log_sink)(void *arg, enum pd_log_level level, const char *text);

/* Sets the sink of the process and gives it what was kept. NULL: none, messages are kept again. When it
 * returns, the sink before is no longer called, so that its `arg` may go. */
PD_API void pd_log_set(pd_log_sink sink, void *arg);

/* A sink for programs with a terminal: "12:34:56 paddle: warning: ..." on standard error, one write for each
 * message, so that lines of several processes do not mix. `arg` is not used. Setting it takes the numbers of
 * standard files that are closed, so that no file that is opened later gets the messages. */
PD_API void pd_log_to_stderr(void *arg, enum pd_log_level level, const char *text);

/* The level's name, e.g. "warning"; never NULL. */
PD_API const char *pd_log_level_name(enum pd_log_level level);

#ifdef __cplusplus
}
#endif
#endif
