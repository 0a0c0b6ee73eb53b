/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: SPIR-V's words. Never: trusts a length or an id in them. */
#include "kernel/compile/spirv.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kernel/compile/files.h"

enum {
    HEADER_WORDS = 5,
    ID_BOUND_MAX = 4 << 20, /* SPIR-V's own limit for ids */
    OP_TYPE_BOOL = 20,
    OP_TYPE_INT = 21,
    OP_TYPE_FLOAT = 22,
    OP_CONSTANT_FALSE = 42,
    OP_CONSTANT = 43,
    OP_CONSTANT_NULL = 46,
    OP_DECORATE = 71,
    DECORATION_ALIGNMENT = 44,
    SECONDS = 30, /* of processor time, which a child may use */
    PATH_SIZE = sizeof((struct facet_folder *)NULL)->path + 16,
};

#define MAGIC            UINT32_C(0x07230203)
#define OUTPUT_MAX_BYTES ((size_t)256 << 20)

/* The array `zeros` has for each id of an integer or float type how many words a zero has; for other ids: */
enum { NOT_A_NUMBER = 0, BOOLEAN = 255 };

static enum facet_status refuse_module(struct facet_error *error, const char *why)
{
    return facet_error_argument(error, FACET_CORRUPT, "source", "not SPIR-V: %s", why);
}

static enum facet_status check_header(const uint32_t *words, size_t count, struct facet_error *error)
{
    if (count < HEADER_WORDS)
        return refuse_module(error, "cut off in its header");
    if (words[0] == __builtin_bswap32(MAGIC))
        return refuse_module(error, "in big-endian order; expected little-endian");
    if (words[0] != MAGIC)
        return refuse_module(error, "no magic number");
    if (words[3] > ID_BOUND_MAX)
        return refuse_module(error, "more than 4194304 ids");
    return FACET_OK;
}

/* Notes the type that this instruction declares. */
static void note_type(const uint32_t *instruction, uint32_t length, uint8_t *zeros, uint32_t bound)
{
    uint32_t operation = instruction[0] & 0xffff;

    if (length < 2 || instruction[1] >= bound)
        return;
    if (operation == OP_TYPE_BOOL)
        zeros[instruction[1]] = BOOLEAN;
    if ((operation == OP_TYPE_INT || operation == OP_TYPE_FLOAT) && length >= 3)
        zeros[instruction[1]] = instruction[2] > 32 ? 2 : 1;
}

/* LLVM's generator keeps the alignment of private variables in eight bits with a sign, so 128 becomes this. */
#define MINUS_128 UINT32_C(0xffffff80)

static bool is_alignment_of_128(const uint32_t *instruction, uint32_t length)
{
    return instruction[0] == (UINT32_C(4) << 16 | OP_DECORATE) && length == 4 &&
           instruction[2] == DECORATION_ALIGNMENT && instruction[3] == MINUS_128;
}

/* Writes the instruction, or its replacement; returns the number of words. */
static uint32_t write_plain(const uint32_t *instruction, uint32_t length, const uint8_t *zeros, uint32_t bound,
                            uint32_t *to)
{
    uint32_t zero;

    memcpy(to, instruction, length * sizeof *to);
    if (is_alignment_of_128(instruction, length))
        to[3] = 128;
    if ((instruction[0] & 0xffff) != OP_CONSTANT_NULL || length < 3 || instruction[1] >= bound)
        return length;
    zero = zeros[instruction[1]];
    to[0] = (uint32_t)3 << 16 | OP_CONSTANT_NULL;
    if (zero == NOT_A_NUMBER)
        return 3;
    if (zero == BOOLEAN) {
        to[0] = (uint32_t)3 << 16 | OP_CONSTANT_FALSE;
        return 3;
    }
    to[0] = (3 + zero) << 16 | OP_CONSTANT;
    memset(to + 3, 0, zero * sizeof *to);
    return 3 + zero;
}

static enum facet_status rewrite_module(const uint32_t *words, size_t count, uint8_t *zeros, uint32_t *made,
                                        size_t *ret_count, struct facet_error *error)
{
    size_t used = HEADER_WORDS;

    memcpy(made, words, HEADER_WORDS * sizeof *made);
    for (size_t at = HEADER_WORDS; at < count;) {
        uint32_t length = words[at] >> 16;

        if (!length || length > count - at)
            return refuse_module(error, "cut off in an instruction");
        note_type(words + at, length, zeros, words[3]);
        used += write_plain(words + at, length, zeros, words[3], made + used);
        at += length;
    }
    *ret_count = used;
    return FACET_OK;
}

enum facet_status facet_spirv_plain(const void *bytes, size_t size, uint32_t **ret_words, size_t *ret_count,
                                    struct facet_error *error)
{
    size_t count = size / sizeof(uint32_t);
    FACET_CLEANUP_FREE uint32_t *words = malloc(size + sizeof *words);
    /* A null constant has three words at least, and is rewritten to five at most. */
    FACET_CLEANUP_FREE uint32_t *made = malloc(count * 2 * sizeof *made + sizeof *made);

    if (size % sizeof(uint32_t))
        return refuse_module(error, "not of whole words");
    if (!words || !made)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %zu bytes of SPIR-V", size);
    memcpy(words, bytes, size);
    enum facet_status status = check_header(words, count, error);
    if (status != FACET_OK)
        return status;
    FACET_CLEANUP_FREE uint8_t *zeros = calloc((size_t)words[3] + 1, 1);
    if (!zeros)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %u ids", words[3]);
    status = rewrite_module(words, count, zeros, made, ret_count, error);
    if (status == FACET_OK)
        *ret_words = FACET_TAKE_PTR(made);
    return status;
}

/* The first line of a program's messages. */
static const char *first_line(struct facet_child *child)
{
    child->text[strcspn(child->text, "\n")] = '\0';
    return child->text[0] ? child->text : "no reason given";
}

/* A module that the validator refuses may make the translator do anything. When the validator is not installed, the
 * translator runs all the same: it is a child, and its output is verified. */
static enum facet_status validate_module(const char *path, struct facet_error *error)
{
    const char *const arguments[] = {"spirv-val", "--target-env", "spv1.6", path, NULL};
    struct facet_child child = {0};
    struct facet_error reason = {0};
    enum facet_status status = facet_child_run(arguments, SECONDS, OUTPUT_MAX_BYTES, &child, &reason);

    if (status == FACET_NOT_FOUND)
        return FACET_OK;
    if (status != FACET_OK)
        return facet_error_set(error, status, "%s", reason.message);
    free(child.output);
    if (child.exit_status == 0)
        return FACET_OK;
    return facet_error_argument(error, FACET_CORRUPT, "source", "the SPIR-V is not valid: %s", first_line(&child));
}

static enum facet_status take_result(struct facet_child *child, void **ret_bitcode, size_t *ret_size,
                                     struct facet_error *error)
{
    if (child->exit_status == 0 && child->bytes) {
        *ret_bitcode = FACET_TAKE_PTR(child->output);
        *ret_size = child->bytes;
        return FACET_OK;
    }
    free(child->output);
    if (child->exit_status < 0)
        return facet_error_argument(error, FACET_CORRUPT, "source",
                                    "the SPIR-V translator ended by signal %d on this module: %s", child->signal,
                                    first_line(child));
    return facet_error_argument(error, FACET_CORRUPT, "source", "the SPIR-V translator refuses the module: %s",
                                first_line(child));
}

static enum facet_status translate_module(const char *path, void **ret_bitcode, size_t *ret_size,
                                          struct facet_error *error)
{
    static const char *const programs[] = {"llvm-spirv-15", "llvm-spirv"};
    struct facet_child child = {0};
    struct facet_error reason = {0};

    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        const char *const arguments[] = {programs[i], "-r", path, "-o", "-", NULL};
        enum facet_status status = facet_child_run(arguments, SECONDS, OUTPUT_MAX_BYTES, &child, &reason);

        if (status == FACET_OK)
            return take_result(&child, ret_bitcode, ret_size, error);
        if (status != FACET_NOT_FOUND)
            return facet_error_set(error, status, "%s", reason.message);
    }
    return facet_error_set(error, FACET_UNSUPPORTED,
                           "compiling SPIR-V needs the translator llvm-spirv-15 (package llvm-spirv-15)");
}

/* Writes the words to a file in a new folder, for children. `ret_path` has room for the folder's and the file's
 * name. */
static enum facet_status write_file_for_child(const uint32_t *words, size_t count, struct facet_folder *folder,
                                              char *ret_path, struct facet_error *error)
{
    enum facet_status status = facet_folder_make(folder, error);

    if (status != FACET_OK)
        return status;
    snprintf(ret_path, PATH_SIZE, "%s/in.spv", folder->path);
    status = facet_file_write(ret_path, words, count * sizeof *words, error);
    if (status != FACET_OK)
        facet_folder_remove(folder);
    return status;
}

enum facet_status facet_spirv_check(const void *bytes, size_t size, struct facet_error *error)
{
    struct facet_folder folder;
    char path[PATH_SIZE];
    enum facet_status status = write_file_for_child(bytes, size / sizeof(uint32_t), &folder, path, error);

    if (status != FACET_OK)
        return status;
    status = validate_module(path, error);
    facet_folder_remove(&folder);
    return status;
}

enum facet_status facet_spirv_translate(const void *bytes, size_t size, void **ret_bitcode, size_t *ret_size,
                                        struct facet_error *error)
{
    FACET_CLEANUP_FREE uint32_t *words = NULL;
    struct facet_folder folder;
    char path[PATH_SIZE];
    size_t count = 0;
    enum facet_status status = facet_spirv_plain(bytes, size, &words, &count, error);

    if (status == FACET_OK)
        status = write_file_for_child(words, count, &folder, path, error);
    if (status != FACET_OK)
        return status;
    status = validate_module(path, error);
    if (status == FACET_OK)
        status = translate_module(path, ret_bitcode, ret_size, error);
    facet_folder_remove(&folder);
    return status;
}
