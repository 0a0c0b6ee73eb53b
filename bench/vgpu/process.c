/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: finding the process in which the library runs this process's provider. It is not a child of this process. */
#include "common.h"

#include <dirent.h>
#include <unistd.h>

/* The last argument of the provider's process, and of its supervisor, is this process's number. */
bool provider_is_ours(const char *pid)
{
    char path[PATH_ROOM], words[4096], ours[16];

    snprintf(path, sizeof path, "/proc/%.16s/cmdline", pid);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(words, 1, sizeof words, file) : 0;
    if (file)
        fclose(file);
    size_t size = (size_t)snprintf(ours, sizeof ours, "%d", (int)getpid()) + 1;
    return length > size && strncmp(words, "facet-provider-host", length) == 0 &&
           memcmp(words + length - size, ours, size) == 0;
}

/* Finds the provider's process: of the two processes that are ours, the one whose parent is the other one, the
 * supervisor. */
void provider_find(char *ret_pid, size_t size)
{
    DIR *processes = opendir("/proc");
    const struct dirent *entry;
    char parent[16], path[PATH_ROOM];

    while (processes && (entry = readdir(processes))) {
        snprintf(path, sizeof path, "/proc/%.16s/stat", entry->d_name);
        FILE *file = provider_is_ours(entry->d_name) ? fopen(path, "re") : NULL;
        bool read = file && fscanf(file, "%*d (%*[^)]) %*c %15s", parent) == 1;
        if (file)
            fclose(file);
        if (!read || !provider_is_ours(parent))
            continue;
        snprintf(ret_pid, size, "%.16s", entry->d_name);
        closedir(processes);
        return;
    }
    die("provider", "has no process");
}
