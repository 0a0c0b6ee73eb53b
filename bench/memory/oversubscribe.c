/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants whose working sets do not fit on the device together.
 *
 * Owns: one thread for each tenant, which makes a number of passes over the tenant's set: it pins all of the set, reads
 * and writes every word, and releases the set.
 * Never: knows which pages are swapped out.
 *
 * MODE: serial: one tenant after the other. turns: all at once, in the memory manager's turns. uncontrolled: all at
 * once, and no tenant may keep the pages that it swapped in (FACET_SWAP_NEVER_REPAY).
 *
 * Prints {"mode","tenants","set_milli","device_mib","passes","seconds","first_s","swapped_in_mib","swapped_out_mib",
 * "swap_s","waited_s","right"}: seconds: from the common start, after the sets were filled, to the end of the last
 * tenant. first_s: to the end of the first tenant.
 */
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "common.h"

#define MAX_TENANTS 8u
#define WAIT_NS     UINT64_C(300000000000)
#define RUN_BYTES   (2 * MIB)

struct tenant {
    pthread_t thread;
    struct facet_space *space;
    uint64_t *runs; /* addresses */
    uint64_t run_count;
    uint32_t passes, number;
    pthread_barrier_t *barrier; /* NULL: begins at once */
    uint64_t end_ns;
};

static struct facet_pin *pin_whole(struct tenant *tenant)
{
    struct facet_pin *pin;
    struct facet_error error;

    check(facet_space_pin(tenant->space, NULL, 0, WAIT_NS, &pin, &error), &error, "facet_space_pin");
    return pin;
}

static uint64_t first_value(const struct tenant *tenant, uint64_t run, uint64_t word)
{
    return (run << 32 | word) * UINT64_C(0x9e3779b97f4a7c15) + tenant->number;
}

static void fill_set(struct tenant *tenant, uint64_t bytes)
{
    struct facet_error error;

    tenant->run_count = bytes / RUN_BYTES;
    tenant->runs = get_memory(tenant->run_count, sizeof *tenant->runs);
    for (uint64_t i = 0; i < tenant->run_count; i++)
        check(facet_space_allocate(tenant->space, RUN_BYTES, NULL, &tenant->runs[i], &error), &error,
              "facet_space_allocate");
    struct facet_pin *pin = pin_whole(tenant);
    for (uint64_t i = 0; i < tenant->run_count; i++) {
        uint64_t *words = pointer(tenant->runs[i]);

        for (uint64_t word = 0; word < RUN_BYTES / sizeof *words; word++)
            words[word] = first_value(tenant, i, word);
    }
    facet_pin_release(pin);
}

static bool set_is_right(struct tenant *tenant)
{
    struct facet_pin *pin = pin_whole(tenant);
    uint64_t wrong = 0;

    for (uint64_t i = 0; i < tenant->run_count; i++) {
        const uint64_t *words = pointer(tenant->runs[i]);

        for (uint64_t word = 0; word < RUN_BYTES / sizeof *words; word++)
            wrong += words[word] != first_value(tenant, i, word) + tenant->passes;
    }
    facet_pin_release(pin);
    return wrong == 0;
}

static void one_pass(struct tenant *tenant)
{
    struct facet_pin *pin = pin_whole(tenant);

    for (uint64_t i = 0; i < tenant->run_count; i++) {
        uint64_t *words = pointer(tenant->runs[i]);

        for (uint64_t word = 0; word < RUN_BYTES / sizeof *words; word++)
            words[word]++;
    }
    facet_pin_release(pin);
}

static void *tenant_main(void *data)
{
    struct tenant *tenant = data;

    if (tenant->barrier)
        pthread_barrier_wait(tenant->barrier);
    for (uint32_t pass = 0; pass < tenant->passes; pass++)
        one_pass(tenant);
    tenant->end_ns = now_ns();
    return NULL;
}

/* Runs all tenants at once. Returns when they began. */
static uint64_t run_together(struct tenant *tenants, uint32_t count)
{
    pthread_barrier_t barrier;

    pthread_barrier_init(&barrier, NULL, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        tenants[i].barrier = &barrier;
        if (pthread_create(&tenants[i].thread, NULL, tenant_main, &tenants[i]) != 0)
            die("oversubscribe", "no thread");
    }
    uint64_t start = now_ns();
    pthread_barrier_wait(&barrier);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(tenants[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
    return start;
}

static uint64_t run_serially(struct tenant *tenants, uint32_t count)
{
    uint64_t start = now_ns();

    for (uint32_t i = 0; i < count; i++)
        tenant_main(&tenants[i]);
    return start;
}

static void print_result(char **arguments, struct tenant *tenants, uint32_t count, uint64_t start)
{
    uint64_t first = UINT64_MAX, last = 0, in = 0, out = 0, swap_ns = 0, waited_ns = 0;
    bool right = true;

    for (uint32_t i = 0; i < count; i++) {
        struct facet_space_usage usage = {.size = sizeof usage};
        struct facet_error error;

        check(facet_space_get_usage(tenants[i].space, &usage, &error), &error, "facet_space_get_usage");
        first = tenants[i].end_ns < first ? tenants[i].end_ns : first;
        last = tenants[i].end_ns > last ? tenants[i].end_ns : last;
        in += usage.swapped_in_total;
        out += usage.swapped_out_total;
        swap_ns += usage.swap_ns;
        waited_ns += usage.waited_ns;
    }
    for (uint32_t i = 0; i < count; i++)
        right = set_is_right(&tenants[i]) && right;
    printf("{\"mode\":\"%s\",\"tenants\":%u,\"set_milli\":%s,\"device_mib\":%s,\"passes\":%s,\"seconds\":%.3f"
           ",\"first_s\":%.3f,\"swapped_in_mib\":%" PRIu64 ",\"swapped_out_mib\":%" PRIu64
           ",\"swap_s\":%.3f,\"waited_s\":%.3f,\"right\":%s}\n",
           arguments[0], count, arguments[2], arguments[3], arguments[4], (double)(last - start) / 1e9,
           (double)(first - start) / 1e9, in * 64 * KIB / MIB, out * 64 * KIB / MIB, (double)swap_ns / 1e9,
           (double)waited_ns / 1e9, right ? "true" : "false");
}

int oversubscribe_main(char **arguments)
{
    uint32_t count = (uint32_t)strtoul(arguments[1], NULL, 10);
    uint64_t device = strtoull(arguments[3], NULL, 10) * MIB;
    uint64_t set = device * strtoull(arguments[2], NULL, 10) / 1000 / RUN_BYTES * RUN_BYTES;
    const struct facet_memory_config config = {
        .size = sizeof config,
        .memory_bytes = device,
        .page_bytes = 64 * KIB,
        .swap_bytes = count * set + device,
        .swap_repay = strcmp(arguments[0], "uncontrolled") == 0 ? FACET_SWAP_NEVER_REPAY : 0,
    };
    struct tenant tenants[MAX_TENANTS] = {0};

    if (count < 1 || count > MAX_TENANTS)
        die("tenants", "expected 1 to 8");
    struct facet_memory *memory = open_memory(&config);
    for (uint32_t i = 0; i < count; i++) {
        tenants[i].number = i + 1;
        tenants[i].passes = (uint32_t)strtoul(arguments[4], NULL, 10);
        tenants[i].space = open_space(memory, i + 1, set);
        fill_set(&tenants[i], set);
    }
    bool serial = strcmp(arguments[0], "serial") == 0;
    uint64_t start = serial ? run_serially(tenants, count) : run_together(tenants, count);
    print_result(arguments, tenants, count, start);
    facet_memory_close(memory);
    return EXIT_SUCCESS;
}
