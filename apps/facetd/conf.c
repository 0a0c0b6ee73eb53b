/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading facetd.conf; see conf.h. Never: keeps a file open. */
#include "conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef FACET_HAS_INIH
#include <ini.h>
#endif

#include "base/cleanup.h"

#define SECTION "facetd"

enum { FILE_MOST = 16384 }; /* bytes */

/* Commands find the daemon by the runtime folder, and they do not read the file. The others are private daemons' and
 * commands' settings. */
bool conf_takes(enum facet_setting_id id)
{
    switch (id) {
    case FACET_SETTING_STATE_DIR:
    case FACET_SETTING_PROVIDER_PATH:
    case FACET_SETTING_LOG:
    case FACET_SETTING_SLICE_US:
    case FACET_SETTING_PARALLEL:
    case FACET_SETTING_SWAP_FACTOR:
    case FACET_SETTING_SWAP_PATIENCE_S:
        return true;
    default:
        return false;
    }
}

#ifdef FACET_HAS_INIH

struct reading {
    struct conf *conf;
    struct facet_error error; /* of the first line with an error */
};

/* "state_dir, provider_path, ..." */
static void list_names(char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t id = 0; id < FACET_SETTING_COUNT && used < size; id++)
        if (conf_takes((enum facet_setting_id)id))
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", facet_config_setting(id)->name);
}

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

static enum facet_status read_value(struct conf *conf, const char *section, const char *name, const char *value,
                                    struct facet_error *error)
{
    char names[256];
    uint64_t ignored;

    if (strcmp(section, SECTION) != 0)
        return facet_error_set(error, FACET_INVALID_ARGUMENT, "section [%.60s]: expected [" SECTION "]", section);
    for (uint32_t id = 0; id < FACET_SETTING_COUNT; id++) {
        const struct facet_setting *setting = facet_config_setting(id);

        if (strcmp(name, setting->name) != 0 || !conf_takes((enum facet_setting_id)id))
            continue;
        if (conf->values[id][0])
            return facet_error_set(error, FACET_INVALID_ARGUMENT, "%s is there twice", name);
        if (!*value || strlen(value) >= sizeof conf->values[id])
            return facet_error_set(error, FACET_INVALID_ARGUMENT, "%s: expected a value of 1 to %zu bytes", name,
                                   sizeof conf->values[id] - 1);
        if (!is_printable(value))
            return facet_error_set(error, FACET_INVALID_ARGUMENT, "%s: expected no control characters", name);
        snprintf(conf->values[id], sizeof conf->values[id], "%s", value);
        return setting->parse ? setting->parse(setting, value, &ignored, error) : FACET_OK;
    }
    list_names(names, sizeof names);
    return facet_error_set(error, FACET_INVALID_ARGUMENT, "%.60s: expected one of %s", name, names);
}

static int on_line(void *context, const char *section, const char *name, const char *value)
{
    struct reading *reading = context;
    struct facet_error error;

    if (read_value(reading->conf, section, name, value, &error) == FACET_OK)
        return 1;
    if (reading->error.status == FACET_OK)
        reading->error = error;
    return 0;
}

/* libinih reads the rest of a longer line as a line of its own. */
static enum facet_status check_lines(const char *text, const struct conf *conf, struct facet_error *error)
{
    int number = 1;

    for (size_t length; *text; text += length + (text[length] == '\n'), number++) {
        length = strcspn(text, "\n");
        if (length > INI_MAX_LINE - 2)
            return facet_error_set(error, FACET_OUT_OF_RANGE, "%s:%d: a line of %zu bytes: expected at most %d",
                                   conf->path, number, length, INI_MAX_LINE - 2);
    }
    return FACET_OK;
}

/* Ends the text behind line `last`. */
static void cut_behind(char *text, int last)
{
    while (last-- > 0 && *text) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    *text = '\0';
}

enum facet_status conf_parse(char *text, struct conf *conf, struct facet_error *error)
{
    struct reading reading = {.conf = conf};
    enum facet_status status = check_lines(text, conf, error);
    int line = status == FACET_OK ? ini_parse_string(text, on_line, &reading) : 0;

    if (line == 0)
        return status;
    if (line < 0)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory to read %s", conf->path);
    /* libinih goes on after an error: the text is read once more up to the first, for the reason of that one. */
    cut_behind(text, line);
    memset(conf->values, 0, sizeof conf->values);
    reading.error.status = FACET_OK;
    (void)ini_parse_string(text, on_line, &reading);
    if (reading.error.status == FACET_OK)
        facet_error_set(&reading.error, FACET_INVALID_ARGUMENT, "expected 'name = value'");
    return facet_error_set(error, reading.error.status, "%s:%d: %s", conf->path, line, reading.error.message);
}

#else

enum facet_status conf_parse(char *text, struct conf *conf, struct facet_error *error)
{
    return facet_error_set(error, FACET_UNSUPPORTED,
                           "%s is there, and this facetd was built without libinih, which reads it", conf->path);
}

#endif

/* The file decides where the daemon keeps its state and which code it loads. */
static enum facet_status check_owner(int fd, const char *path, struct facet_error *error)
{
    struct stat file;

    if (fstat(fd, &file) < 0)
        return facet_error_errno(error, errno, "looking at %s", path);
    if (!S_ISREG(file.st_mode))
        return facet_error_set(error, FACET_INVALID_ARGUMENT, "%s is no regular file", path);
    if ((file.st_uid != 0 && file.st_uid != geteuid()) || (file.st_mode & (S_IWGRP | S_IWOTH)))
        return facet_error_set(error, FACET_PERMISSION,
                               "%s could be changed by other users: expected an owner of user %u or root, and no write "
                               "permission for group and others (chmod go-w)",
                               path, (unsigned)geteuid());
    return FACET_OK;
}

/* A zero byte would end the text before the file's end. */
static enum facet_status read_text(int fd, const char *path, char ret_text[FILE_MOST + 1], struct facet_error *error)
{
    size_t size = 0;
    ssize_t got;

    while ((got = read(fd, ret_text + size, FILE_MOST + 1 - size)) > 0)
        size += (size_t)got;
    if (got < 0)
        return facet_error_errno(error, errno, "reading %s", path);
    if (size > FILE_MOST)
        return facet_error_set(error, FACET_OUT_OF_RANGE, "%s: expected at most %d bytes", path, FILE_MOST);
    if (memchr(ret_text, 0, size))
        return facet_error_set(error, FACET_INVALID_ARGUMENT, "%s has a zero byte: expected text", path);
    ret_text[size] = 0;
    return FACET_OK;
}

enum facet_status conf_read(const char *path, bool must_exist, struct conf *ret_conf, struct facet_error *error)
{
    char text[FILE_MOST + 1];

    memset(ret_conf, 0, sizeof *ret_conf);
    if ((size_t)snprintf(ret_conf->path, sizeof ret_conf->path, "%s", path) >= sizeof ret_conf->path)
        return facet_error_set(error, FACET_OUT_OF_RANGE, "the path of the configuration file is too long: %.60s...",
                               path);
    FACET_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR) && !must_exist)
        return FACET_OK;
    if (fd < 0)
        return facet_error_errno(error, errno, "opening %s", path);
    ret_conf->exists = true;
    enum facet_status status = check_owner(fd, path, error);
    if (status == FACET_OK)
        status = read_text(fd, path, text, error);
    return status == FACET_OK ? conf_parse(text, ret_conf, error) : status;
}

enum facet_status conf_apply(struct conf *conf, struct facet_error *error)
{
    for (uint32_t id = 0; id < FACET_SETTING_COUNT; id++) {
        const char *variable = facet_config_setting(id)->variable, *present = getenv(variable);

        if (!conf->values[id][0] || (present && *present))
            continue;
        if (setenv(variable, conf->values[id], true) < 0)
            return facet_error_errno(error, errno, "setting %s", variable);
        conf->applied[id] = true;
    }
    return FACET_OK;
}

void conf_withdraw(struct conf *conf)
{
    for (uint32_t id = 0; id < FACET_SETTING_COUNT; id++) {
        if (conf->applied[id])
            unsetenv(facet_config_setting(id)->variable);
        conf->applied[id] = false;
    }
}
