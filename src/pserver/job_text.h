/* What a job trains, as lines "what: how" (the transpiler makes them): each trainer tells it to each server,
 * which compares it with its own. */
#ifndef PD_PSERVER_JOB_TEXT_H
#define PD_PSERVER_JOB_TEXT_H

#include <paddle/status.h>

#include "base/buf.h"

/* As PROGRAM carries them: u32 n, n texts. Past 1 MiB the rest becomes one line with its hash. */
void pd_job_text_pack(int n, const char *const *lines, struct pd_buf *out);
/* As text: those that do not begin with one of `but`, which ends with NULL; each behind `word`. */
void pd_job_text_put(const struct pd_buf *packed, const char *word, const char *const *but,
                     struct pd_buf *out);
/* PD_OK when both are the same, else an error that names the first difference. `theirs` comes from the other
 * side. */
pd_status pd_job_text_compare(const struct pd_buf *mine, const void *theirs, size_t theirs_n);

#endif
