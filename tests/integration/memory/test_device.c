/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of two vGPUs on the device `cpu`, in the provider's own process, with kernels that write while pages move.
 *
 * Owns: the proof that facet/memory.h works on a device as on host memory.
 * Never: waits without a bound.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/memory.h>
#include <facet/session.h>

#include "memory/idle.h"

#define MIB     (UINT64_C(1) << 20)
#define TENANTS 2u
#define RUNS    32u
#define BYTES   (UINT64_C(192) << 10)
#define WAIT_NS UINT64_C(20000000000)

static const char image_text[] = "facet-cpu:store_words";

struct tenant {
    uint64_t context, module, stream;
    struct facet_space *space;
    uint64_t run[RUNS];
};

struct fixture {
    struct facet_session *session;
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
    uint64_t owner;
    struct facet_memory *memory;
    struct tenant tenants[TENANTS];
    struct facet_error error;
};

static void must_succeed(struct fixture *fixture, enum facet_status status)
{
    if (status != FACET_OK)
        fail_msg("%s: %s", facet_status_name(status), fixture->error.message);
}

static void open_tenant(struct fixture *fixture, uint32_t id)
{
    struct tenant *tenant = &fixture->tenants[id];
    struct facet_error *error = &fixture->error;
    char worker[32];

    snprintf(worker, sizeof worker, "tenant-%u", id);
    must_succeed(fixture, fixture->provider->memory->create_context(fixture->instance, 0, NULL, worker,
                                                                    &tenant->context, error));
    must_succeed(fixture, fixture->provider->execution->load(fixture->instance, tenant->context, image_text,
                                                             strlen(image_text), &tenant->module, error));
    must_succeed(fixture, fixture->provider->execution->create_stream(fixture->instance, tenant->context,
                                                                      &tenant->stream, error));
    const struct facet_space_config config = {
        .size = sizeof config, .id = id, .name = worker, .limit_bytes = 32 * MIB, .context = tenant->context};
    must_succeed(fixture, facet_space_create(fixture->memory, &config, &tenant->space, error));
    for (uint32_t i = 0; i < RUNS; i++)
        must_succeed(fixture, facet_space_allocate(tenant->space, BYTES, NULL, &tenant->run[i], error));
}

static int set_up(void **state)
{
    static struct fixture fixture;
    const struct facet_memory_config config = {
        .size = sizeof config, .memory_bytes = 64 * MIB, .chunk_bytes = MIB, .pass_bytes = 128 << 10};
    char path[4096];

    snprintf(path, sizeof path, "%s/facet-provider-cpu.so", getenv("FACET_LIB_DIR"));
    must_succeed(&fixture, facet_session_open(path, NULL, &fixture.session, &fixture.error));
    fixture.provider = facet_session_provider(fixture.session);
    fixture.instance = facet_session_instance(fixture.session);
    must_succeed(&fixture, fixture.provider->memory->create_context(fixture.instance, 0, NULL, "owner", &fixture.owner,
                                                                    &fixture.error));
    must_succeed(&fixture,
                 facet_memory_open_device(fixture.session, 0, fixture.owner, &config, &fixture.memory, &fixture.error));
    for (uint32_t id = 0; id < TENANTS; id++)
        open_tenant(&fixture, id);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    struct facet_memory_info info = {.size = sizeof info};

    facet_memory_close(fixture->memory);
    /* The device holds nothing of the fixture any more. */
    must_succeed(fixture, fixture->provider->memory->info(fixture->instance, fixture->owner, &info, &fixture->error));
    facet_session_close(fixture->session);
    assert_int_equal(info.used_bytes, 0);
    return 0;
}

static void launch_store(struct fixture *fixture, uint32_t id, uint32_t run, uint64_t value, uint32_t groups)
{
    const struct tenant *tenant = &fixture->tenants[id];
    const uint64_t arguments[] = {tenant->run[run], BYTES / 8, value};
    const struct facet_launch launch = {.size = sizeof launch,
                                        .argument_bytes = sizeof arguments,
                                        .module = tenant->module,
                                        .grid = {groups, 1, 1},
                                        .group = {1, 1, 1},
                                        .kernel = "store_words"};

    must_succeed(fixture, fixture->provider->execution->launch(fixture->instance, tenant->context, tenant->stream,
                                                               &launch, arguments, &fixture->error));
}

static void synchronize_tenant(struct fixture *fixture, uint32_t id)
{
    const struct tenant *tenant = &fixture->tenants[id];

    must_succeed(fixture, fixture->provider->execution->synchronize(fixture->instance, tenant->context, tenant->stream,
                                                                    WAIT_NS, &fixture->error));
}

static void expect_word(struct fixture *fixture, uint32_t id, uint32_t run, uint64_t value)
{
    static uint64_t words[BYTES / 8];
    const struct tenant *tenant = &fixture->tenants[id];

    must_succeed(fixture, facet_space_copy(tenant->space, (uintptr_t)words, tenant->run[run], BYTES, FACET_COPY_TO_HOST,
                                           &fixture->error));
    for (uint64_t i = 0; i < BYTES / 8; i++)
        if (words[i] != value)
            fail_msg("tenant %u, run %u, word %u: %llu; expected %llu", id, run, (unsigned)i,
                     (unsigned long long)words[i], (unsigned long long)value);
}

static void test_copies_read_the_words_that_kernels_wrote(void **state)
{
    struct fixture *fixture = *state;

    for (uint32_t id = 0; id < TENANTS; id++)
        for (uint32_t run = 0; run < RUNS; run++)
            launch_store(fixture, id, run, id * 1000 + run, 1);
    for (uint32_t id = 0; id < TENANTS; id++) {
        synchronize_tenant(fixture, id);
        for (uint32_t run = 0; run < RUNS; run++)
            expect_word(fixture, id, run, id * 1000 + run);
    }
}

/* Three in four runs are freed, long kernels write to the remaining runs, and pages move under the kernels. */
static void test_pages_move_under_kernels(void **state)
{
    struct fixture *fixture = *state;
    struct facet_memory_usage before = {.size = sizeof before}, after = {.size = sizeof after};
    struct facet_defragment_report report = {.size = sizeof report};
    uint64_t moved = 0;

    for (uint32_t id = 0; id < TENANTS; id++)
        for (uint32_t run = 0; run < RUNS; run++)
            if (run % 4)
                must_succeed(fixture, facet_space_free(fixture->tenants[id].space, fixture->tenants[id].run[run],
                                                       &fixture->error));
    must_succeed(fixture, facet_memory_get_usage(fixture->memory, &before, &fixture->error));
    for (uint32_t id = 0; id < TENANTS; id++)
        for (uint32_t run = 0; run < RUNS; run += 4)
            launch_store(fixture, id, run, 7 + run, 2000);
    do {
        must_succeed(fixture, facet_memory_defragment(fixture->memory, NULL, &report, &fixture->error));
        moved += report.moved_bytes;
    } while (!report.complete);
    for (uint32_t id = 0; id < TENANTS; id++) {
        synchronize_tenant(fixture, id);
        for (uint32_t run = 0; run < RUNS; run += 4)
            expect_word(fixture, id, run, 7 + run);
    }
    must_succeed(fixture, facet_memory_get_usage(fixture->memory, &after, &fixture->error));
    assert_true(moved > 0);
    assert_int_equal(after.used_bytes, before.used_bytes);
    assert_true(after.chunk_count < before.chunk_count);
    assert_int_equal(after.chunk_count, (after.used_bytes + MIB - 1) / MIB);
}

/* Neither copies nor kernels reach another tenant's memory. */
static void test_tenants_are_apart(void **state)
{
    struct fixture *fixture = *state;
    const struct tenant *one = &fixture->tenants[0], *other = &fixture->tenants[1];
    char bytes[16];

    assert_int_equal(facet_space_copy(one->space, (uintptr_t)bytes, other->run[0], sizeof bytes, FACET_COPY_TO_HOST,
                                      &fixture->error),
                     FACET_OUT_OF_RANGE);
    assert_int_equal(facet_space_free(one->space, other->run[0], &fixture->error), FACET_NOT_FOUND);
    assert_int_equal(
        fixture->provider->memory->fill(fixture->instance, one->context, other->run[0], 1, 16, &fixture->error),
        FACET_OUT_OF_RANGE);
}

/* While an endless kernel runs, memory that it does not use is read and written, in pieces of any size. */
static void test_idle_memory_does_not_wait(void **state)
{
    /* The offset of each piece in its run, and its bytes. */
    static const uint64_t pieces[][2] = {{0, BYTES}, {1, 4095}, {4095, 3}, {65536 - 5, 65536 + 10}, {BYTES - 1, 1}};
    static unsigned char expected[BYTES], bytes[BYTES];
    struct fixture *fixture = *state;
    const struct tenant *one = &fixture->tenants[0];
    uint64_t run = one->run[1];

    launch_store(fixture, 0, 0, 1, INT32_MAX);
    memset(expected, 0, sizeof expected);
    must_succeed(fixture, facet_space_write_idle(one->space, run, NULL, BYTES, &fixture->error));
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        uint64_t at = pieces[i][0], count = pieces[i][1];

        for (uint64_t byte = 0; byte < count; byte++)
            bytes[byte] = expected[at + byte] = (unsigned char)(byte * 7 + i + 1);
        must_succeed(fixture, facet_space_write_idle(one->space, run + at, bytes, count, &fixture->error));
        memset(bytes, 0xee, sizeof bytes);
        must_succeed(fixture, facet_space_read_idle(one->space, run + at, bytes, count, &fixture->error));
        assert_memory_equal(bytes, expected + at, count);
    }
    assert_int_equal(facet_space_read_idle(one->space, run + 1, bytes, BYTES, &fixture->error), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_space_write_idle(one->space, fixture->tenants[1].run[0], bytes, 1, &fixture->error),
                     FACET_OUT_OF_RANGE);
    must_succeed(fixture,
                 fixture->provider->execution->cancel(fixture->instance, one->context, one->stream, &fixture->error));
    must_succeed(fixture,
                 facet_space_copy(one->space, (uintptr_t)bytes, run, BYTES, FACET_COPY_TO_HOST, &fixture->error));
    assert_memory_equal(bytes, expected, BYTES);
}

/* Memory of an endless kernel is not reused. Once the kernel is cancelled, all of that memory is returned. */
static void test_a_space_ends_after_its_launches(void **state)
{
    struct fixture *fixture = *state;
    const struct tenant *one = &fixture->tenants[0];
    struct facet_memory_usage before = {.size = sizeof before}, after = {.size = sizeof after};
    struct facet_space_usage left = {.size = sizeof left};

    must_succeed(fixture, facet_memory_get_usage(fixture->memory, &before, &fixture->error));
    launch_store(fixture, 0, 0, 1, INT32_MAX);
    assert_int_equal(facet_space_destroy(one->space, &fixture->error), FACET_BUSY);
    must_succeed(fixture, facet_space_get_usage(one->space, &left, &fixture->error));
    must_succeed(fixture, facet_memory_get_usage(fixture->memory, &after, &fixture->error));
    assert_int_equal(left.allocations, 0);
    assert_int_equal(left.leaving_bytes, RUNS * BYTES);
    assert_int_equal(after.used_bytes, before.used_bytes);
    must_succeed(fixture,
                 fixture->provider->execution->cancel(fixture->instance, one->context, one->stream, &fixture->error));
    must_succeed(fixture, facet_space_destroy(one->space, &fixture->error));
    must_succeed(fixture, facet_memory_get_usage(fixture->memory, &after, &fixture->error));
    assert_int_equal(after.used_bytes, before.used_bytes - RUNS * BYTES);
    assert_int_equal(after.spaces, TENANTS - 1);
}

/* All spaces together cannot hold more memory than the device has. */
static void test_spaces_cannot_hold_more_than_the_device(void **state)
{
    struct fixture *fixture = *state;
    uint64_t address;
    uint32_t refused = 0;

    for (uint32_t i = 0; i < 400 && !refused; i++) {
        enum facet_status status =
            facet_space_allocate(fixture->tenants[i % 2].space, BYTES, NULL, &address, &fixture->error);

        assert_true(status == FACET_OK || status == FACET_QUOTA || status == FACET_NO_SPACE);
        refused += status != FACET_OK;
    }
    assert_int_equal(refused, 1);
}

int main(void)
{
#define WITH_SETUP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_SETUP(test_copies_read_the_words_that_kernels_wrote),
        WITH_SETUP(test_pages_move_under_kernels),
        WITH_SETUP(test_tenants_are_apart),
        WITH_SETUP(test_idle_memory_does_not_wait),
        WITH_SETUP(test_a_space_ends_after_its_launches),
        WITH_SETUP(test_spaces_cannot_hold_more_than_the_device),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
