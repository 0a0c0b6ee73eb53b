/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the usage files: making, mapping, reading and removing them.
 * Never: waits. A caller that reads the use or claims a place holds the state's lock; a caller that releases a place
 * need not hold it.
 *
 * A file is made with the first claim, mapped for the life of the instance, and locked while it is open. So the file of
 * a dead process is recognised by its missing lock, and the half-written file of a killed process is never read.
 */
#include "usage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "provider_kit.h"
#include "state.h"

#define FILE_MAGIC    UINT64_C(0x4553555441464d49)
#define FILE_VERSION  1
#define PLACES        1024 /* the most workers and partitions that one process may use */
#define PROCESSES_MAX 65536

struct usage_file {
    uint64_t magic;
    uint32_t version;
    int32_t pid;
    uint64_t pid_namespace;
    struct sim_usage places[PLACES];
};

struct sim_usages {
    int folder_fd;
    int fd; /* of our file, -1: not made yet */
    char prefix[48];
    char name[64];
    struct usage_file *file;
    struct sim_others others;
};

enum facet_status sim_usages_open(int folder_fd, const char *name, struct sim_usages **ret_usages,
                                  struct facet_error *error)
{
    struct sim_usages *usages = calloc(1, sizeof *usages);

    if (!usages)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for what is used");
    usages->folder_fd = folder_fd;
    usages->fd = -1;
    snprintf(usages->prefix, sizeof usages->prefix, "%.40s.use.", name);
    *ret_usages = usages;
    return FACET_OK;
}

static void remove_file(struct sim_usages *usages)
{
    if (usages->file)
        munmap(usages->file, sizeof *usages->file);
    usages->file = NULL;
    if (usages->fd >= 0) {
        unlinkat(usages->folder_fd, usages->name, 0); /* if this fails, the next transaction removes the file */
        close(usages->fd);
    }
    usages->fd = -1;
}

void sim_usages_close(struct sim_usages *usages)
{
    if (!usages)
        return;
    remove_file(usages);
    free(usages->others.items);
    free(usages);
}

/* Identifies the pid namespace. 0 when it is unknown. */
static uint64_t own_pid_namespace(void)
{
    struct stat about;

    return stat("/proc/self/ns/pid", &about) == 0 ? (uint64_t)about.st_ino : 0;
}

/* --- the file of this process --- */

/* Creates the file under the first free name. The transaction keeps other processes from choosing at the same time. */
static int make_name(struct sim_usages *usages)
{
    int fd = -1;

    for (unsigned i = 0; i < PROCESSES_MAX; i++) {
        snprintf(usages->name, sizeof usages->name, "%s%u", usages->prefix, i);
        fd = openat(usages->folder_fd, usages->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            break;
    }
    return fd;
}

/* Allocates the whole file at once: a write to a mapped file cannot report a full disk. */
static int map_file(struct sim_usages *usages)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (fcntl(usages->fd, F_OFD_SETLK, &whole) != 0)
        return errno;
    int errnum = posix_fallocate(usages->fd, 0, sizeof *usages->file);
    if (errnum != 0)
        return errnum;
    void *file = mmap(NULL, sizeof *usages->file, PROT_READ | PROT_WRITE, MAP_SHARED, usages->fd, 0);
    if (file == MAP_FAILED)
        return errno;
    usages->file = file;
    usages->file->magic = FILE_MAGIC;
    usages->file->version = FILE_VERSION;
    usages->file->pid = (int32_t)getpid();
    usages->file->pid_namespace = own_pid_namespace();
    return 0;
}

static enum facet_status make_file(struct sim_usages *usages, struct facet_error *error)
{
    int errnum;

    usages->fd = make_name(usages);
    errnum = usages->fd < 0 ? errno : map_file(usages);
    if (errnum == 0)
        return FACET_OK;
    remove_file(usages);
    return facet_kit_fail(error, FACET_IO, "cannot make %s in the state folder (FACET_SIM_STATE): %s", usages->name,
                          strerror(errnum));
}

enum facet_status sim_usage_claim(struct facet_provider_instance *instance, uint32_t device, const char *partition_uuid,
                                  const char *worker, struct sim_usage **ret_usage, struct facet_error *error)
{
    struct sim_usages *usages = sim_state_usages(instance->state);
    struct sim_usage *free_place = NULL;

    if (usages->folder_fd < 0)
        return FACET_OK;
    if (usages->fd < 0) {
        enum facet_status status = make_file(usages, error);

        if (status != FACET_OK)
            return status;
    }
    for (uint32_t i = 0; i < PLACES && !free_place; i++)
        if (!usages->file->places[i].is_claimed)
            free_place = &usages->file->places[i];
    if (!free_place)
        return facet_kit_fail(error, FACET_NO_SPACE,
                              "this process has contexts of %d workers and partitions; expected fewer", PLACES);
    free_place->device = instance->machine->devices[device].number;
    FACET_KIT_TEXT(free_place->worker, worker);
    FACET_KIT_TEXT(free_place->partition_uuid, partition_uuid);
    free_place->is_claimed = 1;
    *ret_usage = free_place;
    return FACET_OK;
}

void sim_usage_release(struct sim_usage *usage)
{
    usage->contexts = 0;
    usage->used_bytes = 0;
    usage->reserved_bytes = 0;
    usage->is_claimed = 0;
}

/* --- the files of other processes --- */

static enum facet_status add_other(struct sim_others *others, const struct sim_other *other, struct facet_error *error)
{
    struct sim_other *items = realloc(others->items, (others->count + 1) * sizeof *items);

    if (!items)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for what other processes use");
    others->items = items;
    items[others->count++] = *other;
    return FACET_OK;
}

static enum facet_status add_file(struct sim_others *others, const struct usage_file *file,
                                  const struct sim_machine *machine, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < PLACES && status == FACET_OK; i++) {
        const struct sim_usage *usage = &file->places[i];

        if (!usage->is_claimed)
            continue;
        struct sim_other other = {
            .pid = file->pid_namespace == own_pid_namespace() ? file->pid : 0,
            .device = sim_machine_index(machine, usage->device),
            .contexts = usage->contexts,
            .used_bytes = usage->used_bytes,
            .reserved_bytes = usage->reserved_bytes,
        };
        FACET_KIT_TEXT(other.worker, usage->worker);
        FACET_KIT_TEXT(other.partition_uuid, usage->partition_uuid);
        status = add_other(others, &other, error);
    }
    return status;
}

/* Reads the file of a live process. An unknown version is an error: that process may use the whole device. */
static enum facet_status read_file(const char *name, int fd, const struct sim_machine *machine,
                                   struct sim_others *others, struct facet_error *error)
{
    const struct usage_file *file;
    enum facet_status status;
    struct stat about;

    if (fstat(fd, &about) != 0)
        return facet_kit_fail(error, FACET_IO, "cannot look at %s in the state folder: %s", name, strerror(errno));
    if (about.st_size != (off_t)sizeof *file)
        return facet_kit_fail(error, FACET_CORRUPT, "%s in the state folder: has %jd bytes; expected %zu", name,
                              (intmax_t)about.st_size, sizeof *file);
    file = mmap(NULL, sizeof *file, PROT_READ, MAP_SHARED, fd, 0);
    if (file == MAP_FAILED)
        return facet_kit_fail(error, FACET_IO, "cannot read %s in the state folder: %s", name, strerror(errno));
    if (file->magic == FILE_MAGIC && file->version == FILE_VERSION)
        status = add_file(others, file, machine, error);
    else
        status = facet_kit_fail(error, FACET_CORRUPT, "%s in the state folder: expected a usage file of version %d",
                                name, FILE_VERSION);
    munmap((void *)(uintptr_t)file, sizeof *file);
    return status;
}

/* Queries the lock without taking it: if this process took it, others would think that the file's process lives. */
static enum facet_status visit_file(const struct sim_usages *usages, const char *name,
                                    const struct sim_machine *machine, struct sim_others *others,
                                    struct facet_error *error)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = openat(usages->folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    enum facet_status status = FACET_OK;

    if (fd < 0 && errno == ENOENT) /* its process has just closed it */
        return FACET_OK;
    if (fd < 0 || fcntl(fd, F_OFD_GETLK, &whole) != 0)
        status = facet_kit_fail(error, FACET_IO, "cannot look at %s in the state folder: %s", name, strerror(errno));
    else if (whole.l_type == F_UNLCK)
        unlinkat(usages->folder_fd, name, 0); /* of a dead process; if this fails, the next reading tries again */
    else
        status = read_file(name, fd, machine, others, error);
    if (fd >= 0)
        close(fd);
    return status;
}

static enum facet_status visit_folder(const struct sim_usages *usages, DIR *folder, const struct sim_machine *machine,
                                      struct sim_others *others, struct facet_error *error)
{
    enum facet_status status = FACET_OK;
    const struct dirent *entry;

    for (errno = 0; status == FACET_OK && (entry = readdir(folder)); errno = 0)
        if (strncmp(entry->d_name, usages->prefix, strlen(usages->prefix)) == 0 &&
            (usages->fd < 0 || strcmp(entry->d_name, usages->name) != 0))
            status = visit_file(usages, entry->d_name, machine, others, error);
    if (status == FACET_OK && errno != 0)
        status = facet_kit_fail(error, FACET_IO, "cannot list the state folder: %s", strerror(errno));
    return status;
}

enum facet_status sim_usages_read(struct sim_usages *usages, const struct sim_machine *machine,
                                  struct facet_error *error)
{
    int fd = openat(usages->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    struct sim_others others = {0};
    enum facet_status status;

    if (!folder) {
        status = facet_kit_fail(error, FACET_IO, "cannot list the state folder (FACET_SIM_STATE): %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return status;
    }
    status = visit_folder(usages, folder, machine, &others, error);
    closedir(folder);
    if (status != FACET_OK) {
        free(others.items);
        return status;
    }
    free(usages->others.items);
    usages->others = others;
    return FACET_OK;
}

/* --- queries --- */

const struct sim_others *sim_others(const struct facet_provider_instance *instance)
{
    return &sim_state_usages(instance->state)->others;
}

bool sim_uses_device(const struct facet_provider_instance *instance, uint32_t device)
{
    const struct sim_others *others = sim_others(instance);

    for (size_t i = 0; i < others->count; i++)
        if (others->items[i].contexts > 0 && others->items[i].device == device)
            return true;
    return sim_engine_uses_device(instance, device);
}

bool sim_uses_partition(const struct facet_provider_instance *instance, const char *uuid)
{
    const struct sim_others *others = sim_others(instance);

    for (size_t i = 0; i < others->count; i++)
        if (others->items[i].contexts > 0 && strcmp(others->items[i].partition_uuid, uuid) == 0)
            return true;
    return sim_engine_uses_partition(instance, uuid);
}

bool sim_uses_worker(const struct facet_provider_instance *instance, uint32_t device, const char *worker)
{
    const struct sim_others *others = sim_others(instance);

    for (size_t i = 0; i < others->count; i++)
        if (others->items[i].contexts > 0 && others->items[i].device == device &&
            strcmp(others->items[i].worker, worker) == 0)
            return true;
    return sim_engine_uses_worker(instance, device, worker);
}
