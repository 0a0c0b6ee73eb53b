/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the handle of facet/limiter.h and its claim on the folder. Never: admits, freezes or registers anything. */
#include "limiter/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/quiet.h"
#include "limiter/slot.h"

/* The folder of segments that facetd manages, and the lock file that shows that a process manages it. */
#define DAEMON_FOLDER "vgpu"
#define DAEMON_LOCK   "facetd.lock"
#define HOST_LOCK     ".lock"

static bool same_file(const char *left, const char *right)
{
    struct stat a, b;

    return stat(left, &a) == 0 && stat(right, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static enum facet_status join_path(char *ret_path, const char *dir, const char *name, struct facet_error *error)
{
    if (snprintf(ret_path, FACET_PATH_SIZE, "%s/%s", dir, name) < FACET_PATH_SIZE)
        return FACET_OK;
    return facet_error_argument(error, FACET_OUT_OF_RANGE, "dir", "'%.200s...': expected at most %d bytes", dir,
                                FACET_PATH_SIZE - 1);
}

/*
 * For the folder that facetd manages this is facetd's lock file, so that facetd and a host of that folder exclude each
 * other.
 */
static enum facet_status find_lock(const char *dir, char *ret_path, struct facet_error *error)
{
    char runtime[FACET_PATH_SIZE], folder[FACET_PATH_SIZE];

    if (facet_path_runtime(runtime, sizeof runtime, NULL) == FACET_OK &&
        facet_path_trust_folder(runtime, NULL) == FACET_OK &&
        join_path(folder, runtime, DAEMON_FOLDER, NULL) == FACET_OK && same_file(folder, dir))
        return join_path(ret_path, runtime, DAEMON_LOCK, error);
    return join_path(ret_path, dir, HOST_LOCK, error);
}

/* The process id is written into the lock file for people to read, as facetd does. */
static enum facet_status take_lock(struct facet_limiter *limiter, struct facet_error *error)
{
    char path[FACET_PATH_SIZE], text[16];

    enum facet_status status = find_lock(limiter->dir, path, error);
    if (status != FACET_OK)
        return status;
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();
    FACET_CLEANUP_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return facet_error_errno(error, errno, "opening '%s'", path);
    if (!facet_slot_lock(fd, 0))
        return facet_error_set(error, FACET_BUSY, "folder '%s' is managed by another process (lock '%s')", limiter->dir,
                               path);
    int length = snprintf(text, sizeof text, "%d\n", getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)length, 0) != length)
        return facet_error_errno(error, errno, "writing '%s'", path);
    limiter->folder_lock_fd = FACET_TAKE_FD(fd);
    return FACET_OK;
}

static enum facet_status choose_folder(const char *dir, char *ret_dir, struct facet_error *error)
{
    char runtime[FACET_PATH_SIZE];

    if (!dir) {
        enum facet_status status = facet_path_runtime(runtime, sizeof runtime, error);
        return status == FACET_OK ? join_path(ret_dir, runtime, DAEMON_FOLDER, error) : status;
    }
    if (!*dir)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "dir", "'': expected a folder or NULL");
    if (snprintf(ret_dir, FACET_PATH_SIZE, "%s", dir) < FACET_PATH_SIZE)
        return FACET_OK;
    return facet_error_argument(error, FACET_OUT_OF_RANGE, "dir", "'%.200s...': expected at most %d bytes", dir,
                                FACET_PATH_SIZE - 1);
}

enum facet_status facet_limiter_open(const char *dir, struct facet_limiter **ret_limiter, struct facet_error *error)
{
    if (!ret_limiter)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "ret_limiter",
                                    "NULL: expected a place for a handle");

    FACET_CLEANUP_FREE struct facet_limiter *limiter = calloc(1, sizeof *limiter);
    if (!limiter)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a limiter");
    enum facet_status status = choose_folder(dir, limiter->dir, error);
    if (status == FACET_OK)
        status = facet_path_make(limiter->dir, 0700, error);
    if (status == FACET_OK)
        status = take_lock(limiter, error);
    if (status != FACET_OK)
        return status;
    pthread_mutex_init(&limiter->lock, NULL);
    *ret_limiter = FACET_TAKE_PTR(limiter);
    return FACET_OK;
}

void facet_limiter_close(struct facet_limiter *limiter)
{
    if (!limiter)
        return;
    while (limiter->workers) {
        struct facet_host_worker *worker = limiter->workers;

        limiter->workers = worker->next;
        facet_host_worker_close(worker);
    }
    pthread_mutex_destroy(&limiter->lock);
    close(limiter->folder_lock_fd);
    free(limiter);
}

struct facet_host_worker *facet_host_find_worker(struct facet_limiter *limiter, const char *id)
{
    for (struct facet_host_worker *worker = limiter->workers; worker; worker = worker->next)
        if (strcmp(worker->id, id) == 0)
            return worker;
    return NULL;
}

enum facet_status facet_host_lock_worker(struct facet_limiter *limiter, const char *id,
                                         struct facet_host_worker **ret_worker, struct facet_error *error)
{
    if (!limiter)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "limiter", "NULL: expected an open limiter");
    if (!id)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "id", "NULL: expected a worker's id");

    pthread_mutex_lock(&limiter->lock);
    struct facet_host_worker *worker = facet_host_find_worker(limiter, id);
    if (!worker) {
        pthread_mutex_unlock(&limiter->lock);
        return facet_error_argument(error, FACET_NOT_FOUND, "id", "no worker '%.64s' was created or adopted here", id);
    }
    *ret_worker = worker;
    return FACET_OK;
}

void facet_host_unlock(struct facet_limiter *limiter)
{
    pthread_mutex_unlock(&limiter->lock);
}

enum facet_status facet_host_check_size(const char *argument, uint32_t size, size_t expected, struct facet_error *error)
{
    if (size >= expected)
        return FACET_OK;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, argument, "%s: size is %u, expected at least %zu",
                                argument, size, expected);
}
