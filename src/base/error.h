/* The calling thread's error message. The first function to decide an error calls pd_fail; callers pass the
 * code on. */
#ifndef PD_BASE_ERROR_H
#define PD_BASE_ERROR_H

#include <paddle/status.h>

/* Stores the message and returns `status`, so that `return pd_fail(...)` reads well. */
pd_status pd_fail(pd_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends to the stored message: where the error happened (an op and its variables, a file). */
void pd_error_add(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Puts a text in front of the stored message: the likely reason, where it is not what failed. */
void pd_error_lead(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What ends a sentence that is this text, when another one follows: ".", or "" where it has its own end. */
const char *pd_full_stop(const char *text);
pd_status pd_no_memory(void);
/* An op that stands for several says which of them failed, so that messages name that one. pd_fail sets it
 * back to 0. */
enum { PD_ERROR_ELSEWHERE = -1 }; /* none of them: the error is about a server, which says all that helps */
void pd_error_set_part(int part);
int pd_error_part(void);

/* To the end of the block: what fails meanwhile leaves the stored message as it was. For what ends things,
 * and runs what others have left to do: its caller may be on the way out with an error. */
struct pd_kept_error {
    char text[4096];
    int part;
};
void pd_error_keep(struct pd_kept_error *kept);
void pd_error_restore(struct pd_kept_error *kept);
#define PD_KEEP_ERROR                                                                                        \
    __attribute__((cleanup(pd_error_restore))) struct pd_kept_error kept_error;                              \
    pd_error_keep(&kept_error)

/* Passes an error on. */
#define PD_TRY(call)                                                                                         \
    do {                                                                                                     \
        pd_status pd_try_status = (call);                                                                    \
        if (__builtin_expect(pd_try_status != PD_OK, 0)) return pd_try_status;                               \
    } while (0)

#endif
