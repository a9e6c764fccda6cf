/* For LD_PRELOAD: a disk that is stuck. While the file named by STUCK_DISK is there, fsync and fdatasync do
 * not return, as on a disk or a network folder that does not answer. */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static int when_it_answers(const char *name, int fd)
{
    const char *file = getenv("STUCK_DISK");
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    while (file && access(file, F_OK) == 0)
        usleep(5000);
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
