/* See holder.h. /proc/net/tcp names the inode of the listening socket; one of the links in /proc/PID/fd
 * points to it, unless the process belongs to somebody else. */
#include "net/holder.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The inode of the socket that listens on the port; 0: not found. */
static unsigned long listening_inode(const char *table, int port)
{
    char line[512];
    unsigned long inode = 0;
    FILE *file = fopen(table, "re");
    if (!file) return 0;
    while (!inode && fgets(line, sizeof line, file)) {
        unsigned local = 0, state = 0;
        unsigned long found = 0;
        if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %*u %*d %lu",
                   &local, &state, &found) == 3 &&
            state == 0x0A && (int)local == port)
            inode = found;
    }
    fclose(file);
    return inode;
}

static int holds(int pid, const char *link)
{
    char path[300], target[64];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *folder = opendir(path);
    if (!folder) return 0;
    int found = 0;
    for (struct dirent *entry; !found && (entry = readdir(folder));) {
        ssize_t n = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        if (n <= 0) continue;
        target[n] = 0;
        found = strcmp(target, link) == 0;
    }
    closedir(folder);
    return found;
}

/* The command line, its words parted by spaces and cut to a readable length. */
static void command_of(int pid, char *out, size_t cap)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = file >= 0 ? read(file, out, cap - 1) : 0;
    if (file >= 0) close(file);
    if (n < 0) n = 0;
    while (n && !out[n - 1])
        n--;
    for (ssize_t i = 0; i < n; i++)
        if (iscntrl((unsigned char)out[i])) out[i] = ' ';
    out[n] = 0;
}

const char *pd_port_holder(int port, char *out, size_t cap)
{
    char link[64], command[128];
    out[0] = 0;
    unsigned long inode = listening_inode("/proc/net/tcp", port);
    if (!inode) inode = listening_inode("/proc/net/tcp6", port);
    DIR *processes = inode ? opendir("/proc") : NULL;
    if (!processes) return out;
    snprintf(link, sizeof link, "socket:[%lu]", inode);
    for (struct dirent *entry; (entry = readdir(processes));) {
        int pid = atoi(entry->d_name);
        if (pid <= 0 || !holds(pid, link)) continue;
        command_of(pid, command, sizeof command);
        snprintf(out, cap, " (held by process %d%s%s)", pid, command[0] ? ", " : "", command);
        break;
    }
    closedir(processes);
    return out;
}
