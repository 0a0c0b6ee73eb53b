/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: options of the compiler, files. Never: judges an argument that is meant for clang. */
#include "kernel_build.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <facet/host_kernel.h>

#include "base/cleanup.h"
#include "base/paths.h"

enum { FILE_MOST = FACET_HOST_IMAGE_MOST, NAMES_MOST = 100 };

/* Appends "prefix" "text". */
static bool add_argument(struct kernel_build *build, const char *prefix, const char *text)
{
    char *argument;
    char **list = realloc(build->arguments, (build->argument_count + 2) * sizeof *list);

    if (!list)
        return false;
    build->arguments = list;
    list[build->argument_count] = NULL;
    if (asprintf(&argument, "%s%s", prefix, text) < 0)
        return false;
    list[build->argument_count++] = argument;
    list[build->argument_count] = NULL;
    return true;
}

static bool take_level(const struct command *self, struct kernel_build *build)
{
    if (optarg[0] < '0' || optarg[0] > '3' || optarg[1]) {
        command_usage(self, "-O '%s': expected 0, 1, 2 or 3", optarg);
        return false;
    }
    build->optimize = FACET_OPTIMIZE((uint32_t)(optarg[0] - '0'));
    return true;
}

/* Refuses an empty word: clang would take the next argument for the value. */
static bool take_word(const struct command *self, struct kernel_build *build, int option)
{
    if (!optarg[0]) {
        command_usage(self, option == 'D' ? "-D '': expected NAME or NAME=VALUE" : "-I '': expected a folder");
        return false;
    }
    return add_argument(build, option == 'D' ? "-D" : "-I", optarg);
}

/* The spelling of an option in the help. */
static const char *option_spelling(int option)
{
    return option == OPTION_TARGET ? "--target"
           : option == OPTION_STD  ? "--std"
           : option == 'O'         ? "-O"
           : option == 'D'         ? "-D"
           : option == 'I'         ? "-I"
                                   : NULL;
}

bool kernel_build_option(const struct command *self, struct kernel_build *build, int option, bool *ret_wrong)
{
    bool fine = true;

    if (option == OPTION_TARGET)
        build->target = optarg;
    else if (option == OPTION_CHECK)
        build->check = true;
    else if (option == OPTION_NO_CACHE)
        build->no_cache = true;
    else if (option == 'O')
        fine = take_level(self, build);
    else if (option == 'D' || option == 'I')
        fine = take_word(self, build, option);
    else if (option == OPTION_STD)
        fine = add_argument(build, "-cl-std=", optarg);
    else
        return false;
    if (!build->compile_option)
        build->compile_option = option_spelling(option);
    *ret_wrong = !fine;
    return true;
}

bool kernel_build_take_rest(struct kernel_build *build, int *argc, char **argv)
{
    int end = 1;

    while (end < *argc && strcmp(argv[end], "--") != 0)
        end++;
    for (int i = end + 1; i < *argc; i++)
        if (!add_argument(build, "", argv[i]))
            return false;
    if (end + 1 < *argc)
        build->compile_option = argv[end + 1];
    if (end < *argc)
        argv[end] = NULL;
    *argc = end;
    return true;
}

void kernel_build_clear(struct kernel_build *build)
{
    for (size_t i = 0; i < build->argument_count; i++)
        free(build->arguments[i]);
    free(build->arguments);
}

/* --- files ------------------------------------------------------------------------------------------------------ */

/* The last capacity has room for one byte more than a file may have, which shows that the file is too large. */
static enum facet_status read_all(int fd, const char *path, struct kernel_text *text, struct facet_error *error)
{
    size_t capacity = 0;

    for (;;) {
        if (capacity - text->size < 2) {
            capacity = !capacity ? 65536 : capacity < FILE_MOST ? capacity * 2 : FILE_MOST + 2;
            char *bytes = realloc(text->bytes, capacity);
            if (!bytes)
                return facet_error_set(error, FACET_NO_MEMORY, "%s: no memory for its contents", path);
            text->bytes = bytes;
        }
        ssize_t read_bytes = read(fd, text->bytes + text->size, capacity - text->size - 1);
        if (read_bytes < 0 && errno == EINTR)
            continue;
        if (read_bytes < 0)
            return facet_error_errno(error, errno, "cannot read %s", path);
        text->size += (size_t)read_bytes;
        if (text->size > FILE_MOST)
            return facet_error_set(error, FACET_OUT_OF_RANGE, "%s: too large; expected at most %d MiB", path,
                                   FILE_MOST >> 20);
        text->bytes[text->size] = '\0';
        if (read_bytes == 0)
            return FACET_OK;
    }
}

/* Refuses a pipe, which might never get a writer; a user who has a pipe passes it as standard input, with '-'. */
static enum facet_status check_regular(int fd, const char *path, struct facet_error *error)
{
    struct stat info;

    if (fstat(fd, &info) < 0)
        return facet_error_errno(error, errno, "cannot look at %s", path);
    if (S_ISREG(info.st_mode))
        return FACET_OK;
    return facet_error_set(error, FACET_INVALID_ARGUMENT,
                           "%.200s is %s; expected a regular file, or '-' for standard input", path,
                           S_ISDIR(info.st_mode)    ? "a folder"
                           : S_ISFIFO(info.st_mode) ? "a pipe"
                                                    : "a device or socket");
}

enum facet_status kernel_text_read(const char *path, struct kernel_text *ret_text, struct facet_error *error)
{
    bool standard = strcmp(path, "-") == 0;
    /* Without O_NONBLOCK, opening a pipe would wait for a writer. */
    FACET_CLEANUP_FD int fd = standard ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct kernel_text text = {0};

    if (fd < 0)
        return facet_error_errno(error, errno, "cannot open %s", path);
    enum facet_status status = standard ? FACET_OK : check_regular(fd, path, error);
    if (status == FACET_OK)
        status = read_all(fd, standard ? "standard input" : path, &text, error);
    if (status == FACET_OK)
        *ret_text = text;
    else
        free(text.bytes);
    return status;
}

bool kernel_text_is_same(const char *source, const char *output)
{
    struct stat from, to;
    bool exists = strcmp(source, "-") == 0 ? fstat(STDIN_FILENO, &from) == 0 : stat(source, &from) == 0;

    return exists && stat(output, &to) == 0 && S_ISREG(to.st_mode) && from.st_dev == to.st_dev &&
           from.st_ino == to.st_ino;
}

/* Whether `path` is the file that standard output is open on ("/dev/stdout"): a file that must not be replaced. */
static bool is_standard_output(const char *path)
{
    struct stat output, file;

    return strcmp(path, "-") == 0 || (fstat(STDOUT_FILENO, &output) == 0 && stat(path, &file) == 0 &&
                                      output.st_dev == file.st_dev && output.st_ino == file.st_ino);
}

static bool write_bytes(FILE *file, const void *bytes, size_t size)
{
    return fwrite(bytes, 1, size, file) == size && fflush(file) == 0;
}

/* Creates a temporary file in the folder of `path`. NULL: errno says why. */
static FILE *open_beside(const char *path, char *ret_beside, size_t size)
{
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash + 1 - path) : 0, fd = -1;

    for (int i = 0; fd < 0 && i < NAMES_MOST; i++) {
        if (snprintf(ret_beside, size, "%.*s.facet-%ld-%d", folder, path, (long)getpid(), i) >= (int)size) {
            errno = ENAMETOOLONG;
            return NULL;
        }
        fd = open(ret_beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            return NULL;
    }
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file && fd >= 0) {
        close(fd);
        unlink(ret_beside);
    }
    return file;
}

/* Writes all of the bytes or none. Replaces a file that `path` already names, and keeps its mode. False: errno says
 * why. */
static bool replace_file(const char *path, const struct stat *old, const void *bytes, size_t size)
{
    char beside[FACET_PATH_SIZE];
    FACET_CLEANUP_FILE FILE *file = NULL;

    if (old && access(path, W_OK) != 0)
        return false;
    file = open_beside(path, beside, sizeof beside);
    if (!file)
        return false;
    if (write_bytes(file, bytes, size) && (!old || fchmod(fileno(file), old->st_mode & 0777) == 0) &&
        rename(beside, path) == 0)
        return true;
    int errnum = errno;
    unlink(beside);
    errno = errnum;
    return false;
}

enum facet_status kernel_text_write(const char *path, const void *bytes, size_t size, struct facet_error *error)
{
    struct stat old;
    bool exists = stat(path, &old) == 0;

    if (is_standard_output(path))
        return write_bytes(stdout, bytes, size) ? FACET_OK
                                                : facet_error_errno(error, errno, "cannot write standard output");
    if (exists && !S_ISREG(old.st_mode)) {
        FACET_CLEANUP_FILE FILE *file = fopen(path, "we");
        return file && write_bytes(file, bytes, size) ? FACET_OK
                                                      : facet_error_errno(error, errno, "cannot write %s", path);
    }
    FACET_CLEANUP_FREE char *real_path = exists ? realpath(path, NULL) : NULL; /* a link is kept */
    return replace_file(real_path ? real_path : path, exists ? &old : NULL, bytes, size)
               ? FACET_OK
               : facet_error_errno(error, errno, "cannot write %s", path);
}

void kernel_build_blame(const char *source, struct facet_error *error)
{
    static const struct {
        const char *library, *typed;
    } names[] = {{"index", "--arg"},   {"bytes", "--arg"},     {"name", "--kernel"}, {"global", "--global"},
                 {"group", "--group"}, {"offset", "--offset"}, {"arguments", ""}};
    const struct facet_error original = *error;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(original.argument, names[i].library) == 0)
            snprintf(error->argument, sizeof error->argument, "%s", names[i].typed);
    if (strcmp(original.argument, "source") != 0 && strcmp(original.argument, "image") != 0)
        return;
    if (strncmp(original.message, source, strlen(source)) == 0)
        facet_error_set(error, original.status, "%s", original.message);
    else
        facet_error_set(error, original.status, "%.120s: %s", source, original.message);
    snprintf(error->argument, sizeof error->argument, "%s", source);
}

enum facet_status kernel_build_refuse_options(const struct kernel_build *build, const char *image,
                                              struct facet_error *error)
{
    if (!build->compile_option)
        return FACET_OK;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, build->compile_option,
                                "%.64s is for compiling, and %.200s is an image; expected its source, or an image that "
                                "was compiled so",
                                build->compile_option, image);
}

/* --- compiling -------------------------------------------------------------------------------------------------- */

enum facet_status kernel_build_compile(const struct kernel_build *build, const char *name,
                                       const struct kernel_text *source, struct facet_image **ret_image,
                                       struct facet_error *error)
{
    const struct facet_compiler_options compiler_options = {
        .size = sizeof compiler_options,
        .cache_mode = build->no_cache ? FACET_CACHE_BYPASS : FACET_CACHE_USE,
    };
    const struct facet_compile_options options = {
        .size = sizeof options,
        .optimize = build->optimize,
        .check = build->check,
        .target = build->target,
        .name = strcmp(name, "-") == 0 ? "<stdin>" : name,
        .arguments = (const char *const *)build->arguments,
    };
    struct facet_compiler *compiler;

    enum facet_status status = facet_compiler_create(&compiler_options, &compiler, error);
    if (status != FACET_OK)
        return status;
    status = facet_compile(compiler, source->bytes, source->size, &options, ret_image, error);
    facet_compiler_destroy(compiler);
    return status;
}
