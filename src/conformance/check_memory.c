/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks of contexts, plain memory and copies of the table `memory`. Never: fills a device: small pieces are
 * enough. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/check.h"

enum { PIECE = 64 << 10, UNKNOWN = 0x7fffffff };

static void refuse_absent_device(struct facet_check *check)
{
    facet_check_absent_device(check, "memory");
}

/* Calls every operation with a context that does not exist. */
static void refuse_unknown_context(struct facet_check *check)
{
    const struct facet_memory_ops *ops = &check->memory_ops;
    struct facet_provider_instance *instance = check->instance;
    struct facet_error *error = &check->error;
    struct facet_memory_info info;
    unsigned char bytes[16];
    uint64_t none;

    EXPECT_STATUS(check, "memory.destroy_context: an unknown context is not found", FACET_NOT_FOUND,
                  ops->destroy_context(instance, UNKNOWN, error));
    EXPECT_STATUS(check, "memory.destroy_context: 0 is no context", FACET_NOT_FOUND,
                  ops->destroy_context(instance, 0, NULL));
    EXPECT_REFUSED(check, "memory.info: an unknown context is not found", FACET_NOT_FOUND, &info, sizeof info,
                   ops->info(instance, UNKNOWN, &info, NULL));
    EXPECT_REFUSED(check, "memory.alloc: an unknown context is not found", FACET_NOT_FOUND, &none, sizeof none,
                   ops->alloc(instance, UNKNOWN, PIECE, &none, error));
    EXPECT_STATUS(check, "memory.free: an unknown context is not found", FACET_NOT_FOUND,
                  ops->free(instance, UNKNOWN, 4096, error));
    EXPECT_STATUS(check, "memory.write: an unknown context is not found", FACET_NOT_FOUND,
                  ops->write(instance, UNKNOWN, 4096, bytes, sizeof bytes, error));
    EXPECT_REFUSED(check, "memory.read: an unknown context is not found", FACET_NOT_FOUND, bytes, sizeof bytes,
                   ops->read(instance, UNKNOWN, 4096, sizeof bytes, bytes, error));
    EXPECT_STATUS(check, "memory.copy: an unknown context is not found", FACET_NOT_FOUND,
                  ops->copy(instance, UNKNOWN, 4096, 8192, 16, error));
    EXPECT_STATUS(check, "memory.fill: an unknown context is not found", FACET_NOT_FOUND,
                  ops->fill(instance, UNKNOWN, 4096, 0, 16, error));
}

static enum facet_status fill_info(struct facet_check *check, const void *subject, void *out)
{
    return check->memory_ops.info(check->instance, *(const uint64_t *)subject, out, &check->error);
}

static void check_contexts(struct facet_check *check)
{
    const struct facet_memory_ops *ops = &check->memory_ops;
    struct facet_memory_info info = {.size = sizeof info};
    uint64_t one = 0, two = 0, none;

    refuse_unknown_context(check);
    EXPECT_REFUSED(check, "memory.create_context: a NULL worker is an invalid argument", FACET_INVALID_ARGUMENT, &none,
                   sizeof none, ops->create_context(check->instance, check->device, NULL, NULL, &none, &check->error));
    EXPECT_REFUSED(check, "memory.create_context: a malformed worker is an invalid argument", FACET_INVALID_ARGUMENT,
                   &none, sizeof none,
                   ops->create_context(check->instance, check->device, NULL, "no worker", &none, &check->error));
    EXPECT_STATUS(check, "memory.create_context: no place for the answer is an invalid argument",
                  FACET_INVALID_ARGUMENT,
                  ops->create_context(check->instance, check->device, NULL, FACET_CHECK_WORKER, NULL, &check->error));
    if (!facet_check_context(check, FACET_CHECK_WORKER, &one) || !facet_check_context(check, FACET_CHECK_OTHER, &two))
        return;
    EXPECT_TRUE(check, "memory.create_context: numbers are unique and not 0", one && two && one != two,
                "expected: two numbers above 0 that differ\ngot: %" PRIu64 " and %" PRIu64, one, two);
    facet_check_struct_rules(check, "memory.info", sizeof info, fill_info, &one);
    EXPECT_STATUS(check, "memory.info: no place for the answer is an invalid argument", FACET_INVALID_ARGUMENT,
                  ops->info(check->instance, one, NULL, &check->error));
    EXPECT_OK(check, "memory.info: of a context", ops->info(check->instance, one, &info, &check->error));
    EXPECT_TRUE(check, "memory.info: amounts are valid",
                info.total_bytes > 0 && info.used_bytes <= info.total_bytes &&
                    (info.page_bytes & (info.page_bytes - 1)) == 0,
                "expected: used_bytes within total_bytes, page_bytes 0 or a power of two\ngot: %" PRIu64 " of %" PRIu64
                " bytes, a page of %" PRIu32,
                info.used_bytes, info.total_bytes, info.page_bytes);
    facet_check_drop_context(check, one);
    facet_check_drop_context(check, two);
    EXPECT_STATUS(check, "memory.destroy_context: a second time is not found", FACET_NOT_FOUND,
                  ops->destroy_context(check->instance, one, &check->error));
}

static void check_allocations(struct facet_check *check, uint64_t context, uint64_t other)
{
    const struct facet_memory_ops *ops = &check->memory_ops;
    struct facet_provider_instance *instance = check->instance;
    uint64_t address = 0, second = 0, none;

    EXPECT_REFUSED(check, "memory.alloc: 0 bytes are out of range", FACET_OUT_OF_RANGE, &none, sizeof none,
                   ops->alloc(instance, context, 0, &none, &check->error));
    EXPECT_REFUSED(check, "memory.alloc: more than the device has is no space", FACET_NO_SPACE, &none, sizeof none,
                   ops->alloc(instance, context, UINT64_C(1) << 60, &none, &check->error));
    EXPECT_REFUSED(check, "memory.alloc: UINT64_MAX bytes are no space", FACET_NO_SPACE, &none, sizeof none,
                   ops->alloc(instance, context, UINT64_MAX, &none, &check->error));
    EXPECT_STATUS(check, "memory.alloc: no place for the answer is an invalid argument", FACET_INVALID_ARGUMENT,
                  ops->alloc(instance, context, PIECE, NULL, &check->error));
    if (!EXPECT_OK(check, "memory.alloc: a piece", ops->alloc(instance, context, PIECE, &address, &check->error)) ||
        !EXPECT_OK(check, "memory.alloc: another", ops->alloc(instance, context, 1, &second, &check->error)))
        return;
    EXPECT_TRUE(check, "memory.alloc: addresses are aligned, apart and not 0",
                address && second && address % 256 == 0 && second % 256 == 0 &&
                    (second >= address + PIECE || second < address),
                "expected: two pieces that do not overlap, at multiples of 256\ngot: 0x%" PRIx64 " and 0x%" PRIx64,
                address, second);
    EXPECT_TRUE(check, "memory.info: counts what is allocated", facet_check_used(check, context) >= PIECE,
                "expected: used_bytes of at least %d\ngot: less", PIECE);
    EXPECT_STATUS(check, "memory.free: another context's address is not found", FACET_NOT_FOUND,
                  ops->free(instance, other, address, &check->error));
    EXPECT_STATUS(check, "memory.free: the middle of a piece is not found", FACET_NOT_FOUND,
                  ops->free(instance, context, address + 256, &check->error));
    EXPECT_STATUS(check, "memory.free: 0 is not found", FACET_NOT_FOUND,
                  ops->free(instance, context, 0, &check->error));
    EXPECT_OK(check, "memory.free: a piece", ops->free(instance, context, address, &check->error));
    EXPECT_STATUS(check, "memory.free: a second time is not found", FACET_NOT_FOUND,
                  ops->free(instance, context, address, &check->error));
    EXPECT_OK(check, "memory.free: the other", ops->free(instance, context, second, &check->error));
}

/* When a context ends, the used memory that another context reports must fall back to the value before. */
static void expect_all_freed(struct facet_check *check, uint64_t watcher)
{
    const struct facet_memory_ops *ops = &check->memory_ops;
    uint64_t before = facet_check_used(check, watcher), context = 0, address;

    if (!facet_check_context(check, FACET_CHECK_WORKER, &context))
        return;
    for (int i = 0; i < 8; i++)
        ops->alloc(check->instance, context, PIECE, &address, NULL);
    facet_check_drop_context(check, context);
    EXPECT_NUMBER(check, "memory.destroy_context: frees all that the context had", before,
                  facet_check_used(check, watcher));
}

/* Allocates and frees once before anything is compared, because a runtime may keep freed memory for reuse. */
static void warm_up(struct facet_check *check, uint64_t context)
{
    const struct facet_memory_ops *ops = &check->memory_ops;
    uint64_t address = 0, second = 0;

    if (ops->alloc(check->instance, context, PIECE, &address, NULL) == FACET_OK)
        ops->alloc(check->instance, context, 1, &second, NULL);
    if (address)
        ops->free(check->instance, context, address, NULL);
    if (second)
        ops->free(check->instance, context, second, NULL);
}

static void check_plain_memory(struct facet_check *check)
{
    uint64_t context = 0, other = 0, empty;

    if (!facet_check_context(check, FACET_CHECK_WORKER, &context) ||
        !facet_check_context(check, FACET_CHECK_OTHER, &other))
        return;
    warm_up(check, context);
    empty = facet_check_used(check, context);
    check_allocations(check, context, other);
    EXPECT_NUMBER(check, "memory.free: gives everything back", empty, facet_check_used(check, context));
    facet_check_drop_context(check, context);
    expect_all_freed(check, other);
    facet_check_drop_context(check, other);
}

static void fill_pattern(unsigned char *bytes, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251 + seed);
}

/* A piece of memory with its expected content, and the content that was read. */
struct area {
    struct facet_check *check;
    uint64_t context, address;
    unsigned char expected[PIECE], got[PIECE];
};

static bool reads_back(struct area *area, const char *text)
{
    struct facet_check *check = area->check;

    facet_check_begin(check, "%s", text);
    memset(area->got, 0, sizeof area->got);
    enum facet_status status =
        check->memory_ops.read(check->instance, area->context, area->address, PIECE, area->got, &check->error);
    if (status != FACET_OK)
        return facet_check_status(check, FACET_OK, status);
    size_t at = 0;
    while (at < PIECE && area->got[at] == area->expected[at])
        at++;
    return facet_check_judge(check, at == PIECE, "expected: 0x%02x at byte %zu\ngot: 0x%02x",
                             area->expected[at % PIECE], at, area->got[at % PIECE]);
}

static void check_copy_in_area(struct area *area, size_t to, size_t from, size_t bytes, const char *text)
{
    struct facet_check *check = area->check;

    if (!EXPECT_OK(check, text,
                   check->memory_ops.copy(check->instance, area->context, area->address + to, area->address + from,
                                          bytes, &check->error)))
        return;
    memmove(area->expected + to, area->expected + from, bytes);
    reads_back(area, "memory.copy: moves what was there");
}

static void check_contents(struct area *area)
{
    struct facet_check *check = area->check;
    const struct facet_memory_ops *ops = &check->memory_ops;

    fill_pattern(area->expected, PIECE, 1);
    EXPECT_OK(check, "memory.write: a whole piece",
              ops->write(check->instance, area->context, area->address, area->expected, PIECE, &check->error));
    reads_back(area, "memory.read: gives what was written");
    fill_pattern(area->expected + 100, 1000, 99);
    EXPECT_OK(
        check, "memory.write: a part",
        ops->write(check->instance, area->context, area->address + 100, area->expected + 100, 1000, &check->error));
    reads_back(area, "memory.write: changes that part and no other");
    memset(area->expected + 4097, 0x5c, 3001);
    EXPECT_OK(check, "memory.fill: a part",
              ops->fill(check->instance, area->context, area->address + 4097, 0x5c, 3001, &check->error));
    reads_back(area, "memory.fill: changes that part and no other");
    check_copy_in_area(area, 20000, 100, 9000, "memory.copy: inside a piece");
    check_copy_in_area(area, 1000, 500, 8000, "memory.copy: upwards over itself");
    check_copy_in_area(area, 500, 1000, 8000, "memory.copy: downwards over itself");
}

/* An operation on a range that is only partly memory must be refused and change nothing. */
static void refuse_outside(struct area *area, uint64_t other)
{
    struct facet_check *check = area->check;
    const struct facet_memory_ops *ops = &check->memory_ops;
    struct facet_provider_instance *instance = check->instance;
    struct facet_error *error = &check->error;
    const uint64_t context = area->context, last = area->address + PIECE - 8;
    static unsigned char big[2 * PIECE];

    EXPECT_STATUS(check, "memory.write: beyond a piece is out of range", FACET_OUT_OF_RANGE,
                  ops->write(instance, context, area->address, big, sizeof big, error));
    EXPECT_REFUSED(check, "memory.read: beyond a piece is out of range", FACET_OUT_OF_RANGE, big, 16,
                   ops->read(instance, context, area->address + (UINT64_C(1) << 50), 16, big, error));
    EXPECT_REFUSED(check, "memory.read: an address that wraps around is out of range", FACET_OUT_OF_RANGE, big, 16,
                   ops->read(instance, context, UINT64_MAX - 7, 16, big, error));
    EXPECT_STATUS(check, "memory.fill: beyond a piece is out of range", FACET_OUT_OF_RANGE,
                  ops->fill(instance, context, last, 0xee, UINT64_C(1) << 40, error));
    EXPECT_STATUS(check, "memory.fill: a size that wraps around is out of range", FACET_OUT_OF_RANGE,
                  ops->fill(instance, context, last, 0xee, UINT64_MAX - 4, error));
    EXPECT_STATUS(check, "memory.copy: beyond a piece is out of range", FACET_OUT_OF_RANGE,
                  ops->copy(instance, context, last, area->address, UINT64_C(1) << 40, error));
    EXPECT_REFUSED(check, "memory.read: another context's memory is out of range", FACET_OUT_OF_RANGE, big, 16,
                   ops->read(instance, other, area->address, 16, big, error));
    EXPECT_STATUS(check, "memory.write: another context's memory is out of range", FACET_OUT_OF_RANGE,
                  ops->write(instance, other, area->address, big, 16, error));
    EXPECT_STATUS(check, "memory.write: NULL data are an invalid argument", FACET_INVALID_ARGUMENT,
                  ops->write(instance, context, area->address, NULL, 16, error));
    EXPECT_STATUS(check, "memory.read: NULL data are an invalid argument", FACET_INVALID_ARGUMENT,
                  ops->read(instance, context, area->address, 16, NULL, error));
    reads_back(area, "memory.read: what was refused changed nothing");
}

static void check_copies(struct facet_check *check)
{
    const struct facet_memory_ops *ops = &check->memory_ops;
    static struct area area;
    uint64_t other = 0;
    unsigned char byte;

    area.check = check;
    if (!facet_check_context(check, FACET_CHECK_WORKER, &area.context) ||
        !facet_check_context(check, FACET_CHECK_OTHER, &other) ||
        !EXPECT_OK(check, "memory.alloc: a piece to copy in",
                   ops->alloc(check->instance, area.context, PIECE, &area.address, &check->error)))
        return;
    check_contents(&area);
    refuse_outside(&area, other);
    EXPECT_OK(check, "memory.free: the piece that was copied in",
              ops->free(check->instance, area.context, area.address, &check->error));
    EXPECT_REFUSED(check, "memory.read: freed memory is out of range", FACET_OUT_OF_RANGE, &area.got, 16,
                   ops->read(check->instance, area.context, area.address, 16, area.got, &check->error));
    facet_check_drop_context(check, area.context);
    facet_check_drop_context(check, other);
    EXPECT_STATUS(check, "memory.read: a context that has ended is not found", FACET_NOT_FOUND,
                  ops->read(check->instance, area.context, area.address, 1, &byte, &check->error));
}

static const struct facet_check_case cases[] = {
    {refuse_absent_device, 0},
    {check_contexts, FACET_CAN_MEMORY},
    {check_plain_memory, FACET_CAN_MEMORY},
    {check_copies, FACET_CAN_MEMORY},
    {NULL, 0},
};

const struct facet_check_group facet_check_memory = {
    .name = "memory", .about = "contexts, plain memory, copies", .cases = cases};
