/* CRC-32C (Castagnoli): the checksum of files that must survive a crash. It is a function of the bytes alone,
 * never of how they were cut: pd_crc32c(pd_crc32c(0, a), b) is that of a followed by b. Uses no memory and no
 * lock, so it may run in a forked child. */
#ifndef PD_BASE_CRC32C_H
#define PD_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* `crc` is 0 at the start, else the result so far. */
uint32_t pd_crc32c(uint32_t crc, const void *bytes, size_t n);

#endif
