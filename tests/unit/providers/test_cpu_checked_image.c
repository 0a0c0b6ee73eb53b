/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checked kernels for the tests of the cpu provider, which make wrong accesses if their arguments are wrong.
 *
 * Owns: one checked host image. Never: linked into a test; it is loaded.
 */
#include <facet/host_kernel.h>

enum { SITE_GLOBAL, SITE_LOCAL, SITE_RACE, SITES };

struct arguments {
    uint32_t *words;
    uint32_t count, stride;
};

static const struct facet_host_check *check;

static int may_access(const struct facet_host_group *group, const void *address, uint32_t flags, uint32_t item,
                      uint32_t site)
{
    return check->access(group->check, address, sizeof(uint32_t), flags, item, site);
}

/* Each item writes words[item * stride]: the test chooses a stride and a grid that pass the end of the block. */
static void run_store(const void *block, const struct facet_host_group *group)
{
    const struct arguments *arguments = block;

    for (uint32_t i = 0; i < group->group_size[0]; i++) {
        uint32_t at = group->group_id[0] * group->group_size[0] + i;
        uint32_t *word = &arguments->words[at * arguments->stride];

        if (may_access(group, word, FACET_CHECK_WRITE, i, SITE_GLOBAL))
            *word = at;
    }
}

/* Each item writes its word of local memory and reads its neighbour's. If `stride` is 1, a barrier is between them. */
static void run_neighbour(const void *block, const struct facet_host_group *group)
{
    const struct arguments *arguments = block;
    uint32_t *local = group->local, items = group->group_size[0];

    for (uint32_t i = 0; i < items; i++)
        if (may_access(group, &local[i], FACET_CHECK_WRITE | FACET_CHECK_LOCAL, i, SITE_LOCAL))
            local[i] = i;
    if (arguments->stride)
        check->barrier(group->check);
    for (uint32_t i = 0; i < items; i++)
        if (may_access(group, &local[(i + 1) % items], FACET_CHECK_LOCAL, i, SITE_RACE))
            arguments->words[i] = local[(i + 1) % items];
}

/* Item 0 accesses the first word with the flags of facet_host_check in `count`, and item 1 with those in `stride`. */
static void run_share(const void *block, const struct facet_host_group *group)
{
    const struct arguments *arguments = block;

    may_access(group, arguments->words, arguments->count, 0, SITE_GLOBAL);
    may_access(group, arguments->words, arguments->stride, 1, SITE_RACE);
}

struct local_arguments {
    uint32_t at, bytes;
};

static void run_nothing(const void *block, const struct facet_host_group *group)
{
    (void)block, (void)group;
}

static const struct facet_host_argument locals[] = {
    {.name = "shared", .type = "uint*", .kind = FACET_ARGUMENT_LOCAL, .bytes = FACET_HOST_LOCAL_CHECKED},
};

static const struct facet_host_argument list[] = {
    {.name = "words", .type = "uint*", .kind = FACET_ARGUMENT_GLOBAL, .offset = 0, .bytes = 8},
    {.name = "count", .type = "uint", .kind = FACET_ARGUMENT_VALUE, .offset = 8, .bytes = 4},
    {.name = "stride", .type = "uint", .kind = FACET_ARGUMENT_VALUE, .offset = 12, .bytes = 4},
};

static const struct facet_host_kernel kernels[] = {
    {.name = "local",
     .run = run_nothing,
     .arguments = locals,
     .argument_count = 1,
     .argument_bytes = sizeof(struct local_arguments)},
    {.name = "neighbour",
     .run = run_neighbour,
     .arguments = list,
     .argument_count = 3,
     .argument_bytes = sizeof(struct arguments),
     .local_bytes = 64},
    {.name = "share",
     .run = run_share,
     .arguments = list,
     .argument_count = 3,
     .argument_bytes = sizeof(struct arguments)},
    {.name = "store",
     .run = run_store,
     .arguments = list,
     .argument_count = 3,
     .argument_bytes = sizeof(struct arguments)},
};

static const struct facet_host_site sites[SITES] = {
    [SITE_GLOBAL] = {.file = "store.cl", .line = 7, .column = 3},
    [SITE_LOCAL] = {.file = "neighbour.cl", .line = 4, .column = 5},
    [SITE_RACE] = {.file = "neighbour.cl", .line = 6, .column = 9},
};

extern const struct facet_host_image facet_host_image;

__attribute__((visibility("default"))) const struct facet_host_image facet_host_image = {
    .magic = FACET_HOST_IMAGE_MAGIC,
    .abi = FACET_HOST_IMAGE_ABI,
    .size = sizeof facet_host_image,
    .kernel_count = sizeof kernels / sizeof kernels[0],
    .kernels = kernels,
    .target = "host",
    .features = "",
    .check = &check,
    .sites = sites,
    .site_count = SITES,
};
