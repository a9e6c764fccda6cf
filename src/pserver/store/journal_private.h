/* The layout of a log file, for journal.c and journal_read.c only. Numbers are little-endian; all begins at a
 * multiple of 16 bytes. docs/SERVER_FILES.md tells the why of each field. */
#ifndef PD_PSERVER_JOURNAL_PRIVATE_H
#define PD_PSERVER_JOURNAL_PRIVATE_H

#include <limits.h>

#include "pserver/store/journal.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "log files are little-endian and are written straight from memory"
#endif

#define PD_LOG_MAGIC "PDLOG\r\n\032" /* eight bytes; a text-mode copy breaks them */
#define PD_LOG_RECORD 0x63655250u    /* "PRec" */
#define PD_LOG_NO_STEP UINT64_MAX

enum {
    PD_LOG_VERSION = 2,
    PD_LOG_ALIGN = 16,
    PD_LOG_NAME = 64,
    PD_LOG_MARKS = 2,    /* taken in turn: one is always whole */
    PD_LOG_SECTOR = 512, /* the head and each mark have one of their own: a disk writes it whole */
    PD_LOG_BEGIN = 1536, /* the first record */
};

struct pd_log_file { /* 96 bytes, at the start */
    char magic[8];
    uint32_t version;
    int32_t lane;
    uint64_t step;     /* as in the name */
    uint64_t id;       /* drawn anew for each file */
    uint64_t base;     /* of the snapshot `step`, which the records go on from */
    uint64_t old_step; /* of the file before it; PD_LOG_NO_STEP: there was none */
    uint64_t old_id;   /* its id */
    uint64_t old_size; /* and how long it is */
    uint64_t zero[3];
    uint32_t zero2;
    uint32_t crc; /* of what is before it */
};

/* How far the file is safe: written after each commit, in the sector behind that of the last one. */
struct pd_log_mark {
    uint64_t committed; /* all before this place */
    uint64_t next;      /* step of the file that goes on; PD_LOG_NO_STEP: none yet */
    uint32_t zero;
    uint32_t crc; /* of what is before it, begun with the crc of the file's head */
};

struct pd_log_head { /* 80 bytes, before the payload, which is followed by zeros up to a multiple of 16 */
    uint32_t magic;
    uint32_t crc; /* of what is behind it, begun with the crc of the file's head */
    uint64_t bytes;
    uint64_t at;   /* where this head lies in the file */
    uint64_t safe; /* all before this place had been committed when the record was made */
    uint64_t step, incarnation, rows;
    int32_t trainer;
    uint32_t unit, part;
    uint16_t kind, zero;
    uint32_t payload_crc, zero2;
};

_Static_assert(sizeof(struct pd_log_file) == 96 && sizeof(struct pd_log_mark) == 24 &&
                   sizeof(struct pd_log_head) == 80,
               "no padding");

static inline uint64_t pd_log_padding(uint64_t bytes)
{
    return (0 - bytes) % PD_LOG_ALIGN;
}

/* journal_read.c */

struct pd_log_scan {
    const char *folder;
    int lane;
    uint64_t step; /* of the file */
    /* For a replay, else NULL: what it goes on from, and the file read before this one, if any. */
    const struct pd_replay_from *from;
    const struct pd_log_scan *before;
    /* Set by the scan. */
    struct pd_log_file head;
    struct pd_log_mark mark;  /* the last one that is whole */
    uint64_t end, size;       /* end of the whole records; of the file */
    int is_torn, is_headless; /* headless: even the file's own head is torn */
    char why[160];
};

void pd_log_name(char name[PD_LOG_NAME], int lane, uint64_t step);
pd_status pd_log_path(char path[PATH_MAX], const char *folder, int lane, uint64_t step);
uint32_t pd_log_head_crc(const struct pd_log_file *file, const struct pd_log_head *head);
uint32_t pd_log_mark_crc(const struct pd_log_file *file, const struct pd_log_mark *mark);
/* Reads a file through; `fn` may be NULL. */
pd_status pd_log_scan(struct pd_log_scan *scan, pd_replay_fn fn, void *arg);
/* Only its head and marks. */
pd_status pd_log_look(struct pd_log_scan *scan);
/* After that: nothing was ever written there, its maker was killed. */
int pd_log_is_unused(const struct pd_log_scan *scan);
/* Steps of the lane's files, rising. */
pd_status pd_log_list(const char *folder, int lane, uint64_t **steps, int *n);

#endif
