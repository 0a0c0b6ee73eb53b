/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that queued work, like an immediate call, reaches only allocations of its vGPU: no bytes behind the
 *       end of an allocation, and no memory that was freed.
 */
#include "world.h"

#define BYTES 4096u

/* Neighbouring blocks in one page. The device, which checks pages, would accept access to all of them. */
static struct {
    uint64_t first, next, freed;
} at;

enum { BLOCKS = 16 };

static bool is_among(const uint64_t blocks[BLOCKS], uint64_t address)
{
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (blocks[i] == address)
            return true;
    return false;
}

/*
 * A thread that moves to another core gets its blocks from another slab, so the test searches BLOCKS blocks for three
 * adjacent ones.
 */
static void make_neighbours(void)
{
    uint64_t blocks[BLOCKS];

    vgpu_make(1);
    at.first = 0;
    for (uint32_t i = 0; i < BLOCKS; i++)
        blocks[i] = vgpu_memory(1, BYTES);
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (is_among(blocks, blocks[i] + BYTES) && is_among(blocks, blocks[i] + 2 * BYTES))
            at.first = blocks[i];
    assert_int_not_equal(at.first, 0);
    at.next = at.first + BYTES;
    at.freed = at.next + BYTES;
    OK(facet_vgpu_free(world.driver, 1, at.freed, ERROR));
}

static void check_nothing_was_queued(void)
{
    assert_int_equal(vgpu_info(1).launched_total, 0);
    assert_int_equal(vgpu_word(1, at.first), 0);
    assert_int_equal(vgpu_word(1, at.next), 0);
}

#define REFUSED_FOR(name, call)                                                                                        \
    do {                                                                                                               \
        REFUSED(FACET_OUT_OF_RANGE, call);                                                                             \
        assert_string_equal(world.error.argument, name);                                                               \
    } while (0)

static void fill_is_refused(uint64_t address, uint64_t bytes)
{
    REFUSED_FOR("address", facet_vgpu_fill(world.driver, 1, address, 7, bytes, ERROR));
    REFUSED_FOR("address", facet_vgpu_enqueue_fill(world.driver, 1, 0, address, 7, bytes, NULL, ERROR));
}

static void a_fill_keeps_to_its_allocation(void **state)
{
    (void)state;
    make_neighbours();
    fill_is_refused(at.first, BYTES + 1);
    fill_is_refused(at.first + 8, BYTES);
    fill_is_refused(at.first, UINT64_MAX);
    fill_is_refused(at.freed, 8);
    check_nothing_was_queued();
    OK(facet_vgpu_enqueue_fill(world.driver, 1, 0, at.first, 7, BYTES, NULL, ERROR));
    vgpu_finish(1);
    assert_int_equal(vgpu_word(1, at.first + BYTES - 8), UINT64_C(0x0707070707070707));
    assert_int_equal(vgpu_word(1, at.next), 0);
}

/* The limit is the requested size, not the size of the block. */
static void a_fill_keeps_to_the_requested_size(void **state)
{
    (void)state;
    vgpu_make(1);
    uint64_t odd = vgpu_memory(1, 4100);

    fill_is_refused(odd, 4101);
    OK(facet_vgpu_enqueue_fill(world.driver, 1, 0, odd, 7, 4100, NULL, ERROR));
    vgpu_finish(1);
}

static enum facet_status queue_copy(uint64_t to, uint64_t from, uint64_t bytes, enum facet_copy kind)
{
    return facet_vgpu_enqueue_copy(world.driver, 1, 0, to, from, bytes, kind, NULL, ERROR);
}

static void a_copy_keeps_to_its_allocations(void **state)
{
    static const unsigned char host[2 * BYTES] = {7};
    const uint64_t from = (uintptr_t)host;

    (void)state;
    make_neighbours();
    REFUSED_FOR("to", queue_copy(at.first, from, BYTES + 1, FACET_COPY_TO_DEVICE));
    REFUSED_FOR("to", queue_copy(at.freed, from, 8, FACET_COPY_TO_DEVICE));
    REFUSED_FOR("to", queue_copy(at.first + 8, at.next, BYTES, FACET_COPY_ON_DEVICE));
    REFUSED_FOR("from", queue_copy(at.next, at.first + 8, BYTES, FACET_COPY_ON_DEVICE));
    REFUSED_FOR("to", queue_copy(at.freed, at.first, 8, FACET_COPY_ON_DEVICE));
    REFUSED_FOR("from", queue_copy(at.first, at.freed, 8, FACET_COPY_ON_DEVICE));
    check_nothing_was_queued();
    OK(queue_copy(at.first, from, BYTES, FACET_COPY_TO_DEVICE));
    OK(queue_copy(at.next, at.first, BYTES, FACET_COPY_ON_DEVICE));
    vgpu_finish(1);
    assert_int_equal(vgpu_word(1, at.next) & 0xff, 7);
}

static uint64_t last_launch;

static enum facet_status launch_with(struct facet_kernel *kernel, uint64_t address)
{
    const struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {1}, .group = {1}};

    OK(facet_kernel_set_memory(kernel, 0, address, ERROR));
    return facet_vgpu_execute(world.driver, 1, 0, kernel, &range, &last_launch, ERROR);
}

static void arguments_of_a_launch_are_in_allocations(void **state)
{
    (void)state;
    make_neighbours();
    struct facet_kernel *add = vgpu_kernel(1, "add", at.first, 3);

    REFUSED_FOR("words", launch_with(add, at.freed + 8));
    check_nothing_was_queued();
    OK(launch_with(add, at.next + BYTES - 8));
    vgpu_finish(1);
    assert_int_equal(vgpu_word(1, at.next + BYTES - 8), 3);
    facet_kernel_destroy(add);
}

/* A pointer to the end of an allocation is valid, because loops over pointers need it. No memory is mapped there, so
 * the launch is cancelled before it runs. */
static void an_argument_may_be_the_end_of_an_allocation(void **state)
{
    (void)state;
    make_neighbours();
    struct facet_kernel *add = vgpu_kernel(1, "add", at.first, 3);

    OK(facet_vgpu_pause(world.driver, 1, ERROR));
    OK(launch_with(add, at.next + BYTES));
    OK(facet_vgpu_cancel(world.driver, 1, last_launch, ERROR));
    REFUSED_FOR("words", launch_with(add, at.next + BYTES + 1));
    OK(facet_vgpu_resume(world.driver, 1, ERROR));
    vgpu_finish(1);
    assert_int_equal(vgpu_info(1).launched_total, 1);
    assert_int_equal(vgpu_execution(1, last_launch).status, FACET_EXECUTION_CANCELLED);
    facet_kernel_destroy(add);
}

/* The rules hold for managed memory, too: after all of it was freed, and for moves between host and device. */
static void managed_memory_is_no_exception(void **state)
{
    void *pointer = NULL, *other = NULL;

    (void)state;
    vgpu_make(1);
    if (facet_vgpu_allocate_managed(world.driver, 1, 2 * MIB, NULL, &pointer, ERROR) != FACET_OK) {
        print_message("# no managed memory here: %s\n", world.error.message);
        skip();
    }
    OK(facet_vgpu_allocate_managed(world.driver, 1, 2 * MIB, NULL, &other, ERROR));
    fill_is_refused((uintptr_t)pointer, 2 * MIB + 1);
    fill_is_refused((uintptr_t)other, 2 * MIB + 1);
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_prefetch(world.driver, 1, pointer, 2 * MIB + 1, true, ERROR));
    OK(facet_vgpu_free(world.driver, 1, (uintptr_t)other, ERROR));
    fill_is_refused((uintptr_t)other, 8);
    REFUSED(FACET_NOT_FOUND, facet_vgpu_prefetch(world.driver, 1, other, 8, true, ERROR));
    OK(facet_vgpu_enqueue_fill(world.driver, 1, 0, (uintptr_t)pointer, 7, 2 * MIB, NULL, ERROR));
    vgpu_finish(1);
    assert_int_equal(*(unsigned char *)pointer, 7);
}

/* No process has memory near address 0 (a member of a struct that is NULL), or behind the last address. */
static void an_address_that_no_process_has_is_no_host_memory(void **state)
{
    static const uint64_t wild[] = {1, 16, 4095, UINT64_C(1) << 63, UINT64_MAX - 20, UINT64_MAX};
    static const uint32_t off[] = {0, FACET_OFF_MEMORY};
    uint64_t word = 0, there = (uintptr_t)&word;

    for (size_t k = 0; k < sizeof off / sizeof *off; k++) {
        struct facet_driver_config config = world_config();
        struct facet_vgpu_config vgpu = vgpu_config(1);

        config.off = off[k];
        vgpu.memory_bytes = off[k] ? 0 : vgpu.memory_bytes;
        world_open(&config);
        OK(facet_vgpu_create(world.driver, &vgpu, NULL, ERROR));
        uint64_t here = vgpu_memory(1, BYTES);
        for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
            REFUSED(FACET_INVALID_ARGUMENT,
                    facet_vgpu_enqueue_copy(world.driver, 1, 0, here, wild[i], 16, FACET_COPY_TO_DEVICE, NULL, ERROR));
            assert_string_equal(world.error.argument, "from");
            assert_non_null(strstr(world.error.message, "is no host memory"));
            REFUSED(FACET_INVALID_ARGUMENT,
                    facet_vgpu_copy(world.driver, 1, here, wild[i], 16, FACET_COPY_TO_DEVICE, ERROR));
            REFUSED(FACET_INVALID_ARGUMENT,
                    facet_vgpu_copy(world.driver, 1, wild[i], here, 16, FACET_COPY_TO_HOST, ERROR));
            assert_string_equal(world.error.argument, "to");
            if (off[k])
                continue; /* has no copies within the host */
            REFUSED(FACET_INVALID_ARGUMENT,
                    facet_vgpu_copy(world.driver, 1, wild[i], there, 8, FACET_COPY_HOST_TO_HOST, ERROR));
            REFUSED(FACET_INVALID_ARGUMENT,
                    facet_vgpu_copy(world.driver, 1, there, wild[i], 8, FACET_COPY_HOST_TO_HOST, ERROR));
            REFUSED(FACET_INVALID_ARGUMENT,
                    facet_vgpu_copy(world.driver, 1, here, wild[i], 8, FACET_COPY_DETECT, ERROR));
        }
        vgpu_finish(1);
        world_close();
    }
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, world_set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(a_fill_keeps_to_its_allocation),
        WITH_WORLD(a_fill_keeps_to_the_requested_size),
        WITH_WORLD(a_copy_keeps_to_its_allocations),
        WITH_WORLD(arguments_of_a_launch_are_in_allocations),
        WITH_WORLD(an_argument_may_be_the_end_of_an_allocation),
        WITH_WORLD(managed_memory_is_no_exception),
        cmocka_unit_test(an_address_that_no_process_has_is_no_host_memory),
    };

    return cmocka_run_group_tests(tests, world_load, world_unload);
}
