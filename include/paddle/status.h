/* Status codes and the export macro: the one public header that every folder may include.
 *
 * A fallible function returns a pd_status; 0 is success. The function that first decides an error stores a
 * message for the calling thread (pd_error); callers pass the code on unchanged. */
#ifndef PADDLE_STATUS_H
#define PADDLE_STATUS_H

#if defined(__GNUC__)
#define PD_API __attribute__((visibility("default")))
#else
#define PD_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One table gives the codes, their names and their short texts. */
#define PD_STATUS_MAP(X)                                                                                     \
    X(OK, 0, "no error")                                                                                     \
    X(NO_MEMORY, 1, "out of memory")                                                                         \
    X(INVALID, 2, "invalid argument")                                                                        \
    X(TYPE, 3, "wrong data type")                                                                            \
    X(SHAPE, 4, "wrong shape")                                                                               \
    X(RANGE, 5, "out of range")                                                                              \
    X(NOT_FOUND, 6, "not found")                                                                             \
    X(EXISTS, 7, "already exists")                                                                           \
    X(UNSUPPORTED, 8, "not supported")                                                                       \
    X(IO, 9, "input/output error")                                                                           \
    X(FORMAT, 10, "malformed data")                                                                          \
    X(INTERRUPTED, 11, "interrupted")                                                                        \
    X(GONE, 12, "object was removed")                                                                        \
    X(NOT_FINITE, 13, "a value is not finite")                                                               \
    X(END_OF_DATA, 14, "no more data")                                                                       \
    X(INTERNAL, 15, "internal error")                                                                        \
    X(UNAVAILABLE, 16, "another process does not answer")                                                    \
    X(JOB_OVER, 17, "the job is over")

typedef enum pd_status {
#define PD_STATUS_ENUM(name, value, text) PD_##name = value,
    PD_STATUS_MAP(PD_STATUS_ENUM)
#undef PD_STATUS_ENUM
} pd_status;

/* The code's name, e.g. "PD_SHAPE"; never NULL. */
PD_API const char *pd_status_name(pd_status status);
/* The code's short text, e.g. "wrong shape"; never NULL. */
PD_API const char *pd_status_text(pd_status status);
/* The message of this thread's last error; valid until its next failing call. Never NULL. */
PD_API const char *pd_error(void);

#ifdef __cplusplus
}
#endif
#endif
