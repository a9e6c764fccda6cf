/* See holder.h. /proc/net/tcp names the inode of a socket at the port; one of the links in /proc/PID/fd
 * points to it, unless the process belongs to somebody else. The port of a connection is as taken as that of
 * a listener, unless both sockets have SO_REUSEADDR: while the connection lives, and in TIME_WAIT, when no
 * process has it any more. */
#include "net/holder.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOTHING, ENDED, OPEN, LISTENS }; /* the last one counts most */

struct trace {
    int kind;
    unsigned long inode; /* 0: of no process */
};

static void look(const char *table, int port, struct trace *best)
{
    char line[512];
    FILE *file = fopen(table, "re");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        unsigned local = 0, state = 0;
        unsigned long inode = 0;
        if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %*u %*d %lu",
                   &local, &state, &inode) != 3 ||
            (int)local != port)
            continue;
        int kind = state == 0x0A ? LISTENS : inode ? OPEN : ENDED;
        if (kind > best->kind) *best = (struct trace){kind, inode};
    }
    fclose(file);
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

/* Writes "process 123, python train.py"; 0: it is not to be seen. */
static int process_of(unsigned long inode, char *out, size_t cap)
{
    char link[64], command[128];
    DIR *processes = opendir("/proc");
    int found = 0;
    if (!processes) return 0;
    snprintf(link, sizeof link, "socket:[%lu]", inode);
    for (struct dirent *entry; !found && (entry = readdir(processes));) {
        int pid = atoi(entry->d_name);
        if (pid <= 0 || !holds(pid, link)) continue;
        command_of(pid, command, sizeof command);
        snprintf(out, cap, "process %d%s%s", pid, command[0] ? ", " : "", command);
        found = 1;
    }
    closedir(processes);
    return found;
}

/* The ports that the system gives to outgoing connections. */
static int is_for_connections(int port, int *first, int *last)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    int n = file ? fscanf(file, "%d %d", first, last) : 0;
    if (file) fclose(file);
    return n == 2 && *first <= port && port <= *last;
}

void pd_port_holder(int port, struct pd_holder *out)
{
    struct trace trace = {0};
    char process[200] = "", range[80] = "", below[40] = "another port";
    int first, last;
    look("/proc/net/tcp", port, &trace);
    look("/proc/net/tcp6", port, &trace);
    int is_seen = trace.inode && process_of(trace.inode, process, sizeof process);
    if (trace.kind != LISTENS && trace.kind != NOTHING && is_for_connections(port, &first, &last)) {
        snprintf(range, sizeof range, ": ports from %d to %d are for outgoing connections", first, last);
        snprintf(below, sizeof below, "a port below %d", first);
    }
    out->who[0] = 0;
    if (trace.kind == ENDED)
        snprintf(out->who, sizeof out->who, " by a connection that has ended (TIME_WAIT)%s", range);
    else if (trace.kind == OPEN)
        snprintf(out->who, sizeof out->who, " by an open connection%s%s%s", is_seen ? " of " : "", process,
                 range);
    else if (is_seen)
        snprintf(out->who, sizeof out->who, " (held by %s)", process);
    snprintf(out->advice, sizeof out->advice, "%s, or use %s",
             trace.kind == ENDED ? "Wait a minute" : "Stop that process", below);
}
