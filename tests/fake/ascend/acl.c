/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake libascendcl.so: eight devices whose memory is address space of this process.
 *
 * Owns: contexts and memory, with the rules that CANN's reference states: no call succeeds before aclInit, no second
 * aclInit succeeds, and memory belongs to the device of the context that is current in the thread. Compiled with
 * FAKE_OLD it is the library of an older CANN, which has no resource limits.
 * Never: uses real hardware.
 */
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "fake.h"

#include "../../../providers/ascend/acl.h"

#define DECLARE(name, result, parameters) FAKE_API result name parameters;
ACL_TABLE(DECLARE)

/* For the fake libdcmi: the bytes taken on a device. */
FAKE_API size_t fake_ascend_used(int device);

#define DEVICES    8
#define MAX_BLOCKS 4096
#define OFFSET     64 /* a block's offset in its page, if configured: the least documented alignment */
/* AscendCL's error codes. */
#define NOT_STARTED 100001
#define REPEATED    100002
#define INVALID     107000
#define NO_CONTEXT  107002
#define NO_SPACE    207001

struct context {
    int32_t device;
};

struct block {
    char *address;
    char *pages;
    size_t bytes, mapped;
    int32_t device;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool started;
static size_t used[DEVICES];
static struct block blocks[MAX_BLOCKS];
static _Thread_local struct context *current;
static _Thread_local char recent_error[96];

static int fail_call(const char *function, int code)
{
    snprintf(recent_error, sizeof recent_error, "EZ%04d: %s was told to fail", code % 10000, function);
    return code;
}

#define FAIL_IF_CONFIGURED()                                                                                           \
    do {                                                                                                               \
        int code_ = fake_failure(__func__, -1);                                                                        \
        if (code_)                                                                                                     \
            return fail_call(__func__, code_);                                                                         \
    } while (0)

#define NEED_CONTEXT()                                                                                                 \
    do {                                                                                                               \
        FAIL_IF_CONFIGURED();                                                                                          \
        if (!started || !current)                                                                                      \
            return fail_call(__func__, NO_CONTEXT);                                                                    \
    } while (0)

static size_t memory_bytes(void)
{
    return (size_t)fake_number("memory", 65536) << 20;
}

int aclInit(const char *configuration)
{
    FAIL_IF_CONFIGURED();
    if (started)
        return fail_call(__func__, REPEATED);
    started = true;
    return 0;
}

int aclFinalize(void)
{
    FAIL_IF_CONFIGURED();
    if (!started)
        return fail_call(__func__, NOT_STARTED);
    started = false;
    return 0;
}

const char *aclGetRecentErrMsg(void)
{
    return recent_error;
}

const char *aclrtGetSocName(void)
{
    return "Ascend910B3";
}

int aclrtCreateContext(void **ret_context, int32_t device)
{
    FAIL_IF_CONFIGURED();
    if (!started)
        return fail_call(__func__, NOT_STARTED);
    if (device < 0 || device >= DEVICES)
        return fail_call(__func__, INVALID);
    struct context *context = malloc(sizeof *context);
    if (!context)
        return fail_call(__func__, NO_SPACE);
    context->device = device;
    current = context;
    *ret_context = context;
    return 0;
}

int aclrtDestroyContext(void *context)
{
    FAIL_IF_CONFIGURED();
    if (current == context)
        current = NULL;
    free(context);
    return 0;
}

int aclrtSetCurrentContext(void *context)
{
    FAIL_IF_CONFIGURED();
    current = context;
    return 0;
}

/* Under the lock. */
static struct block *find_block(const void *address)
{
    for (size_t i = 0; i < MAX_BLOCKS; i++) {
        if (blocks[i].address == address)
            return &blocks[i];
    }
    return NULL;
}

static int take_memory(size_t bytes, void **ret_address)
{
    struct block *block = find_block(NULL);
    size_t offset = fake_number("misaligned", 0) ? OFFSET : 0, mapped = bytes + offset;

    if (!block || bytes > memory_bytes() - used[current->device])
        return NO_SPACE;
    char *pages = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        return NO_SPACE;
    *block = (struct block){pages + offset, pages, bytes, mapped, current->device};
    used[current->device] += bytes;
    *ret_address = block->address;
    return 0;
}

int aclrtMalloc(void **ret_address, size_t bytes, enum acl_malloc_policy policy)
{
    NEED_CONTEXT();
    pthread_mutex_lock(&lock);
    int code = bytes ? take_memory(bytes, ret_address) : INVALID;
    pthread_mutex_unlock(&lock);
    return code ? fail_call(__func__, code) : 0;
}

int aclrtFree(void *address)
{
    NEED_CONTEXT();
    pthread_mutex_lock(&lock);
    struct block *block = address ? find_block(address) : NULL;
    if (block) {
        munmap(block->pages, block->mapped);
        used[block->device] -= block->bytes;
        *block = (struct block){0};
    }
    pthread_mutex_unlock(&lock);
    return block ? 0 : fail_call(__func__, INVALID);
}

size_t fake_ascend_used(int device)
{
    pthread_mutex_lock(&lock);
    size_t bytes = device >= 0 && device < DEVICES ? used[device] : 0;
    pthread_mutex_unlock(&lock);
    return bytes;
}

int aclrtMemcpy(void *to, size_t room, const void *from, size_t bytes, enum acl_copy_kind kind)
{
    NEED_CONTEXT();
    if (!to || !from || bytes > room)
        return fail_call(__func__, INVALID);
    memcpy(to, from, bytes); /* overlapping ranges are undefined, as in the real library */
    return 0;
}

int aclrtMemset(void *to, size_t room, int32_t value, size_t bytes)
{
    NEED_CONTEXT();
    if (!to || bytes > room)
        return fail_call(__func__, INVALID);
    memset(to, value, bytes);
    return 0;
}

int aclrtGetMemInfo(enum acl_memory_kind kind, size_t *ret_free, size_t *ret_total)
{
    NEED_CONTEXT();
    pthread_mutex_lock(&lock);
    *ret_total = kind == ACL_MEMORY_HBM ? memory_bytes() : 0;
    *ret_free = *ret_total ? *ret_total - used[current->device] : 0;
    pthread_mutex_unlock(&lock);
    return 0;
}

#ifndef FAKE_OLD
int aclrtGetDeviceResLimit(int32_t device, enum acl_core_kind kind, uint32_t *ret_cores)
{
    FAIL_IF_CONFIGURED();
    *ret_cores = kind == ACL_CUBE_CORES ? 20 : 40;
    return 0;
}

int aclrtSetDeviceResLimit(int32_t device, enum acl_core_kind kind, uint32_t cores)
{
    FAIL_IF_CONFIGURED();
    return 0;
}
#endif
