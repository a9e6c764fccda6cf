/* Files of one value that several servers hold, each a part of it: which save each of them is of.
 *
 * The format of a value has no room for that, and readers of it stop at its end: so it stands behind it, in
 * the file's last bytes. magic "CPDLPART", u32 part, u32 parts, u64 save; little-endian. */
#ifndef PD_PSERVER_SAVE_PART_H
#define PD_PSERVER_SAVE_PART_H

#include <stdint.h>

#include "pserver/store/value_file.h"

struct pd_part {
    uint32_t index, count;
    uint64_t save; /* numbers of one process of the first server rise; those of others are unlike them */
};

/* Before the first number that a process gives out. */
uint64_t pd_part_first_save(uint64_t random);

/* Writes a part that will be `name`, which ends in _<index>, into an open folder, beside what has that name;
 * `path` is for messages. */
pd_status pd_part_write(int folder, const char *name, struct pd_file_body body, const struct pd_part *part,
                        const char *path);
/* All parts of the save are written: this one gets its name. One of a later save that has it already stays:
 * another trainer saves at the same time, and its parts take the place of all of these. Then what earlier
 * saves, or other processes, left of this part is removed, and of parts past the count (of more servers)
 * those that are this server's share. Files without such an end are left alone. Doing it twice is fine. */
pd_status pd_part_place(int folder, const char *name, const struct pd_part *part, const char *path);

#endif
