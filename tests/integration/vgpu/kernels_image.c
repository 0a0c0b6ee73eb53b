/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels for the tests of virtual GPUs, with the descriptions that the kernel compiler would make for them.
 *
 * Owns: one host image, which tests load. Never: is linked into a test.
 */
#include <facet/host_kernel.h>

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof *(array)))

struct add {
    uint64_t *words;
    uint64_t value;
};

/* One word for each work-group. */
static void run_add(const void *block, const struct facet_host_group *group)
{
    const struct add *arguments = block;

    arguments->words[group->group_id[0]] += arguments->value;
}

struct burn {
    uint64_t *sum;
    uint64_t rounds;
};

/* Work for the processor: `rounds` rounds in each work-group. */
static void run_burn(const void *block, const struct facet_host_group *group)
{
    const struct burn *arguments = block;
    uint64_t value = group->group_id[0] + 1;

    for (uint64_t i = 0; i < arguments->rounds; i++)
        value = value * 6364136223846793005u + 1442695040888963407u;
    __atomic_fetch_add(arguments->sum, value | 1, __ATOMIC_RELAXED);
}

struct gate {
    uint64_t *gate; /* [0]: how many work-groups began; [1]: they may end */
};

static void run_gate(const void *block, const struct facet_host_group *group)
{
    uint64_t *gate = ((const struct gate *)block)->gate;

    (void)group;
    __atomic_fetch_add(&gate[0], 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&gate[1], __ATOMIC_ACQUIRE))
        __builtin_ia32_pause();
}

struct link {
    struct link *next;
    uint64_t value;
};

struct chain {
    struct link *first;
    uint64_t sum;
};

struct pursue {
    struct chain *chain;
    uint64_t value;
};

/* Follows pointers that are in memory: sums the words that they point to, and adds to each word. */
static void run_pursue(const void *block, const struct facet_host_group *group)
{
    const struct pursue *arguments = block;

    (void)group;
    for (struct link *link = arguments->chain->first; link; link = link->next) {
        arguments->chain->sum += link->value;
        link->value += arguments->value;
    }
}

static const struct facet_host_argument add_arguments[] = {
    {.name = "words", .type = "ulong*", .kind = FACET_ARGUMENT_GLOBAL, .offset = 0, .bytes = 8},
    {.name = "value", .type = "ulong", .kind = FACET_ARGUMENT_VALUE, .offset = 8, .bytes = 8},
};
static const struct facet_host_argument burn_arguments[] = {
    {.name = "sum", .type = "ulong*", .kind = FACET_ARGUMENT_GLOBAL, .offset = 0, .bytes = 8},
    {.name = "rounds", .type = "ulong", .kind = FACET_ARGUMENT_VALUE, .offset = 8, .bytes = 8},
};
static const struct facet_host_argument gate_arguments[] = {
    {.name = "gate", .type = "ulong*", .kind = FACET_ARGUMENT_GLOBAL, .offset = 0, .bytes = 8},
};

static const struct facet_host_argument pursue_arguments[] = {
    {.name = "chain", .type = "ulong*", .kind = FACET_ARGUMENT_GLOBAL, .offset = 0, .bytes = 8},
    {.name = "value", .type = "ulong", .kind = FACET_ARGUMENT_VALUE, .offset = 8, .bytes = 8},
};

static const struct facet_host_kernel kernels[] = {
    {.name = "add", .run = run_add, .arguments = add_arguments, .argument_count = 2, .argument_bytes = 16},
    {.name = "burn", .run = run_burn, .arguments = burn_arguments, .argument_count = 2, .argument_bytes = 16},
    {.name = "gate", .run = run_gate, .arguments = gate_arguments, .argument_count = 1, .argument_bytes = 8},
    {.name = "pursue", .run = run_pursue, .arguments = pursue_arguments, .argument_count = 2, .argument_bytes = 16},
};

extern const struct facet_host_image facet_host_image;

__attribute__((visibility("default"))) const struct facet_host_image facet_host_image = {
    .magic = FACET_HOST_IMAGE_MAGIC,
    .abi = FACET_HOST_IMAGE_ABI,
    .size = sizeof facet_host_image,
    .kernel_count = COUNT(kernels),
    .kernels = kernels,
    .target = "host",
    .features = "",
};

#define MEMORY(name, type, offset)                                                                                     \
    "{\"name\":\"" name "\",\"type\":\"" type "\",\"kind\":\"global\",\"offset\":" #offset                             \
    ",\"bytes\":8,\"access\":[\"read\",\"write\"]}"
#define VALUE(name, type, offset)                                                                                      \
    "{\"name\":\"" name "\",\"type\":\"" type "\",\"kind\":\"value\",\"offset\":" #offset                              \
    ",\"bytes\":8,\"access\":[\"read\"]}"
#define KERNEL(name, bytes, arguments)                                                                                 \
    "{\"name\":\"" name "\",\"local_bytes\":0,\"scratch_fixed_bytes\":0,\"scratch_item_bytes\":0,"                     \
    "\"argument_bytes\":" #bytes ",\"required_group_size\":[0,0,0],\"flags\":[],\"arguments\":[" arguments "]}"

__attribute__((section(FACET_HOST_IMAGE_SECTION), used)) static const char description[] =
    "{\"target\":\"host\",\"features\":\"\",\"check\":false,\"kernels\":[" KERNEL(
        "add", 16,
        MEMORY("words", "ulong*", 0) "," VALUE(
            "value", "ulong",
            8)) "," KERNEL("burn", 16,
                           MEMORY("sum", "ulong*", 0) "," VALUE(
                               "rounds", "ulong",
                               8)) "," KERNEL("gate", 8,
                                              MEMORY("gate", "ulong*",
                                                     0)) "," KERNEL("pursue", 16,
                                                                    MEMORY("chain", "ulong*",
                                                                           0) "," VALUE("value", "ulong", 8)) "]}";
