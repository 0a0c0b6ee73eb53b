/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a file for each GPU, which records which of its partitions are taken, and a unique name for each of these. The
 * driver makes all partitions of a mode when the GPU enters that mode, and does not know which are taken.
 * Never: uses a record of another mode than the GPU's: after a restart of the machine the GPU is in its default mode.
 *
 * The file is FACET_ROCM_STATE/rocm-<pci address>; without the variable the folder is Facet's runtime folder
 * (FACET_RUNTIME_DIR, else /run/facet for root, else $XDG_RUNTIME_DIR/facet, else /tmp/facet-<uid>).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rocm.h"

#define LINE_SIZE 256u /* enough for three words and the names, each with the most characters */

static void folder_of(char *path, size_t size)
{
    const char *state = getenv("FACET_ROCM_STATE"), *runtime = getenv("FACET_RUNTIME_DIR");
    const char *session = getenv("XDG_RUNTIME_DIR");

    if ((state && *state) || (runtime && *runtime))
        snprintf(path, size, "%s", state && *state ? state : runtime);
    else if (geteuid() == 0)
        snprintf(path, size, "/run/facet");
    else if (session && *session == '/')
        snprintf(path, size, "%s/facet", session);
    else
        snprintf(path, size, "/tmp/facet-%u", (unsigned)geteuid());
}

static void parse_record(struct rocm_holdings *holdings)
{
    char line[LINE_SIZE] = "", *end;
    unsigned held_parts;
    int length = 0;

    if (pread(holdings->file, line, sizeof line - 1, 0) <= 0 ||
        sscanf(line, "%15s %x %15s%n", holdings->mode, &held_parts, holdings->previous, &length) != 3) {
        holdings->mode[0] = '\0';
        return;
    }
    holdings->held_parts = held_parts;
    end = line + length;
    for (uint32_t i = 0; i < ROCM_MAX_PARTS; i++)
        holdings->names[i] = strtoull(end, &end, 16);
}

/* Opens the folder. No other user may write it: another user may have made a folder of this name in /tmp first. */
static enum facet_status open_folder(const char *path, int *ret_folder, struct facet_error *error)
{
    struct stat status;

    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return facet_kit_fail(error, FACET_IO, "%.200s: %s", path, strerror(errno));
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || fstat(folder, &status) != 0) {
        enum facet_status failed = facet_kit_fail(error, FACET_IO, "%.200s: %s", path, strerror(errno));
        if (folder >= 0)
            close(folder);
        return failed;
    }
    if ((status.st_uid != geteuid() && status.st_uid != 0) || status.st_mode & (S_IWGRP | S_IWOTH)) {
        close(folder);
        return facet_kit_fail(error, FACET_PERMISSION,
                              "%.200s belongs to user %u and has mode %04o: expected this user or root, and no others "
                              "that may write it",
                              path, (unsigned)status.st_uid, (unsigned)status.st_mode & 07777u);
    }
    *ret_folder = folder;
    return FACET_OK;
}

enum facet_status rocm_holdings_open(const char *pci_address, struct rocm_holdings *ret_holdings,
                                     struct facet_error *error)
{
    struct rocm_holdings holdings = {.file = -1};
    char path[1024], name[64];
    int folder = -1;

    folder_of(path, sizeof path);
    enum facet_status opened = open_folder(path, &folder, error);
    if (opened != FACET_OK)
        return opened;
    snprintf(name, sizeof name, "rocm-%.50s", pci_address);
    holdings.file = openat(folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int number = errno;
    close(folder);
    errno = number;
    if (holdings.file < 0)
        return facet_kit_fail(error, FACET_IO, "%.200s: %s", path, strerror(errno));
    while (flock(holdings.file, LOCK_EX) != 0) {
        if (errno == EINTR)
            continue;
        enum facet_status status = facet_kit_fail(error, FACET_IO, "%.200s: %s", path, strerror(errno));
        close(holdings.file);
        return status;
    }
    parse_record(&holdings);
    *ret_holdings = holdings;
    return FACET_OK;
}

void rocm_holdings_settle(struct rocm_holdings *holdings, const char *mode)
{
    if (strcmp(holdings->mode, mode) == 0)
        return;
    holdings->held_parts = 0;
    FACET_KIT_TEXT(holdings->mode, mode);
    FACET_KIT_TEXT(holdings->previous, mode);
}

/* The name is the time, but at least one more than any name here, because the clock may have been set back. */
void rocm_holdings_take(struct rocm_holdings *holdings, uint32_t number)
{
    uint64_t name = facet_kit_now_ns();

    for (uint32_t i = 0; i < ROCM_MAX_PARTS; i++)
        name = holdings->names[i] >= name ? holdings->names[i] + 1 : name;
    holdings->names[number] = name;
    holdings->held_parts |= UINT32_C(1) << number;
}

enum facet_status rocm_holdings_write(const struct rocm_holdings *holdings, struct facet_error *error)
{
    char line[LINE_SIZE];
    int length = snprintf(line, sizeof line, "%s %x %s", holdings->mode, holdings->held_parts, holdings->previous);

    for (uint32_t i = 0; i < ROCM_MAX_PARTS; i++)
        length += snprintf(line + length, sizeof line - (size_t)length, " %" PRIx64, holdings->names[i]);
    length += snprintf(line + length, sizeof line - (size_t)length, "\n");

    /*
     * The line is shorter than a block and written in place. Readers hold the lock, and a killed writer leaves the old
     * or the new content.
     */
    if (pwrite(holdings->file, line, (size_t)length, 0) != length || ftruncate(holdings->file, length) != 0)
        return facet_kit_fail(error, FACET_IO, "the file of the GPU's partitions: %s", strerror(errno));
    return FACET_OK;
}

void rocm_holdings_close(struct rocm_holdings *holdings)
{
    if (holdings->file >= 0)
        close(holdings->file);
    holdings->file = -1;
}
