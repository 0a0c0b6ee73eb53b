/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: judging the table of kernels of an object that was loaded.
 * Never: follows a pointer before it knows that it leads into the object, or calls anything.
 */
#include <string.h>

#include "cpu.h"

enum { KERNELS_MOST = 4096, ARGUMENTS_MOST = 512, NAME_MOST = 63 };

/* Where pointers may lead. */
struct loaded_image {
    const struct cpu_elf *elf;
    uint64_t base;
};

static const struct cpu_elf_part *part_of(const struct loaded_image *loaded_image, const void *pointer, uint64_t bytes)
{
    uint64_t address = (uint64_t)pointer - loaded_image->base;

    for (uint32_t i = 0; i < loaded_image->elf->count; i++) {
        const struct cpu_elf_part *part = &loaded_image->elf->parts[i];

        if (address >= part->at && address - part->at <= part->bytes && bytes <= part->bytes - (address - part->at))
            return part;
    }
    return NULL;
}

static bool is_array(const struct loaded_image *loaded_image, const void *pointer, uint64_t count, uint64_t item)
{
    return (uint64_t)pointer % 8 == 0 && part_of(loaded_image, pointer, count * item);
}

static bool is_text(const struct loaded_image *loaded_image, const char *text)
{
    const struct cpu_elf_part *part = text ? part_of(loaded_image, text, 1) : NULL;

    return part && memchr(text, '\0', loaded_image->base + part->at + part->bytes - (uint64_t)text);
}

static const char *fault_of_argument(const struct loaded_image *loaded_image, const struct facet_host_kernel *kernel,
                                     const struct facet_host_argument *argument)
{
    static const uint32_t bytes[] = {[FACET_ARGUMENT_GLOBAL] = 8,
                                     [FACET_ARGUMENT_LOCAL] = 4,
                                     [FACET_ARGUMENT_IMAGE] = 8,
                                     [FACET_ARGUMENT_SAMPLER] = 4};

    if (!is_text(loaded_image, argument->name) || !is_text(loaded_image, argument->type))
        return "an argument without a name";
    if (argument->kind < FACET_ARGUMENT_VALUE || argument->kind > FACET_ARGUMENT_SAMPLER)
        return "an argument of an unknown kind";
    bool sized = argument->kind == FACET_ARGUMENT_LOCAL && argument->bytes == FACET_HOST_LOCAL_CHECKED;
    if (argument->kind != FACET_ARGUMENT_VALUE && argument->bytes != bytes[argument->kind] && !sized)
        return "an argument whose size does not suit its kind";
    if (argument->offset > kernel->argument_bytes || argument->bytes > kernel->argument_bytes - argument->offset)
        return "an argument outside of its block";
    return NULL;
}

static const char *fault_of_kernel(const struct loaded_image *loaded_image, const struct facet_host_kernel *kernel)
{
    const struct cpu_elf_part *code = part_of(loaded_image, (const void *)(uintptr_t)kernel->run, 1);
    const char *fault = NULL;

    if (!is_text(loaded_image, kernel->name) || !kernel->name[0] || strlen(kernel->name) > NAME_MOST)
        return "a kernel without a name, or with one of more than 63 bytes";
    if (!code || !code->execute)
        return "a kernel without code";
    if (kernel->argument_bytes > CPU_ARGUMENTS_MOST || kernel->argument_count > ARGUMENTS_MOST)
        return "a kernel of too many arguments";
    if ((kernel->flags & FACET_HOST_ROWS) &&
        (kernel->scratch_item_bytes > 0 || kernel->local_bytes > 0 || kernel->required_group_size[0] > 0))
        return "a kernel that runs in rows and has memory of its own, or requires a group size";
    if (kernel->argument_count > 0 &&
        !is_array(loaded_image, kernel->arguments, kernel->argument_count, sizeof *kernel->arguments))
        return "a kernel without arguments";
    for (uint32_t i = 0; !fault && i < kernel->argument_count; i++)
        fault = fault_of_argument(loaded_image, kernel, &kernel->arguments[i]);
    return fault;
}

static const char *fault_of_kernels(const struct loaded_image *loaded_image, const struct facet_host_image *image)
{
    const char *fault = NULL;

    if (image->kernel_count > KERNELS_MOST ||
        !is_array(loaded_image, image->kernels, image->kernel_count, sizeof *image->kernels))
        return "no table of kernels";
    for (uint32_t i = 0; !fault && i < image->kernel_count; i++) {
        fault = fault_of_kernel(loaded_image, &image->kernels[i]);
        if (!fault && i > 0 && strcmp(image->kernels[i - 1].name, image->kernels[i].name) >= 0)
            fault = "kernels that are not in the order of their names";
    }
    return fault;
}

static const char *fault_of_check(const struct loaded_image *loaded_image, const struct facet_host_image *image)
{
    if (!image->check)
        return NULL;
    const struct cpu_elf_part *part = part_of(loaded_image, image->check, sizeof *image->check);
    if (!part || !part->write || (uint64_t)image->check % 8)
        return "no place for the functions of checked kernels";
    if (image->site_count > 0 && !is_array(loaded_image, image->sites, image->site_count, sizeof *image->sites))
        return "no table of sites";
    for (uint32_t i = 0; i < image->site_count; i++)
        if (!is_text(loaded_image, image->sites[i].file))
            return "a site without a file";
    return NULL;
}

static const char *fault_of_table(const struct loaded_image *loaded_image, const struct facet_host_image *image)
{
    if (!is_array(loaded_image, image, 1, sizeof *image) || image->magic != FACET_HOST_IMAGE_MAGIC)
        return "no " FACET_HOST_IMAGE_NAME;
    if (image->abi != FACET_HOST_IMAGE_ABI || image->size < sizeof *image)
        return "a table of another version";
    if (!is_text(loaded_image, image->target) || strncmp(image->target, "host", 4) != 0)
        return "another target than host";
    if (!is_text(loaded_image, image->features))
        return "no list of features";
    const char *fault = fault_of_kernels(loaded_image, image);
    return fault ? fault : fault_of_check(loaded_image, image);
}

/* Whether " feature " is among " fpu vme ... ". */
static bool has_feature(const char *features, const char *feature, size_t length)
{
    for (const char *found = features; (found = strstr(found, feature)); found++) {
        if (found > features && found[-1] == ' ' && found[length] == ' ')
            return true;
    }
    return false;
}

static enum facet_status check_features(const char *needed, const char *features, struct facet_error *error)
{
    char feature[32];

    while (*needed) {
        size_t length = strcspn(needed, ",");

        if (length >= sizeof feature)
            return facet_kit_fail(error, FACET_CORRUPT, "image: feature '%.40s': expected a shorter name", needed);
        memcpy(feature, needed, length);
        feature[length] = '\0';
        if (length > 0 && !has_feature(features, feature, length))
            return facet_kit_fail(error, FACET_CORRUPT,
                                  "image: it needs the feature %s; expected one that this processor has", feature);
        needed += length + (needed[length] == ',');
    }
    return FACET_OK;
}

enum facet_status cpu_image_check(const struct facet_host_image *image, const struct cpu_elf *elf, uint64_t base,
                                  const char *features, struct facet_error *error)
{
    const struct loaded_image loaded_image = {.elf = elf, .base = base};
    const char *fault = fault_of_table(&loaded_image, image);

    if (fault)
        return facet_kit_fail(error, FACET_CORRUPT, "image: it has %s", fault);
    return check_features(image->features, features, error);
}
