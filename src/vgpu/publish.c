/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a driver's own files in the folder of published drivers: its lock, and its text, replaced once a second.
 * Never: fails the driver: a failed write is tried again a second later.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/paths.h"
#include "base/quiet.h"
#include "vgpu/driver.h"
#include "vgpu/measure.h"
#include "vgpu/published.h"

#define EACH_NS   FACET_NS_PER_S /* how often the text is replaced */
#define NAMES     1000u          /* names tried for the lock: the most drivers of a process that publish */
#define TEXT_MODE 0600

/* Locks the file. True: this process has the lock, and the file still exists. */
static bool file_is_held(int fd)
{
    struct stat info;

    return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0 && info.st_nlink > 0;
}

/* Creates and locks the file of the first free name, "PID-N.lock". */
static int make_lock(struct facet_driver *driver)
{
    char name[64];

    for (uint32_t i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "%d-%u.lock", (int)getpid(), i);
        int fd = openat(driver->published_folder_fd, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, TEXT_MODE);

        if (fd < 0 && errno == EEXIST)
            continue;
        if (fd < 0 || file_is_held(fd)) {
            snprintf(driver->published_name, sizeof driver->published_name, "%d-%u", (int)getpid(), i);
            return fd;
        }
        close(fd); /* a reader locked and removed the file, because it was not locked yet */
    }
    errno = EEXIST;
    return -1;
}

enum facet_status facet_vgpu_publish_open(struct facet_driver *driver, struct facet_error *error)
{
    char path[FACET_PATH_SIZE];

    if (!driver->config.publish)
        return FACET_OK;
    enum facet_status status = facet_published_folder(path, sizeof path, error);
    if (status == FACET_OK)
        status = facet_path_make_chosen(path, 0700, FACET_SETTING_RUNTIME_DIR, error);
    if (status != FACET_OK)
        return status;
    driver->published_folder_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    driver->published_lock_fd = driver->published_folder_fd < 0 ? -1 : make_lock(driver);
    if (driver->published_lock_fd < 0)
        return facet_error_errno(error, errno, "%s: cannot publish the driver in this folder", path);
    return FACET_OK;
}

static void read_program(char *ret_name, size_t size)
{
    FACET_CLEANUP_FILE FILE *file = fopen("/proc/self/comm", "re");

    ret_name[0] = '\0';
    if (!file || !fgets(ret_name, (int)size, file))
        return;
    for (char *at = ret_name; *at; at++)
        if (*at < 0x20 || *at > 0x7e)
            *at = *at == '\n' ? '\0' : '?';
}

/* Describes the driver's devices and vGPUs. False: there is no memory, or too many vGPUs were made meanwhile. */
static bool collect_published(struct facet_driver *driver, struct facet_published *driver_now)
{
    uint32_t room = facet_vgpu_count(driver) + 8;

    driver_now->pid = getpid();
    read_program(driver_now->program, sizeof driver_now->program);
    driver_now->device = calloc(driver->devices, sizeof *driver_now->device);
    driver_now->vgpu = calloc(room, sizeof *driver_now->vgpu);
    if (!driver_now->device || !driver_now->vgpu)
        return false;
    for (uint32_t i = 0; i < driver->devices; i++) {
        driver_now->device[i].size = sizeof driver_now->device[i];
        driver_now->devices += facet_driver_get_device(driver, i, &driver_now->device[i]);
    }
    for (uint32_t i = 0; i < room; i++)
        driver_now->vgpu[i].size = sizeof driver_now->vgpu[i];
    return facet_vgpu_list(driver, driver_now->vgpu, room, &driver_now->vgpus, NULL) == FACET_OK;
}

static bool write_all(int fd, const char *text)
{
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();

    size_t left = strlen(text);

    while (left > 0) {
        ssize_t written = write(fd, text, left);

        if (written <= 0)
            return false;
        text += written;
        left -= (size_t)written;
    }
    return true;
}

static void replace_file(const struct facet_driver *driver, const char *text)
{
    char new_name[64], name[64];

    snprintf(new_name, sizeof new_name, "%s.new", driver->published_name);
    snprintf(name, sizeof name, "%s.json", driver->published_name);
    unlinkat(driver->published_folder_fd, new_name, 0);
    FACET_CLEANUP_FD int fd =
        openat(driver->published_folder_fd, new_name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, TEXT_MODE);
    if (fd >= 0 && write_all(fd, text))
        (void)renameat(driver->published_folder_fd, new_name, driver->published_folder_fd, name);
    else
        unlinkat(driver->published_folder_fd, new_name, 0);
}

void facet_vgpu_publish(struct facet_driver *driver, uint64_t now_ns)
{
    struct facet_published driver_now = {0};

    if (driver->published_lock_fd < 0 || (driver->published_ns && now_ns < driver->published_ns + EACH_NS))
        return;
    driver->published_ns = now_ns;
    FACET_CLEANUP_FREE char *text = collect_published(driver, &driver_now) ? facet_published_text(&driver_now) : NULL;
    facet_published_clear(&driver_now);
    if (text)
        replace_file(driver, text);
}

void facet_vgpu_publish_close(struct facet_driver *driver)
{
    static const char *const kinds[] = {"json", "new",
                                        "lock"}; /* last: while the lock is held, no process removes the other files */
    char name[64];

    for (size_t i = 0; driver->published_lock_fd >= 0 && i < sizeof kinds / sizeof kinds[0]; i++) {
        snprintf(name, sizeof name, "%s.%s", driver->published_name, kinds[i]);
        unlinkat(driver->published_folder_fd, name, 0);
    }
    if (driver->published_lock_fd >= 0)
        close(driver->published_lock_fd);
    if (driver->published_folder_fd >= 0)
        close(driver->published_folder_fd);
}
