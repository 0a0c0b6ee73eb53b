/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: working out the folders of paths.h. Never: makes or checks a folder: path_trust.c does. */
#include "base/paths.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/config.h"

/* Formats a path of at most FACET_PATH_SIZE into the caller's buffer, which is touched only when the path fits. */
static enum facet_status FACET_PRINTF(4, 5)
    path_print(char *ret_path, size_t size, struct facet_error *error, const char *format, ...)
{
    char path[FACET_PATH_SIZE];
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof path || (size_t)length >= size)
        return facet_error_set(error, FACET_OUT_OF_RANGE, "path '%.200s...' is longer than %zu bytes", path,
                               (size < sizeof path ? size : sizeof path) - 1);
    memcpy(ret_path, path, (size_t)length + 1);
    return FACET_OK;
}

/*
 * A folder from the environment, if it is set and absolute (the XDG specification says that a relative path is
 * ignored).
 */
static const char *absolute_path_in(const char *variable)
{
    const char *folder = secure_getenv(variable);

    return folder && folder[0] == '/' ? folder : NULL;
}

/* The folder that a setting names; FACET_NOT_FOUND, without a message, when the setting is not set. */
static enum facet_status path_setting(enum facet_setting_id id, char *ret_path, size_t size, struct facet_error *error)
{
    const char *folder = facet_config_text(id);
    const struct facet_setting *setting = facet_config_setting(id);
    uint64_t value;

    if (!folder)
        return FACET_NOT_FOUND;
    enum facet_status status = setting->parse(setting, folder, &value, error);
    return status == FACET_OK ? path_print(ret_path, size, error, "%s", folder) : status;
}

enum facet_status facet_path_runtime(char *ret_path, size_t size, struct facet_error *error)
{
    enum facet_status status = path_setting(FACET_SETTING_RUNTIME_DIR, ret_path, size, error);

    if (status != FACET_NOT_FOUND)
        return status;
    if (geteuid() == 0)
        return path_print(ret_path, size, error, FACET_PATH_MACHINE_RUNTIME);
    const char *base = absolute_path_in("XDG_RUNTIME_DIR");
    if (base)
        return path_print(ret_path, size, error, "%s/facet", base);
    return path_print(ret_path, size, error, "/tmp/facet-%lu", (unsigned long)geteuid());
}

/* The home folder: $HOME, else the one in the user database (the environment of a daemon may be empty). */
static enum facet_status path_home(enum facet_setting_id instead, char *ret_path, size_t size,
                                   struct facet_error *error)
{
    const char *home = absolute_path_in("HOME");
    struct passwd entry, *found = NULL;
    char strings[4096];

    if (home)
        return path_print(ret_path, size, error, "%s", home);
    int errnum = getpwuid_r(geteuid(), &entry, strings, sizeof strings, &found);
    if (!found || !entry.pw_dir || entry.pw_dir[0] != '/')
        return facet_error_errno(error, errnum ? errnum : ENOENT, "no home folder for user %lu: set HOME or %s",
                                 (unsigned long)geteuid(), facet_config_setting(instead)->variable);
    return path_print(ret_path, size, error, "%s", entry.pw_dir);
}

enum facet_status facet_path_root_state(char *ret_path, size_t size, struct facet_error *error)
{
    enum facet_status status = path_setting(FACET_SETTING_STATE_DIR, ret_path, size, error);

    return status == FACET_NOT_FOUND ? path_print(ret_path, size, error, "/var/lib/facet") : status;
}

enum facet_status facet_path_state(char *ret_path, size_t size, struct facet_error *error)
{
    enum facet_status status = path_setting(FACET_SETTING_STATE_DIR, ret_path, size, error);
    char home[FACET_PATH_SIZE];

    if (status != FACET_NOT_FOUND)
        return status;
    if (geteuid() == 0)
        return facet_path_root_state(ret_path, size, error);
    const char *base = absolute_path_in("XDG_STATE_HOME");
    if (base)
        return path_print(ret_path, size, error, "%s/facet", base);
    status = path_home(FACET_SETTING_STATE_DIR, home, sizeof home, error);
    return status == FACET_OK ? path_print(ret_path, size, error, "%s/.local/state/facet", home) : status;
}

enum facet_status facet_path_cache(char *ret_path, size_t size, struct facet_error *error)
{
    enum facet_status status = path_setting(FACET_SETTING_CACHE_DIR, ret_path, size, error);
    char home[FACET_PATH_SIZE];

    if (status != FACET_NOT_FOUND)
        return status;
    const char *base = absolute_path_in("XDG_CACHE_HOME");
    if (base)
        return path_print(ret_path, size, error, "%s/facet", base);
    status = path_home(FACET_SETTING_CACHE_DIR, home, sizeof home, error);
    return status == FACET_OK ? path_print(ret_path, size, error, "%s/.cache/facet", home) : status;
}

enum facet_status facet_path_socket(char *ret_path, size_t size, struct facet_error *error)
{
    char runtime[FACET_PATH_SIZE];
    enum facet_status status = facet_path_runtime(runtime, sizeof runtime, error);

    return status == FACET_OK ? path_print(ret_path, size, error, "%s/facetd.sock", runtime) : status;
}

/* The folder of the running program. */
static enum facet_status path_program(char *ret_path, size_t size, struct facet_error *error)
{
    char program[FACET_PATH_SIZE];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);

    if (length < 0)
        return facet_error_errno(error, errno, "cannot read /proc/self/exe");
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    if (!slash)
        return facet_error_set(error, FACET_IO, "/proc/self/exe is no path: '%.200s'", program);
    *slash = '\0';
    return path_print(ret_path, size, error, "%s", program);
}

/* The folder of the shared object that holds this code: the library, in a program that links to it. */
static enum facet_status path_library(char *ret_path, size_t size, struct facet_error *error)
{
    static const char here;
    Dl_info object;
    const char *slash = dladdr(&here, &object) != 0 ? strrchr(object.dli_fname, '/') : NULL;

    if (!slash)
        return path_program(ret_path, size, error);
    return path_print(ret_path, size, error, "%.*s", (int)(slash - object.dli_fname), object.dli_fname);
}

/* The path of a file in a folder; FACET_NOT_FOUND, without a message, when the file does not exist. */
static enum facet_status path_of_file_in(const char *folder, const char *file, char *ret_path, size_t size,
                                         struct facet_error *error)
{
    char path[FACET_PATH_SIZE];
    enum facet_status status = path_print(path, sizeof path, error, "%s/%s", folder, file);

    if (status == FACET_OK && access(path, F_OK) != 0)
        return FACET_NOT_FOUND;
    return status == FACET_OK ? path_print(ret_path, size, error, "%s", path) : status;
}

enum facet_status facet_path_shipped(const char *file, char *ret_path, size_t size, struct facet_error *error)
{
    char chosen[FACET_PATH_SIZE], program[FACET_PATH_SIZE], library[FACET_PATH_SIZE];
    enum facet_status status = path_setting(FACET_SETTING_LIB_DIR, chosen, sizeof chosen, error);

    if (status == FACET_OK) {
        status = path_of_file_in(chosen, file, ret_path, size, error);
        return status != FACET_NOT_FOUND ? status
                                         : facet_error_set(error, status, "%s is not in %s (%s)", file, chosen,
                                                           facet_config_setting(FACET_SETTING_LIB_DIR)->variable);
    }
    if (status == FACET_NOT_FOUND)
        status = path_program(program, sizeof program, error);
    if (status == FACET_OK)
        status = path_library(library, sizeof library, error);
    if (status != FACET_OK)
        return status;

    const char *folders[] = {program, library, FACET_PLUGIN_DIR};
    status = FACET_NOT_FOUND;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && status == FACET_NOT_FOUND; i++)
        status = path_of_file_in(folders[i], file, ret_path, size, error);
    if (status != FACET_NOT_FOUND)
        return status;
    return facet_error_set(error, FACET_NOT_FOUND, "%s is neither in %s nor in %s; %s names another folder", file,
                           library, FACET_PLUGIN_DIR, facet_config_setting(FACET_SETTING_LIB_DIR)->variable);
}

static enum facet_status name_setting(enum facet_status status, const struct facet_error *reason,
                                      enum facet_setting_id setting, struct facet_error *error)
{
    if (status == FACET_OK)
        return status;
    return facet_error_argument(error, status, reason->argument, "%s; %s chooses another folder", reason->message,
                                facet_config_setting(setting)->variable);
}

enum facet_status facet_path_make_chosen(const char *path, mode_t mode, enum facet_setting_id setting,
                                         struct facet_error *error)
{
    struct facet_error reason;

    return name_setting(facet_path_make(path, mode, &reason), &reason, setting, error);
}

enum facet_status facet_path_trust_chosen(const char *path, enum facet_setting_id setting, struct facet_error *error)
{
    struct facet_error reason;

    return name_setting(facet_path_trust_folder(path, &reason), &reason, setting, error);
}

/* Opens with O_NONBLOCK: a FIFO would otherwise block the caller until another process opens it for reading. */
enum facet_status facet_path_open_log(const char *path, int *ret_fd, struct facet_error *error)
{
    FACET_CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    struct stat status;

    if (fd < 0 && errno != ENXIO)
        return facet_error_errno(error, errno, "cannot write %s", path);
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return facet_error_set(error, FACET_IO, "cannot write %s: it is no regular file; remove it", path);
    *ret_fd = FACET_TAKE_FD(fd);
    return FACET_OK;
}
