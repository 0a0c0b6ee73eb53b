/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels for the tests of the cpu provider, as the kernel compiler would make them.
 *
 * Owns: one host image. Never: linked into a test; it is loaded.
 */
#include <facet/host_kernel.h>

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof *(array)))

static uint32_t item_x(const struct facet_host_group *group, uint32_t local)
{
    return group->offset[0] + group->group_id[0] * group->group_size[0] + local;
}

struct saxpy {
    float a;
    uint32_t count;
    const float *x;
    float *y;
};

static void run_saxpy(const void *block, const struct facet_host_group *group)
{
    const struct saxpy *arguments = block;

    for (uint32_t i = 0; i < group->group_size[0]; i++) {
        uint32_t at = item_x(group, i);

        if (at < arguments->count)
            arguments->y[at] += arguments->a * arguments->x[at];
    }
}

struct spin {
    volatile uint32_t *gate; /* [0]: the work-group has begun; [1]: it may end */
};

/* A work-group that ends when its gate is opened. */
static void run_spin(const void *block, const struct facet_host_group *group)
{
    volatile uint32_t *gate = ((const struct spin *)block)->gate;

    (void)group;
    __atomic_store_n(&gate[0], 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&gate[1], __ATOMIC_ACQUIRE))
        __builtin_ia32_pause();
}

struct rounds {
    volatile uint64_t *words;
    volatile uint64_t *control; /* [0]: the work-group has begun; [1]: it may end; [2]: rounds done */
    uint64_t count;
};

/* Adds 1 to each word, round after round. */
static void run_rounds(const void *block, const struct facet_host_group *group)
{
    const struct rounds *arguments = block;
    uint64_t rounds = 0;

    (void)group;
    __atomic_store_n(&arguments->control[0], 1, __ATOMIC_RELEASE);
    for (; !__atomic_load_n(&arguments->control[1], __ATOMIC_ACQUIRE); rounds++)
        for (uint64_t i = 0; i < arguments->count; i++)
            arguments->words[i]++;
    arguments->control[2] = rounds;
}

struct report {
    uint32_t *where;
    uint32_t local; /* offset of an argument's local memory */
    uint32_t value;
};

/* The last work-group of the grid writes the numbers that it was given. */
static void run_report(const void *block, const struct facet_host_group *group)
{
    const struct report *arguments = block;
    char *local = (char *)group->local + arguments->local;
    uint32_t *to = arguments->where;

    local[0] = 1; /* the process crashes if this is no memory */
    for (int i = 0; i < 3; i++) {
        if (group->group_id[i] + 1 != group->grid[i])
            return;
        to[i] = group->grid[i];
        to[3 + i] = group->group_size[i];
        to[6 + i] = group->offset[i];
    }
    to[9] = group->dimensions;
    to[10] = arguments->value;
    to[11] = (uint32_t)((uint64_t)group->local % FACET_HOST_LOCAL_ALIGN);
}

struct picture {
    const struct facet_host_image_object *image;
    const struct facet_host_image_object *more; /* a second image */
    uint32_t *seen;
};

/* Reads the first byte of each image's pixels. */
static void run_picture(const void *block, const struct facet_host_group *group)
{
    const struct picture *arguments = block;

    (void)group;
    arguments->seen[0] = *(const unsigned char *)arguments->image->pixels;
    arguments->seen[1] = *(const unsigned char *)arguments->more->pixels;
}

static const struct facet_host_argument picture_arguments[] = {
    {.name = "image", .type = "image2d_t", .kind = FACET_ARGUMENT_IMAGE, .offset = 0, .bytes = 8},
    {.name = "more", .type = "image3d_t", .kind = FACET_ARGUMENT_IMAGE, .offset = 8, .bytes = 8},
    {.name = "seen", .type = "uint*", .kind = FACET_ARGUMENT_GLOBAL, .offset = 16, .bytes = 8},
};
static const struct facet_host_argument saxpy_arguments[] = {
    {.name = "a", .type = "float", .kind = FACET_ARGUMENT_VALUE, .offset = 0, .bytes = 4},
    {.name = "count", .type = "uint", .kind = FACET_ARGUMENT_VALUE, .offset = 4, .bytes = 4},
    {.name = "x", .type = "float*", .kind = FACET_ARGUMENT_GLOBAL, .offset = 8, .bytes = 8},
    {.name = "y", .type = "float*", .kind = FACET_ARGUMENT_GLOBAL, .offset = 16, .bytes = 8},
};
static const struct facet_host_argument spin_arguments[] = {
    {.name = "gate", .type = "uint*", .kind = FACET_ARGUMENT_GLOBAL, .offset = 0, .bytes = 8},
};
static const struct facet_host_argument rounds_arguments[] = {
    {.name = "words", .type = "ulong*", .kind = FACET_ARGUMENT_GLOBAL, .offset = 0, .bytes = 8},
    {.name = "control", .type = "ulong*", .kind = FACET_ARGUMENT_GLOBAL, .offset = 8, .bytes = 8},
    {.name = "count", .type = "ulong", .kind = FACET_ARGUMENT_VALUE, .offset = 16, .bytes = 8},
};
static const struct facet_host_argument report_arguments[] = {
    {.name = "where", .type = "uint*", .kind = FACET_ARGUMENT_GLOBAL, .offset = 0, .bytes = 8},
    {.name = "local", .type = "char*", .kind = FACET_ARGUMENT_LOCAL, .offset = 8, .bytes = 4},
    {.name = "value", .type = "uint", .kind = FACET_ARGUMENT_VALUE, .offset = 12, .bytes = 4},
};

#ifndef TEST_FLAGS
#define TEST_FLAGS   0
#define TEST_SCRATCH 0
#endif

static const struct facet_host_kernel kernels[] = {
    {.name = "picture",
     .run = run_picture,
     .arguments = picture_arguments,
     .argument_count = COUNT(picture_arguments),
     .argument_bytes = sizeof(struct picture)},
    {.name = "report",
     .run = run_report,
     .arguments = report_arguments,
     .argument_count = COUNT(report_arguments),
     .argument_bytes = sizeof(struct report),
     .local_bytes = 256},
    {.name = "rounds",
     .run = run_rounds,
     .arguments = rounds_arguments,
     .argument_count = COUNT(rounds_arguments),
     .argument_bytes = sizeof(struct rounds)},
    {.name = "saxpy",
     .run = run_saxpy,
     .arguments = saxpy_arguments,
     .argument_count = COUNT(saxpy_arguments),
     .argument_bytes = sizeof(struct saxpy),
     .scratch_item_bytes = TEST_SCRATCH,
     .flags = TEST_FLAGS},
    {.name = "spin",
     .run = run_spin,
     .arguments = spin_arguments,
     .argument_count = COUNT(spin_arguments),
     .argument_bytes = sizeof(struct spin),
     .required_group_size = {1, 1, 1}},
};

extern const struct facet_host_image facet_host_image;

__attribute__((visibility("default"))) const struct facet_host_image facet_host_image = {
    .magic = FACET_HOST_IMAGE_MAGIC,
    .abi = FACET_HOST_IMAGE_ABI,
    .size = sizeof facet_host_image,
    .kernel_count = COUNT(kernels),
    .kernels = kernels,
    .target = "host",
#ifdef TEST_FEATURES
    .features = TEST_FEATURES,
#else
    .features = "",
#endif
};

#ifdef TEST_CONSTRUCTOR
__attribute__((constructor)) static void begin(void)
{
    __builtin_trap();
}
#endif
