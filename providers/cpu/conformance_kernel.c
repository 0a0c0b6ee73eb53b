/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel that `facet provider check` launches (docs/providers.md), written as the kernel compiler would make it.
 *
 * Owns: one host image. Never: links with the provider: it is built as an object of its own, and loaded like any image.
 */
#include <facet/host_kernel.h>

struct arguments {
    uint64_t address, count, value;
};

static void store_words(const void *block, const struct facet_host_group *group)
{
    const struct arguments *arguments = block;
    volatile uint64_t *words = (volatile uint64_t *)arguments->address;

    (void)group;
    for (uint64_t i = 0; i < arguments->count; i++)
        words[i] = arguments->value;
}

static const struct facet_host_argument arguments[] = {
    {.name = "words",
     .type = "ulong*",
     .kind = FACET_ARGUMENT_GLOBAL,
     .offset = 0,
     .bytes = 8,
     .access = FACET_ARGUMENT_WRITES},
    {.name = "count", .type = "ulong", .kind = FACET_ARGUMENT_VALUE, .offset = 8, .bytes = 8},
    {.name = "value", .type = "ulong", .kind = FACET_ARGUMENT_VALUE, .offset = 16, .bytes = 8},
};

static const struct facet_host_kernel kernels[] = {
    {.name = "store_words",
     .run = store_words,
     .arguments = arguments,
     .argument_count = 3,
     .argument_bytes = sizeof(struct arguments)},
};

extern const struct facet_host_image facet_host_image;

__attribute__((visibility("default"))) const struct facet_host_image facet_host_image = {
    .magic = FACET_HOST_IMAGE_MAGIC,
    .abi = FACET_HOST_IMAGE_ABI,
    .size = sizeof facet_host_image,
    .kernel_count = 1,
    .kernels = kernels,
    .target = "host",
    .features = "",
};
