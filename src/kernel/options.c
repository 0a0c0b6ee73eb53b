/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: checking a compile's options. Never: reads beyond the size of the struct that a caller was built with. */
#include "kernel/options.h"

#include <inttypes.h>
#include <string.h>

#include "base/config.h"
#include "base/sized.h"
#include "kernel/image.h"

enum { ARGUMENTS_MAX = 4096, SECONDS_DEFAULT = 600 };

static bool starts_with(const unsigned char *bytes, size_t size, const void *with, size_t length)
{
    return size >= length && memcmp(bytes, with, length) == 0;
}

/* Whether a text is LLVM IR: after comments and blanks it begins as no C source does. */
static bool is_ir_text(const char *text, size_t size)
{
    static const char *const beginnings[] = {"; ModuleID", "target triple", "target datalayout", "source_filename"};

    for (size_t at = 0; at < size;) {
        const char *stop = memchr(text + at, '\n', size - at);
        size_t length = stop ? (size_t)(stop - text) - at : size - at;

        for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
            if (starts_with((const unsigned char *)text + at, length, beginnings[i], strlen(beginnings[i])))
                return true;
        if (length && text[at] != ';' && text[at] != '\r' && text[at] != ' ')
            return false;
        at += length + 1;
    }
    return false;
}

uint32_t facet_source_detect(const void *source, size_t bytes)
{
    static const unsigned char bitcode[] = {'B', 'C', 0xc0, 0xde}, wrapped[] = {0xde, 0xc0, 0x17, 0x0b},
                               spirv[] = {0x03, 0x02, 0x23, 0x07}, spirv_big[] = {0x07, 0x23, 0x02, 0x03};

    if (starts_with(source, bytes, bitcode, 4) || starts_with(source, bytes, wrapped, 4) || is_ir_text(source, bytes))
        return FACET_SOURCE_LLVM_IR;
    if (starts_with(source, bytes, spirv, 4) || starts_with(source, bytes, spirv_big, 4))
        return FACET_SOURCE_SPIRV;
    return FACET_SOURCE_OPENCL_C;
}

static enum facet_status refuse_number(struct facet_error *error, const char *name, uint32_t value,
                                       const char *expected)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s %u: expected %s", name, value, expected);
}

static enum facet_status check_numbers(const struct facet_compile_options *options, struct facet_error *error)
{
    if (options->source > FACET_SOURCE_SPIRV)
        return refuse_number(error, "source", options->source, "an enum facet_source_kind");
    if (options->optimize > FACET_OPTIMIZE(3))
        return refuse_number(error, "optimize", options->optimize, "FACET_OPTIMIZE(0) to FACET_OPTIMIZE(3)");
    if (options->check > 1)
        return refuse_number(error, "check", options->check, "0 or 1");
    if (options->seconds > FACET_COMPILE_SECONDS_MOST)
        return refuse_number(error, "seconds", options->seconds, "at most 604800");
    FACET_NEED_RESERVED("options", options, error);
    size_t count = 0;
    while (options->arguments && options->arguments[count])
        if (++count > ARGUMENTS_MAX)
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, "arguments",
                                        "arguments: more than %d; expected a list that ends with NULL", ARGUMENTS_MAX);
    return FACET_OK;
}

static enum facet_status take_options(const struct facet_compile_options *given, struct facet_compile_options *copy,
                                      struct facet_error *error)
{
    *copy = (struct facet_compile_options){.size = sizeof *copy};
    if (given && given->size < sizeof given->size)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "options", "size %u: expected at least %zu",
                                    given->size, sizeof given->size);
    FACET_NEED_KNOWN("options", given, error);
    if (given)
        FACET_SIZED_TAKE(copy, given);
    return check_numbers(copy, error);
}

/*
 * The environment may ask for checked images, too. When the target has no checked images, the image is not checked, and
 * a remark in the image says so.
 */
static enum facet_status read_check(uint32_t asked, struct facet_compile_job *job, uint32_t *ret_check,
                                    struct facet_error *error)
{
    bool can = job->target.family == FACET_TARGET_HOST;
    uint64_t wanted = 0;

    if (asked && !can)
        return facet_error_argument(error, FACET_UNSUPPORTED, "check",
                                    "target '%s' has no checked images; expected host", job->target.name);
    enum facet_status status = asked ? FACET_OK : facet_config_u64(FACET_SETTING_CHECK, &wanted, error);
    if (status != FACET_OK)
        return status;
    job->unchecked = wanted && !can;
    *ret_check = asked || (wanted && can);
    return FACET_OK;
}

/* Skips the byte order mark that editors write; refuses encodings other than UTF-8, which the compiler cannot read. */
static enum facet_status read_text(const void **source, size_t *bytes, struct facet_error *error)
{
    if (!*source)
        *bytes = 0;
    if (*bytes > FACET_COMPILE_BYTES_MOST)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "bytes", "bytes %zu: expected at most %" PRIu64, *bytes,
                                    FACET_COMPILE_BYTES_MOST);
    if (starts_with(*source, *bytes, "\xff\xfe", 2) || starts_with(*source, *bytes, "\xfe\xff", 2))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "source", "source is UTF-16; expected UTF-8");
    if (starts_with(*source, *bytes, "\xef\xbb\xbf", 3)) {
        *source = (const char *)*source + 3;
        *bytes -= 3;
    }
    if (!*bytes)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "source", "source is empty; expected a program");
    if (facet_image_is_code(*source, *bytes))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "source",
                                    "source is code already; expected OpenCL C, LLVM IR or SPIR-V");
    return FACET_OK;
}

enum facet_status facet_compile_job_init(const void *source, size_t bytes, const struct facet_compile_options *options,
                                         struct facet_compile_job *ret_job, struct facet_error *error)
{
    struct facet_compile_options copy;
    enum facet_status status = take_options(options, &copy, error);

    if (status == FACET_OK)
        status = facet_target_read(copy.target ? copy.target : "host", &ret_job->target, error);
    if (status != FACET_OK)
        return status;
    status = read_text(&source, &bytes, error);
    if (status == FACET_OK)
        status = read_check(copy.check, ret_job, &copy.check, error);
    if (status != FACET_OK)
        return status;
    ret_job->request = (struct facet_backend_request){
        .source = source,
        .bytes = bytes,
        .target = ret_job->target.name,
        .name = copy.name && copy.name[0] ? copy.name : "kernel.cl",
        .arguments = copy.arguments,
        .source_kind = copy.source ? copy.source : facet_source_detect(source, bytes),
        .optimize = copy.optimize,
        .check = copy.check,
        .seconds = copy.seconds ? copy.seconds : SECONDS_DEFAULT,
    };
    return FACET_OK;
}
