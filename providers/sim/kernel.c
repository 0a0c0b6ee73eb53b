/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: parsing images of simulated kernels. Never: accepts an unknown member or value. */
#include "kernel.h"

#include <stdbool.h>
#include <stdlib.h>

#include "provider_kit.h"

#define WORD_MAX 96 /* the longest word of a valid line is shorter */

/* The line that is being parsed. Words end at blanks. `at` is the next character, and never passes `end`. */
struct line {
    const char *at, *end;
    uint32_t number;
    struct facet_error *error;
};

/* A member "key=value" of a kernel's line. */
struct member {
    const char *key;
    uint64_t max;
    size_t offset; /* of the 64-bit number in struct sim_kernel; effect and tensor_milli have code of their own */
};

static const struct member numbers[] = {
    {"cycles_per_group", SIM_COST_MAX, offsetof(struct sim_kernel, cycles_per_group)},
    {"bytes_per_group", SIM_COST_MAX, offsetof(struct sim_kernel, bytes_per_group)},
    {"duration_ns", SIM_COST_MAX, offsetof(struct sim_kernel, duration_ns)},
};

/* Bits of members that a line has; the first three are in the order of `numbers`. */
enum { SEEN_CYCLES = 1, SEEN_BYTES = 2, SEEN_DURATION = 4, SEEN_TENSOR = 8, SEEN_EFFECT = 16 };

static const char *const effect_names[] = {"none", "fill", "add", "copy"};

static bool is_blank(char letter)
{
    return letter == ' ' || letter == '\t';
}

static enum facet_status refuse_member(const struct line *line, const char *member, const char *expected)
{
    char shown[WORD_MAX];

    FACET_KIT_TEXT(shown, member);
    return facet_kit_fail(line->error, FACET_CORRUPT, "image line %" PRIu32 ": '%s': expected %s", line->number, shown,
                          expected);
}

/* The next word, terminated; empty at the end of the line. A word that does not fit is cut, and so matches nothing. */
static void next_word(struct line *line, char word[WORD_MAX])
{
    size_t length = 0;

    while (line->at < line->end && is_blank(*line->at))
        line->at++;
    for (; line->at < line->end && !is_blank(*line->at); line->at++)
        if (length + 1 < WORD_MAX)
            word[length++] = *line->at ? *line->at : '?';
    word[length] = '\0';
}

static bool is_name(const char *word)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";
    size_t length = strlen(word);

    return length > 0 && length < sizeof((struct sim_kernel *)0)->name && strspn(word, letters) == length;
}

static bool parse_number(const char *text, uint64_t max, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (uint64_t)(*text - '0');
        if (value > max)
            return false;
    }
    *ret_value = value;
    return true;
}

static bool parse_effect(const char *text, enum sim_effect *ret_effect)
{
    for (size_t i = 0; i < sizeof effect_names / sizeof *effect_names; i++) {
        if (strcmp(text, effect_names[i]) == 0) {
            *ret_effect = (enum sim_effect)i;
            return true;
        }
    }
    return false;
}

/* Stores the value of one member. Returns its SEEN bit, or 0 with the expectation for the message. */
static unsigned parse_value(const char *key, const char *value, struct sim_kernel *kernel, const char **ret_expected)
{
    uint64_t number;

    *ret_expected = "a whole number below 2^40";
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i].key) == 0)
            return parse_number(value, numbers[i].max, (uint64_t *)(void *)((char *)kernel + numbers[i].offset))
                       ? 1u << i
                       : 0;
    if (strcmp(key, "tensor_milli") == 0) {
        *ret_expected = "a whole number up to 1000";
        if (!parse_number(value, 1000, &number))
            return 0;
        kernel->tensor_milli = (uint32_t)number;
        return SEEN_TENSOR;
    }
    if (strcmp(key, "effect") == 0) {
        *ret_expected = "none, fill, add or copy";
        return parse_effect(value, &kernel->effect) ? SEEN_EFFECT : 0;
    }
    *ret_expected = "cycles_per_group, bytes_per_group, duration_ns, tensor_milli or effect";
    return 0;
}

static enum facet_status parse_members(struct line *line, struct sim_kernel *kernel)
{
    char word[WORD_MAX];
    unsigned seen = 0;

    for (next_word(line, word); word[0]; next_word(line, word)) {
        char *equals = strchr(word, '=');
        const char *expected;

        if (!equals)
            return refuse_member(line, word, "key=value");
        *equals = '\0';
        unsigned bit = parse_value(word, equals + 1, kernel, &expected);
        if (!bit)
            return refuse_member(line, word, expected);
        if (seen & bit)
            return refuse_member(line, word, "it once");
        seen |= bit;
    }
    if (!(seen & (SEEN_CYCLES | SEEN_BYTES | SEEN_DURATION)))
        return refuse_member(line, kernel->name, "cycles_per_group, bytes_per_group or duration_ns");
    if ((seen & SEEN_DURATION) && (seen & (SEEN_CYCLES | SEEN_BYTES)))
        return refuse_member(line, "duration_ns", "no cycles_per_group and no bytes_per_group beside it");
    if ((seen & SEEN_DURATION) && kernel->duration_ns == 0)
        return refuse_member(line, "duration_ns", "at least 1");
    return FACET_OK;
}

/* A blank line or a comment leaves the kernel without a name. */
static enum facet_status parse_line(struct line *line, struct sim_kernel *ret_kernel)
{
    struct sim_kernel kernel = {.line = line->number};
    char word[WORD_MAX];

    next_word(line, word);
    if (!word[0] || word[0] == '#') {
        *ret_kernel = kernel;
        return FACET_OK;
    }
    if (strcmp(word, "kernel") != 0)
        return refuse_member(line, word, "kernel");
    next_word(line, word);
    if (!is_name(word))
        return refuse_member(line, word, "a name of 1 to 63 letters, digits, '_', '.', ':' and '-'");
    FACET_KIT_TEXT(kernel.name, word);
    enum facet_status status = parse_members(line, &kernel);
    if (status == FACET_OK)
        *ret_kernel = kernel;
    return status;
}

static enum facet_status append_kernel(struct sim_image *image, size_t *capacity, const struct sim_kernel *kernel,
                                       struct facet_error *error)
{
    if (image->count == *capacity) {
        size_t larger = *capacity ? *capacity * 2 : 4;
        struct sim_kernel *kernels = reallocarray(image->kernels, larger, sizeof *kernels);

        if (!kernels)
            return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %zu kernels", larger);
        image->kernels = kernels;
        *capacity = larger;
    }
    image->kernels[image->count++] = *kernel;
    return FACET_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct sim_kernel *)a)->name, ((const struct sim_kernel *)b)->name);
}

static enum facet_status parse_lines(const char *text, uint64_t bytes, struct sim_image *image,
                                     struct facet_error *error)
{
    struct line line = {.error = error};
    const char *end = text + bytes;
    size_t capacity = 0;

    for (const char *at = text, *after; at < end; at = after) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        struct sim_kernel kernel;

        after = newline ? newline + 1 : end;
        line = (struct line){.at = at, .end = newline ? newline : end, .number = line.number + 1, .error = error};
        enum facet_status status = parse_line(&line, &kernel);
        if (status == FACET_OK && kernel.name[0])
            status = append_kernel(image, &capacity, &kernel, error);
        if (status != FACET_OK)
            return status;
    }
    if (image->count == 0)
        return facet_kit_fail(error, FACET_CORRUPT, "image: no kernel: expected lines 'kernel NAME key=value ...'");
    return FACET_OK;
}

/* Sorts by name, and refuses a name that occurs twice. */
static enum facet_status sort_kernels(struct sim_image *image, struct facet_error *error)
{
    qsort(image->kernels, image->count, sizeof *image->kernels, compare_names);
    for (size_t i = 1; i < image->count; i++) {
        const struct sim_kernel *a = &image->kernels[i - 1], *b = &image->kernels[i];

        if (strcmp(a->name, b->name) == 0)
            return facet_kit_fail(
                error, FACET_CORRUPT, "image line %" PRIu32 ": '%s': expected another name than line %" PRIu32,
                a->line > b->line ? a->line : b->line, a->name, a->line > b->line ? b->line : a->line);
    }
    return FACET_OK;
}

enum facet_status sim_image_parse(const void *text, uint64_t bytes, struct sim_image *ret_image,
                                  struct facet_error *error)
{
    struct sim_image image = {0};

    if (bytes > SIM_IMAGE_MAX_BYTES)
        return facet_kit_fail(error, FACET_CORRUPT, "image of %" PRIu64 " bytes: expected at most %" PRIu64, bytes,
                              SIM_IMAGE_MAX_BYTES);
    enum facet_status status = parse_lines(text, bytes, &image, error);
    if (status == FACET_OK)
        status = sort_kernels(&image, error);
    if (status == FACET_OK)
        *ret_image = image;
    else
        sim_image_clear(&image);
    return status;
}

void sim_image_clear(struct sim_image *image)
{
    free(image->kernels);
    *image = (struct sim_image){0};
}

const struct sim_kernel *sim_image_find(const struct sim_image *image, const char *name)
{
    struct sim_kernel key = {0};

    FACET_KIT_TEXT(key.name, name);
    return bsearch(&key, image->kernels, image->count, sizeof key, compare_names);
}
