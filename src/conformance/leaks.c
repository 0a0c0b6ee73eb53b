/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing a provider many times.
 *
 * Owns: counting this process's resources before and after those rounds.
 * Never: counts resources that a runtime keeps after its first use as a leak; only growth with each round is a leak.
 */
#include <dirent.h>
#include <inttypes.h>
#include <malloc.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "conformance/check.h"

enum { WARM_UP = 5, LEAST_ROUNDS = 3, MOST_ROUNDS = 200, ATTEMPTS_MAX = 100 };

/* After this time no further round begins, so a runtime that takes seconds to open is opened fewer times. */
#define ROUNDS_NS            (3 * FACET_NS_PER_S)
#define LEAK_BYTES_PER_ROUND UINT64_C(2048)

/* Defined only under a sanitizer, which has a heap of its own. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

struct usage {
    uint32_t descriptors, threads;
    uint64_t heap_bytes;
};

static uint32_t count_entries(const char *path)
{
    FACET_CLEANUP_DIR DIR *folder = opendir(path);
    uint32_t count = 0;

    while (folder && readdir(folder))
        count++;
    return count;
}

/* Bytes that are allocated and not freed; free memory that the C library keeps is not counted. */
static uint64_t heap_bytes(void)
{
    if (__sanitizer_get_current_allocated_bytes)
        return __sanitizer_get_current_allocated_bytes();
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static struct usage current_usage(void)
{
    return (struct usage){.descriptors = count_entries("/proc/self/fd"),
                          .threads = count_entries("/proc/self/task"),
                          .heap_bytes = heap_bytes()};
}

static bool open_and_close(struct facet_check *check)
{
    const struct facet_device_ops *ops = &check->device_ops;
    struct facet_provider_instance *instance = NULL;
    uint32_t count;

    if (ops->open(&instance, &check->error) != FACET_OK)
        return false;
    ops->list(instance, NULL, sizeof(struct facet_device_info), 0, &count, NULL);
    ops->close(instance);
    return true;
}

/* Returns how many rounds were made; fewer than `min` when the provider did not open. */
static uint32_t open_and_close_rounds(struct facet_check *check, uint32_t min, uint32_t max)
{
    uint64_t end = facet_clock_now_ns() + ROUNDS_NS;
    uint32_t made = 0;

    while (made < max && (made < min || facet_clock_now_ns() < end) && open_and_close(check))
        made++;
    return made;
}

/* Waits for a moment for threads that are about to end. */
static struct usage settled_usage(uint32_t threads)
{
    const struct timespec pause = facet_ns_timespec(10 * FACET_NS_PER_MS);
    struct usage now = current_usage();

    for (int i = 0; i < ATTEMPTS_MAX && now.threads > threads; i++) {
        nanosleep(&pause, NULL);
        now = current_usage();
    }
    return now;
}

void facet_check_leaks(struct facet_check *check)
{
    const struct facet_device_ops *ops = &check->device_ops;

    if (!check->provider || !ops->open || !ops->list || !ops->close)
        return;
    facet_check_begin(check, "device.open: again and again");
    if (open_and_close_rounds(check, LEAST_ROUNDS, WARM_UP) < LEAST_ROUNDS) {
        facet_check_status(check, FACET_OK, FACET_IO);
        return;
    }
    struct usage before = current_usage();
    uint32_t made = open_and_close_rounds(check, LEAST_ROUNDS, MOST_ROUNDS);
    struct usage after = settled_usage(before.threads);
    facet_check_judge(check, made >= LEAST_ROUNDS, "expected: at least %d rounds\ngot: %" PRIu32, LEAST_ROUNDS, made);
    EXPECT_TRUE(check, "device.close: leaves no descriptor open", after.descriptors <= before.descriptors,
                "expected: %" PRIu32 " open descriptors after %" PRIu32 " rounds\ngot: %" PRIu32, before.descriptors,
                made, after.descriptors);
    EXPECT_TRUE(check, "device.close: leaves no thread behind", after.threads <= before.threads,
                "expected: %" PRIu32 " threads after %" PRIu32 " rounds\ngot: %" PRIu32, before.threads, made,
                after.threads);
    EXPECT_TRUE(check, "device.close: gives its memory back",
                after.heap_bytes <= before.heap_bytes + made * LEAK_BYTES_PER_ROUND,
                "expected: about %" PRIu64 " bytes of heap after %" PRIu32 " rounds\ngot: %" PRIu64, before.heap_bytes,
                made, after.heap_bytes);
}
