/* For LD_PRELOAD: a disk that is stuck. While the file named by STUCK_DISK is there, fsync, fdatasync, mkdir
 * and mkdirat do not return, as on a disk or a network folder that does not answer; with STUCK_BOOK=1 neither
 * does a write to a file `trainers`. SLOW_DISK: every pwrite takes so many ms. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void wait_for_it(void)
{
    const char *file = getenv("STUCK_DISK");
    while (file && access(file, F_OK) == 0)
        usleep(5000);
}

static int when_it_answers(const char *name, int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    wait_for_it();
    return real(fd);
}

int fsync(int fd)
{
    return when_it_answers("fsync", fd);
}

int fdatasync(int fd)
{
    return when_it_answers("fdatasync", fd);
}

int mkdir(const char *path, mode_t mode)
{
    int (*real)(const char *, mode_t) = (int (*)(const char *, mode_t))dlsym(RTLD_NEXT, "mkdir");
    wait_for_it();
    return real(path, mode);
}

int mkdirat(int fd, const char *path, mode_t mode)
{
    int (*real)(int, const char *, mode_t) = (int (*)(int, const char *, mode_t))dlsym(RTLD_NEXT, "mkdirat");
    wait_for_it();
    return real(fd, path, mode);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    ssize_t (*real)(int, const void *, size_t) =
        (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = getenv("STUCK_BOOK") ? readlink(link, path, sizeof path) : 0;
    if (length > 9 && memcmp(path + length - 9, "/trainers", 9) == 0) wait_for_it();
    return real(fd, bytes, n);
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at)
{
    ssize_t (*real)(int, const void *, size_t, off64_t) =
        (ssize_t(*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
    const char *slow = getenv("SLOW_DISK");
    if (slow) usleep((useconds_t)atoi(slow) * 1000);
    return real(fd, bytes, n, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    return pwrite64(fd, bytes, n, at);
}
