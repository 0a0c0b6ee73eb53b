/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: write, sync, rename. Never: knows what is reported. */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum facet_status refuse_path(const char *path, int number, struct facet_error *error)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "report", "report '%s': %s", path, strerror(number));
}

static enum facet_status open_direct(const char *path, struct report *report, struct facet_error *error)
{
    bool is_output = strcmp(path, "-") == 0;
    int fd = is_output ? dup(STDOUT_FILENO) : open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (fd >= 0 && !is_output)
        fcntl(fd, F_SETFL, 0);
    report->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    return report->file ? FACET_OK : refuse_path(path, errno, error);
}

/* Finds the path behind a symbolic link, so that the link stays and its target is replaced. */
static enum facet_status resolve_path(const char *path, struct report *report, struct facet_error *error)
{
    char *real = realpath(path, NULL);
    int length = snprintf(report->path, sizeof report->path, "%s", real ? real : path);

    free(real);
    if (length < 0 || (size_t)length + 16 >= sizeof report->path) /* the temporary name is longer by ".PID" */
        return refuse_path(path, ENAMETOOLONG, error);
    return FACET_OK;
}

enum facet_status report_open(const char *path, struct report *ret_report, struct facet_error *error)
{
    struct report report = {.name = path};
    struct stat status;
    bool exists = stat(path, &status) == 0;
    enum facet_status done;

    if (exists && S_ISDIR(status.st_mode))
        return refuse_path(path, EISDIR, error);
    if (strcmp(path, "-") == 0 || (exists && !S_ISREG(status.st_mode))) {
        done = open_direct(path, &report, error);
        if (done == FACET_OK)
            *ret_report = report;
        return done;
    }
    done = resolve_path(path, &report, error);
    if (done != FACET_OK)
        return done;
    snprintf(report.temporary, sizeof report.temporary, "%.*s.%d", (int)sizeof report.temporary - 16, report.path,
             (int)getpid());
    int fd = open(report.temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    report.file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!report.file)
        return refuse_path(path, errno, error);
    *ret_report = report;
    return FACET_OK;
}

enum facet_status report_finish(struct report *report, const json_t *json, struct facet_error *error)
{
    bool written = json_dumpf(json, report->file, JSON_INDENT(2)) == 0 && fputc('\n', report->file) != EOF &&
                   fflush(report->file) == 0;
    int number = errno;

    if (written && report->temporary[0]) {
        written = fsync(fileno(report->file)) == 0 && rename(report->temporary, report->path) == 0;
        number = errno;
        if (written)
            report->temporary[0] = '\0';
    }
    return written ? FACET_OK : refuse_path(report->name, number, error);
}

void report_abandon(struct report *report)
{
    if (report->file)
        fclose(report->file);
    if (report->temporary[0])
        unlink(report->temporary);
    *report = (struct report){0};
}
