/* Lines of the format MultiSlot: for each slot a count, then so many numbers, all apart by spaces or tabs.
 * What stands behind the last slot is not looked at. */
#ifndef PD_DATA_MULTISLOT_H
#define PD_DATA_MULTISLOT_H

#include "base/buf.h"
#include "data/schema.h"

/* Reads the line at `text`; `end` is behind the '\n' of this or a later line, and PD_NUMBERS_PAST bytes
 * behind it may be read. Appends the sample to `out` and sets *next to the line behind. A line that cannot be
 * read appends nothing: *why says what is wrong with it, in a text of this thread. A line of nothing but
 * spaces is none: nothing is appended, and *why is NULL. Only memory can fail. */
pd_status pd_multislot_read(const struct pd_schema *schema, const char *text, const char *end,
                            struct pd_buf *out, const char **next, const char **why);

#endif
