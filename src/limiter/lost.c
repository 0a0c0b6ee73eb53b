/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: finding processes whose vGPU's folder was removed while they lived: they hold memory that no file shows.
 * Never: believes a path alone where it can read the mapped file.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "limiter/owner_inside.h"

struct search {
    char policy[FACET_DEVICE_PATH_SIZE]; /* how the kernel shows the removed file in this mount namespace */
    const char *vgpu_id;
    bool retire;
};

/* Reads the file that a process has mapped at `range`, and retires it if that is asked. Needs the rights of root. */
static bool is_policy_of(const struct search *search, int32_t pid, const char *range)
{
    char path[96];
    void *address;
    size_t size;

    snprintf(path, sizeof path, "/proc/%d/map_files/%s", pid, range);
    FACET_CLEANUP_FD int fd = open(path, (search->retire ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    size = sizeof(struct facet_policy);
    address = mmap(NULL, size, PROT_READ | (search->retire ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    if (address == MAP_FAILED)
        return false;
    struct facet_policy *policy = address;
    bool is_same =
        policy->magic == FACET_POLICY_MAGIC && strncmp(policy->vgpu_id, search->vgpu_id, sizeof policy->vgpu_id) == 0;
    if (is_same && search->retire)
        facet_owner_retire(&(struct facet_owner){.policy = policy});
    munmap(address, size);
    return is_same;
}

/* One line of /proc/<pid>/maps: "7f0c8a400000-7f0c8a401000 r--s 00000000 00:1b 1234   /run/.../policy (deleted)". */
static bool is_mapping_of(const struct search *search, int32_t pid, char *line)
{
    char *path = strchr(line, '/'), *range_end = strchr(line, ' ');

    if (!path || !range_end || !strstr(path, "policy"))
        return false;
    path[strcspn(path, "\n")] = '\0';
    *range_end = '\0';
    return is_policy_of(search, pid, line) || (!search->retire && strcmp(path, search->policy) == 0);
}

static bool process_has_it(const struct search *search, int32_t pid)
{
    FACET_CLEANUP_FREE char *line = NULL;
    char path[32];
    size_t size = 0;
    bool found = false;

    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FACET_CLEANUP_FILE FILE *maps = fopen(path, "re");
    while (maps && !found && getline(&line, &size, maps) > 0)
        found = is_mapping_of(search, pid, line);
    return found;
}

bool facet_segment_find_lost(const char *dir, const char *vgpu_id, bool retire,
                             struct facet_process_identity *ret_process)
{
    struct search search = {.vgpu_id = vgpu_id, .retire = retire};
    FACET_CLEANUP_DIR DIR *folder = opendir("/proc");
    bool found = false;

    if (snprintf(search.policy, sizeof search.policy, "%s/policy (deleted)", dir) >= (int)sizeof search.policy)
        search.policy[0] = '\0';
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry && (retire || !found); entry = readdir(folder)) {
        int32_t pid = isdigit((unsigned char)entry->d_name[0]) ? (int32_t)strtol(entry->d_name, NULL, 10) : 0;

        if (pid > 0 && process_has_it(&search, pid))
            found = facet_process_identify(pid, ret_process) || found;
    }
    return found;
}

bool facet_process_lives(const struct facet_process_identity *process)
{
    struct facet_process_identity now;

    return facet_process_identify((int32_t)process->pid, &now) && now.start_ticks == process->start_ticks;
}
