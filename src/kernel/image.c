/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: images in memory, their reference counts, and their accessors. Never: reads a file format; parse.c does. */
#include "kernel/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static void diagnostic_clear(const struct facet_diagnostic *diagnostic)
{
    free((char *)diagnostic->file);
    free((char *)diagnostic->text);
}

void facet_image_destroy(struct facet_image *image)
{
    if (!image || atomic_fetch_sub(&image->references, 1) > 1)
        return;
    for (uint32_t i = 0; i < image->diagnostic_count; i++)
        diagnostic_clear(&image->diagnostics[i]);
    free(image->diagnostics);
    free(image->kernels);
    free(image->arguments);
    json_decref(image->description);
    facet_manifest_clear(&image->manifest);
    free(image->bytes);
    free(image);
}

struct facet_image *facet_image_hold(const struct facet_image *image)
{
    /* The reference count is the only member that changes once an image is handed out. */
    struct facet_image *held = (struct facet_image *)image;

    atomic_fetch_add(&held->references, 1);
    return held;
}

/* Sets the target: the given one, or that of the description. It must be in the table of targets. */
static enum facet_status take_target(struct facet_image *image, const char *target, struct facet_error *error)
{
    struct facet_target parsed;
    const char *target_text = json_string_value(json_object_get(image->description, "target"));

    if (!target_text)
        target_text = target;
    if (!target_text || facet_target_read(target_text, &parsed, NULL) != FACET_OK)
        return facet_error_argument(error, FACET_CORRUPT, "image",
                                    "image's description: target '%.40s': expected a known target",
                                    target_text ? target_text : "");
    memcpy(image->target, parsed.name, sizeof image->target);
    return FACET_OK;
}

static enum facet_status take_description(struct facet_image *image, const char *text, size_t length,
                                          struct facet_error *error)
{
    json_error_t where;

    image->description = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
    if (!image->description)
        return facet_error_argument(error, FACET_CORRUPT, "image", "image's description: not JSON: %s", where.text);
    return facet_image_describe(image, error);
}

enum facet_status facet_image_create(const void *bytes, size_t size, const char *description, size_t length,
                                     const char *target, struct facet_image **ret_image, struct facet_error *error)
{
    FACET_CLEANUP_IMAGE struct facet_image *image = calloc(1, sizeof *image);
    enum facet_status status = FACET_OK;

    if (!image || (bytes && !(image->bytes = malloc(size + 1))))
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for an image of %zu bytes", size);
    atomic_init(&image->references, 1);
    image->size = size;
    if (bytes)
        memcpy(image->bytes, bytes, size);
    if (description)
        status = take_description(image, description, length, error);
    if (status == FACET_OK)
        status = take_target(image, target, error);
    if (status != FACET_OK)
        return status;
    image->statistics = (struct facet_compile_statistics){.size = sizeof image->statistics, .image_bytes = size};
    *ret_image = image;
    image = NULL;
    return FACET_OK;
}

/* A copy for printing: control characters, except those in `kept`, and bytes that are not UTF-8 become escapes. */
static char *printable_copy(const char *text, const char *kept)
{
    const char *from = text ? text : "";
    char *copy = malloc(strlen(from) * (FACET_TEXT_SHOWN_SIZE - 1) + 1), *to = copy;
    char shown[FACET_TEXT_SHOWN_SIZE];
    size_t length;

    for (; copy && (length = facet_text_show(from, shown)); from += length)
        to = stpcpy(to, strchr(kept, *from) ? (const char[]){*from, '\0'} : shown);
    if (copy)
        *to = '\0';
    return copy;
}

bool facet_image_remark(struct facet_image *image, const struct facet_diagnostic *diagnostic)
{
    struct facet_diagnostic *list =
        realloc(image->diagnostics, (image->diagnostic_count + 1) * sizeof *image->diagnostics);

    if (!list)
        return false;
    image->diagnostics = list;
    struct facet_diagnostic copy = *diagnostic;
    copy.file = printable_copy(diagnostic->file, "");
    copy.text = printable_copy(diagnostic->text, "\t\n");
    if (!copy.file || !copy.text) {
        diagnostic_clear(&copy);
        return false;
    }
    list[image->diagnostic_count++] = copy;
    return true;
}

const void *facet_image_bytes(const struct facet_image *image, size_t *ret_size)
{
    if (ret_size)
        *ret_size = image->size;
    return image->bytes;
}

const char *facet_image_target(const struct facet_image *image)
{
    return image->target;
}

void facet_image_statistics(const struct facet_image *image, struct facet_compile_statistics *ret_statistics)
{
    uint32_t size = ret_statistics->size < sizeof image->statistics ? ret_statistics->size : sizeof image->statistics;

    if (size < sizeof size)
        return;
    memcpy(ret_statistics, &image->statistics, size);
    ret_statistics->size = size;
}

int facet_image_diagnostic(const struct facet_image *image, uint32_t index, struct facet_diagnostic *ret_diagnostic)
{
    if (index >= image->diagnostic_count)
        return 0;
    *ret_diagnostic = image->diagnostics[index];
    return 1;
}

const struct facet_host_kernel *facet_image_kernel(const struct facet_image *image, uint32_t index)
{
    return index < image->kernel_count ? &image->kernels[index] : NULL;
}

const struct facet_host_kernel *facet_image_find(const struct facet_image *image, const char *name)
{
    for (uint32_t i = 0; name && i < image->kernel_count; i++)
        if (strcmp(image->kernels[i].name, name) == 0)
            return &image->kernels[i];
    return NULL;
}
