/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tenant's roles that allocate memory. Never: frees its allocations: the end of the process does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "tenant.h"

#define MIB        ((size_t)1 << 20)
#define BLOCK      (2 * MIB) /* memory that is checked at a time, a page of the device */
#define WORDS      (BLOCK / 8)
#define EDGE_BYTES 4096u
#define ROW        ((size_t)16384) /* elements of an array's row */

static CUresult allocate_plain(size_t bytes)
{
    CUdeviceptr pointer;
    CUresult result = gpu.cuMemAlloc_v2(&pointer, bytes);

    /* Only both ends are written: with a fake driver, all that is written takes host memory. */
    if (result == CUDA_SUCCESS) {
        GPU(gpu.cuMemsetD8_v2(pointer, 0x5a, EDGE_BYTES));
        GPU(gpu.cuMemsetD8_v2(pointer + bytes - EDGE_BYTES, 0x5a, EDGE_BYTES));
    }
    return result;
}

static CUresult allocate_managed(size_t bytes)
{
    CUdeviceptr pointer;

    return gpu.cuMemAllocManaged(&pointer, bytes, CU_MEM_ATTACH_GLOBAL);
}

static CUresult allocate_from_pool(size_t bytes)
{
    CUdeviceptr pointer;
    CUresult result = gpu.cuMemAllocAsync(&pointer, bytes, NULL);

    return result == CUDA_SUCCESS ? gpu.cuStreamSynchronize(NULL) : result;
}

static CUresult allocate_virtual(size_t bytes)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu.device}};
    CUmemGenericAllocationHandle handle;

    /* cuMemCreate takes multiples of a granularity, which is 2 MiB on every device so far. */
    return gpu.cuMemCreate(&handle, (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB), &properties, 0);
}

static CUresult allocate_array(size_t bytes)
{
    CUDA_ARRAY_DESCRIPTOR descriptor = {
        .Width = ROW, .Height = bytes / (4 * ROW), .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUarray array;

    return gpu.cuArrayCreate_v2(&array, &descriptor);
}

static const struct kind {
    const char *name;
    CUresult (*allocate)(size_t bytes);
} memory_kinds[] = {
    {"plain", allocate_plain},     {"managed", allocate_managed}, {"pool", allocate_from_pool},
    {"virtual", allocate_virtual}, {"array", allocate_array},
};

static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof memory_kinds / sizeof *memory_kinds; i++)
        if (strcmp(memory_kinds[i].name, name) == 0)
            return &memory_kinds[i];
    return NULL;
}

/* Allocates chunk by chunk, then smaller chunks, down to 2 MiB. Returns the driver's last refusal. `most` bounds the
 * sum, because a request for more managed memory than a GPU has may hang the GPU for all programs. */
static CUresult allocate_all(const struct kind *kind, size_t chunk, size_t most, size_t *ret_bytes)
{
    CUresult result = CUDA_SUCCESS;
    size_t bytes = 0;

    while (chunk >= 2 * MIB && bytes + chunk <= most) {
        CUresult chunk_result = kind->allocate(chunk);
        if (chunk_result == CUDA_SUCCESS) {
            bytes += chunk;
        } else {
            result = chunk_result;
            chunk /= 2;
        }
    }
    *ret_bytes = bytes;
    return result;
}

int role_grab(char **arguments)
{
    const struct kind *kind = find_kind(arguments[0]);
    size_t chunk = strtoull(arguments[1], NULL, 10) * MIB, most = strtoull(arguments[2], NULL, 10) * MIB;
    size_t bytes, free_bytes, total;

    if (!kind || !chunk) {
        fputs("grab: expected plain, managed, pool, virtual or array, then a CHUNK_MIB of at least 1\n", stderr);
        return 2;
    }
    gpu_enter();
    CUresult refusal = allocate_all(kind, chunk, most, &bytes);
    GPU(gpu.cuMemGetInfo_v2(&free_bytes, &total));
    printf("{\"kind\": \"%s\", \"granted_bytes\": %zu, \"refusal\": %d, \"total_bytes\": %zu, \"free_bytes\": %zu}\n",
           kind->name, bytes, refusal, total, free_bytes);
    fflush(stdout);
    sleep((unsigned)atoi(arguments[3]));
    return EXIT_SUCCESS;
}

/* The value of a block's words in a round: memory of another tenant, or of an earlier round, has other values. */
static uint64_t word_value(uint64_t seed, uint64_t block, uint64_t round)
{
    return seed << 48 ^ block << 24 ^ round;
}

static void check_block(CUdeviceptr block, uint64_t expected)
{
    static uint64_t words[WORDS];

    GPU(gpu.cuMemcpyDtoH_v2(words, block, sizeof words));
    for (size_t i = 0; i < WORDS; i++)
        if (words[i] != expected) {
            fprintf(stderr, "check: word %zu is %llx, expected %llx\n", i, (unsigned long long)words[i],
                    (unsigned long long)expected);
            exit(EXIT_FAILURE);
        }
}

static void store_words(CUfunction function, CUdeviceptr block, uint64_t value)
{
    uint64_t count = WORDS;
    void *arguments[] = {&block, &count, &value};

    GPU(gpu.cuLaunchKernel(function, 64, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
}

/* Fills blocks by a kernel, round after round, and checks each block before it is filled again. */
int role_check(char **arguments)
{
    uint64_t count = strtoull(arguments[0], NULL, 10) * MIB / BLOCK, seed = strtoull(arguments[2], NULL, 10),
             rounds = 0;
    CUdeviceptr *blocks = calloc(count + 1, sizeof *blocks);
    uint64_t end = gpu_now_ns() + strtoull(arguments[1], NULL, 10) * UINT64_C(1000000000);

    gpu_enter();
    CUfunction function = gpu_store();
    for (uint64_t i = 0; blocks && i < count; i++) {
        GPU(gpu.cuMemAlloc_v2(&blocks[i], BLOCK));
        store_words(function, blocks[i], word_value(seed, i, 0));
    }
    do {
        for (uint64_t i = 0; blocks && i < count; i++) {
            check_block(blocks[i], word_value(seed, i, rounds));
            store_words(function, blocks[i], word_value(seed, i, rounds + 1));
        }
        rounds++;
    } while (gpu_now_ns() < end);
    printf("{\"rounds\": %llu, \"blocks\": %llu}\n", (unsigned long long)rounds, (unsigned long long)count);
    free(blocks);
    return EXIT_SUCCESS;
}
