/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake of facet-kernel-compiler.so, which compiles no language. Words of the source choose its behaviour.
 *
 * Owns: making an image with one kernel, `saxpy`, of any source, and adding a letter to the file $FACET_TEST_COMPILES
 * for each compile. Never: is installed.
 *
 *     warn     gives a warning of line 2, column 5
 *     error    gives the warning of `warn`, and an error of line 3, column 1
 *     slow     takes 100 ms
 *     die      ends the process in the middle of the compile
 *     lie      describes the image wrongly
 *     time     reports that the result depends on the time
 *     <PATH>   reads this path, which may be a file, a folder or missing; the source may hold several paths
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/stat.h>

#include <xxhash.h>

#include "kernel/backend.h"

#define DESCRIPTION                                                                                                    \
    "{\"target\": \"%s\", \"kernels\": [{\"name\": \"saxpy\", \"argument_bytes\": 24, \"local_bytes\": 0, "            \
    "\"arguments\": [{\"name\": \"a\", \"type\": \"float\", \"kind\": \"value\", \"offset\": %d, \"bytes\": 4}, "      \
    "{\"name\": \"x\", \"type\": \"float*\", \"kind\": \"global\", \"offset\": 8, \"bytes\": 8, \"access\": "          \
    "[\"read\"]}, {\"name\": \"y\", \"type\": \"float*\", \"kind\": \"global\", \"offset\": 16, \"bytes\": 8}]}]}"

static bool has_word(const struct facet_backend_request *request, const char *word)
{
    return memmem(request->source, request->bytes, word, strlen(word)) != NULL;
}

static void count_compile(void)
{
    const char *path = getenv("FACET_TEST_COMPILES");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;

    if (fd < 0)
        return;
    (void)!write(fd, "c", 1);
    close(fd);
}

static void add_diagnostic(struct facet_backend_result *result, const char *name, uint32_t severity, uint32_t line,
                           uint32_t column, const char *text)
{
    struct facet_backend_diagnostic *list = realloc(result->diagnostics, (result->diagnostic_count + 1) * sizeof *list);

    if (!list)
        return;
    result->diagnostics = list;
    list[result->diagnostic_count++] =
        (struct facet_backend_diagnostic){severity, line, column, strdup(name), strdup(text)};
}

static struct facet_backend_read read_of(const char *path)
{
    struct facet_backend_read answer = {.path = strdup(path), .kind = FACET_READ_MISSING};
    char bytes[4096];
    struct stat info;

    if (stat(path, &info) < 0)
        return answer;
    answer.kind = S_ISDIR(info.st_mode) ? FACET_READ_FOLDER : FACET_READ_PRESENT;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, bytes, sizeof bytes) : -1;
    if (got >= 0) {
        XXH128_hash_t hash = XXH3_128bits(bytes, (size_t)got);
        answer =
            (struct facet_backend_read){answer.path, (uint64_t)got, {hash.low64, hash.high64}, FACET_READ_WHOLE, 0};
    }
    if (fd >= 0)
        close(fd);
    return answer;
}

static void read_paths(const struct facet_backend_request *request, struct facet_backend_result *result)
{
    const char *at = request->source, *end = at + request->bytes, *stop;

    while ((at = memchr(at, '<', (size_t)(end - at))) && (stop = memchr(at, '>', (size_t)(end - at)))) {
        struct facet_backend_read *list = realloc(result->reads, (result->read_count + 1) * sizeof *list);
        char path[256];

        if (!list)
            return;
        snprintf(path, sizeof path, "%.*s", (int)(stop - at - 1), at + 1);
        result->reads = list;
        list[result->read_count++] = read_of(path);
        at = stop;
    }
}

static enum facet_status fake_compile(const struct facet_backend_request *request,
                                      struct facet_backend_result *ret_result, struct facet_error *error)
{
    struct facet_backend_result result = {.frontend_ns = 1, .generate_ns = 2};
    char *text;

    count_compile();
    if (has_word(request, "die"))
        _exit(9);
    if (has_word(request, "slow"))
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    if (has_word(request, "warn") || has_word(request, "error"))
        add_diagnostic(&result, request->name, FACET_SEVERITY_WARNING, 2, 5, "unused variable 'n'");
    if (has_word(request, "error"))
        add_diagnostic(&result, request->name, FACET_SEVERITY_ERROR, 3, 1, "expected ';'");
    read_paths(request, &result);
    result.unrepeatable = has_word(request, "time");
    *ret_result = result;
    if (has_word(request, "error"))
        return facet_error_set(error, FACET_CORRUPT, "the source has errors");
    if (asprintf(&ret_result->description, DESCRIPTION, request->target, has_word(request, "lie") ? 22 : 0) < 0 ||
        asprintf(&text, ".version 8.0\n// facet: %s\n", ret_result->description) < 0)
        return FACET_NO_MEMORY;
    ret_result->image = text;
    ret_result->bytes = strlen(text);
    return FACET_OK;
}

static void fake_clear(struct facet_backend_result *result)
{
    for (uint32_t i = 0; i < result->diagnostic_count; i++) {
        free(result->diagnostics[i].file);
        free(result->diagnostics[i].text);
    }
    free(result->diagnostics);
    for (uint32_t i = 0; i < result->read_count; i++)
        free(result->reads[i].path);
    free(result->reads);
    free(result->image);
    free(result->description);
    *result = (struct facet_backend_result){0};
}

static int fake_knows(const char *family, const char *processor)
{
    return strcmp(processor, "sm_121") != 0 && strcmp(processor, "nothing") != 0;
}

FACET_API const struct facet_backend *facet_kernel_backend(void);

const struct facet_backend *facet_kernel_backend(void)
{
    static const struct facet_backend backend = {
        FACET_BACKEND_ABI, 0, "fake 1", fake_compile, fake_clear, fake_knows,
    };

    return &backend;
}
