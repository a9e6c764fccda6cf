/* Messages for people beside errors, at a level, to the sink that the embedding program set (paddle/log.h).
 *
 *     pd_log(PD_LOG_WARNING, "%s does not answer; trying again in %d s", endpoint, wait);
 *
 * Any thread may call it. A message is one line without its newline; past some 3800 bytes it is cut. A call
 * whose level is off costs one read: its arguments are not evaluated. An error that a caller gets (pd_fail)
 * is not logged too. */
#ifndef PD_BASE_LOG_H
#define PD_BASE_LOG_H

#include <paddle/log.h>

#define pd_log(level, ...) (pd_log_wants(level) ? pd_log_write(level, __VA_ARGS__) : (void)0)

extern int pd_log_limit; /* the lightest level that is on; read it with pd_log_wants */

static inline int pd_log_wants(enum pd_log_level level)
{
    return (int)level <= __atomic_load_n(&pd_log_limit, __ATOMIC_RELAXED);
}

/* What pd_log calls. */
void pd_log_write(enum pd_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For the flag log_level: the level of that name, or -1; and its new value. */
int pd_log_find_level(const char *name);
void pd_log_set_limit(enum pd_log_level level);

#endif
