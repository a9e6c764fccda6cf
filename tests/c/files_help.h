/* Folders for tests of server files: made fresh below the system's folder for temporary files, removed with
 * all in it. */
#ifndef FILES_HELP_H
#define FILES_HELP_H

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

#define assert_ok(call)                                                                                      \
    do {                                                                                                     \
        pd_status assert_status = (call);                                                                    \
        if (assert_status != PD_OK) fail_msg("%s: %s", #call, pd_error());                                   \
    } while (0)
#define assert_error(call, code, words)                                                                      \
    do {                                                                                                     \
        assert_int_equal(call, code);                                                                        \
        if (!strstr(pd_error(), words)) fail_msg("'%s' does not say '%s'", pd_error(), words);               \
    } while (0)

struct bytes {
    char *at;
    size_t n;
};

static inline char *make_folder(void)
{
    const char *base = getenv("TMPDIR");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/pd-test-XXXXXX", base && *base ? base : P_tmpdir);
    assert_non_null(mkdtemp(path));
    return strdup(path);
}

static inline int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(path);
}

static inline void empty_folder(const char *folder)
{
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    mkdir(folder, 0777);
}

static inline void drop_folder(char *folder)
{
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(folder);
}

static inline const char *path_in(const char *folder, const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static inline struct bytes read_whole(const char *folder, const char *name)
{
    struct bytes b = {0};
    FILE *file = fopen(path_in(folder, name), "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    b.n = (size_t)ftell(file);
    rewind(file);
    b.at = malloc(b.n + 1);
    assert_int_equal(fread(b.at, 1, b.n, file), b.n);
    b.at[b.n] = 0;
    fclose(file);
    return b;
}

static inline void write_whole(const char *folder, const char *name, const void *bytes, size_t n)
{
    /* A new file: some file systems write one that was cut short to the disk at once. */
    unlink(path_in(folder, name));
    int fd = open(path_in(folder, name), O_WRONLY | O_CREAT | O_EXCL, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

/* Files may not grow past this size: the nearest thing to a full disk that needs no rights. */
static inline void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static inline void unlimit_files(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
}

#endif
