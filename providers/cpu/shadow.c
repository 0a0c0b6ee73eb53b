/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a table of bytes that work-items of one group touched since its last barrier.
 * Never: reports accesses to different bytes of one word as a race, or a plain read of a value that other work-items
 * update by atomics: OpenCL C 1.2 has no atomic load, so kernels poll by plain reads.
 *
 * A table that cannot grow any more drops entries. Then a race may be missed, but none is reported falsely.
 */
#include <stdlib.h>

#include "cpu.h"

#define FIRST_BUCKETS 4096u
#define NO_ITEM       UINT32_MAX
#define MANY          (UINT32_MAX - 1) /* more than one work-item */

struct touch {
    uint64_t address;
    uint32_t epoch;          /* a bucket of another epoch than the table's is free */
    uint32_t writer, reader; /* work-items with plain accesses; NO_ITEM, or MANY */
    uint32_t updater;        /* with atomic ones */
};

struct cpu_shadow {
    uint64_t buckets, used; /* `buckets` is a power of two */
    uint32_t epoch;
    struct touch *touches;
};

struct cpu_shadow *cpu_shadow_create(void)
{
    struct cpu_shadow *shadow = calloc(1, sizeof *shadow);

    if (!shadow)
        return NULL;
    shadow->buckets = FIRST_BUCKETS;
    shadow->epoch = 1;
    shadow->touches = calloc(shadow->buckets, sizeof *shadow->touches);
    if (!shadow->touches) {
        free(shadow);
        return NULL;
    }
    return shadow;
}

void cpu_shadow_free(struct cpu_shadow *shadow)
{
    if (shadow)
        free(shadow->touches);
    free(shadow);
}

void cpu_shadow_forget(struct cpu_shadow *shadow)
{
    shadow->used = 0;
    if (++shadow->epoch == 0) {
        memset(shadow->touches, 0, shadow->buckets * sizeof *shadow->touches);
        shadow->epoch = 1;
    }
}

static struct touch *bucket_of(const struct cpu_shadow *shadow, uint64_t address)
{
    uint64_t bucket = (address * UINT64_C(0x9e3779b97f4a7c15)) >> 20;

    for (;; bucket++) {
        struct touch *touch = &shadow->touches[bucket & (shadow->buckets - 1)];

        if (touch->epoch != shadow->epoch || touch->address == address)
            return touch;
    }
}

static void grow_shadow(struct cpu_shadow *shadow)
{
    struct cpu_shadow larger = {.buckets = shadow->buckets * 2, .used = shadow->used, .epoch = shadow->epoch};

    larger.touches = calloc(larger.buckets, sizeof *larger.touches);
    if (!larger.touches) {
        cpu_shadow_forget(shadow);
        return;
    }
    for (uint64_t i = 0; i < shadow->buckets; i++)
        if (shadow->touches[i].epoch == shadow->epoch)
            *bucket_of(&larger, shadow->touches[i].address) = shadow->touches[i];
    free(shadow->touches);
    *shadow = larger;
}

static struct touch *touch_of(struct cpu_shadow *shadow, uint64_t address)
{
    struct touch *touch = bucket_of(shadow, address);

    if (touch->epoch == shadow->epoch)
        return touch;
    if (shadow->used >= shadow->buckets / 2) {
        grow_shadow(shadow);
        touch = bucket_of(shadow, address);
    }
    shadow->used++;
    *touch = (struct touch){
        .address = address, .epoch = shadow->epoch, .writer = NO_ITEM, .reader = NO_ITEM, .updater = NO_ITEM};
    return touch;
}

static bool is_other_item(uint32_t other, uint32_t item)
{
    return other != NO_ITEM && other != item;
}

static uint32_t join_items(uint32_t others, uint32_t item)
{
    return is_other_item(others, item) ? MANY : item;
}

static bool touch_byte(struct touch *touch, uint32_t flags, uint32_t item)
{
    bool races = is_other_item(touch->writer, item);

    if (flags & FACET_CHECK_ATOMIC) {
        touch->updater = join_items(touch->updater, item);
        return races;
    }
    if (flags & FACET_CHECK_WRITE) {
        touch->writer = item;
        return races || is_other_item(touch->updater, item) || is_other_item(touch->reader, item);
    }
    touch->reader = join_items(touch->reader, item);
    return races;
}

bool cpu_shadow_races(struct cpu_shadow *shadow, uint64_t address, uint64_t bytes, uint32_t flags, uint32_t item)
{
    bool races = false;

    for (uint64_t i = 0; i < bytes && !races; i++)
        races = touch_byte(touch_of(shadow, address + i), flags, item);
    return races;
}
