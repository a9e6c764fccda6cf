/* The numbers 0, 1 and 2 of a process that was started without standard input, output or error (cron jobs,
 * daemons, `2>&-`).
 *
 * The next files that it opens get these numbers: messages for standard error would go into a socket or a
 * parameter file, and libuv aborts when one of its own is closed. */
#ifndef PD_BASE_STD_FILES_H
#define PD_BASE_STD_FILES_H

/* Takes those of 0 to 2 that are free. To all who read and write, and to programs that the process starts,
 * they stay closed. */
void pd_std_files_take(void);

#endif
