/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that pages of the cpu provider move while they are used. */
#include <errno.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "test_cpu_pages.h"

#define WORDS (PAGE / sizeof(uint64_t))

/* --- calls that fail --- */

/*
 * Numbers: how many calls of a kind succeed before one fails, after which all succeed again; -1: none fails.
 * no_userfaultfd and no_remap: that call always fails. one_mapping: write protection of several mappings fails.
 */
static struct {
    int calloc, mmap, remap, protect, register_watch;
    bool no_userfaultfd, no_remap, one_mapping;
} failures;

static bool call_fails(int *count)
{
    return *count >= 0 && (*count)-- == 0;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return call_fails(&failures.calloc) ? NULL : __real_calloc(count, size);
}

void *__real_mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (!call_fails(&failures.mmap))
        return __real_mmap64(address, bytes, protection, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

int __real_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
    if ((request == UFFDIO_WRITEPROTECT && call_fails(&failures.protect)) ||
        (request == UFFDIO_REGISTER && call_fails(&failures.register_watch))) {
        errno = ENOMEM;
        return -1;
    }
    /* Fails as an older kernel does for a range of two mappings. */
    if (request == UFFDIO_WRITEPROTECT && failures.one_mapping &&
        ((struct uffdio_writeprotect *)argument)->range.len > PAGE) {
        errno = ENOENT;
        return -1;
    }
    return __real_ioctl(fd, request, argument);
}

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    bool refused = number == SYS_userfaultfd && failures.no_userfaultfd;
    bool no_mapping_left = number == SYS_mremap && (failures.no_remap || failures.remap == 0);

    if (!refused && !no_mapping_left &&
        !(number == SYS_mmap && call_fails(d & MAP_FIXED ? &failures.remap : &failures.mmap)))
        return __real_syscall(number, a, b, c, d, e, f);
    errno = refused ? EPERM : ENOMEM;
    return -1;
}

static void fail_none(void)
{
    failures.calloc = failures.mmap = failures.remap = failures.protect = failures.register_watch = -1;
    failures.no_userfaultfd = failures.no_remap = failures.one_mapping = false;
}

/* --- set-up --- */

static int set_up(void **state)
{
    (void)state;
    fail_none();
    world_begin(&world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fail_none();
    world_end(&world);
    return 0;
}

/* Writes 100 + N into the first word of page N, and 200 + N into its last. */
static void number_pages(uint64_t at, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        put_word(world.context, at + i * PAGE, 100 + i);
        put_word(world.context, at + (i + 1) * PAGE - 8, 200 + i);
    }
}

static void expect_numbers(uint64_t at, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(word_at(world.context, at + i * PAGE), 100 + i);
        assert_int_equal(word_at(world.context, at + (i + 1) * PAGE - 8), 200 + i);
    }
}

/* --- moving --- */

static void mapped_pages_move(void **state)
{
    uint64_t at = reserve(world.context, 4), from = create(world.context, 4), to = create(world.context, 8);
    (void)state;

    if (cannot_move())
        return;
    OK(&world, map(world.context, at, from, 0, 4));
    number_pages(at, 4);
    OK(&world, move(at, to, 3, 4));
    expect_numbers(at, 4);
    /* The mapping has moved, so that destroying the old pages frees them. */
    assert_int_equal(map(world.context, at, to, 0, 1), FACET_BUSY);
    assert_int_equal(world_used(&world, world.context), 12 * PAGE);
    destroy(world.context, from);
    assert_int_equal(world_used(&world, world.context), 8 * PAGE);
    destroy(world.context, to);
    assert_int_equal(world_used(&world, world.context), 8 * PAGE);
    expect_numbers(at, 4);
    OK(&world, unmap(world.context, at, 4));
    assert_int_equal(world_used(&world, world.context), 0);
    OK(&world, MEMORY->release(INSTANCE, world.context, at, &world.error));
}

/* Three objects of two pages are mapped side by side. The middle object and a page of each neighbour move into one. */
static void pages_of_several_objects_move_into_one(void **state)
{
    uint64_t at = reserve(world.context, 6), one = create(world.context, 2), two = create(world.context, 2);
    uint64_t three = create(world.context, 2), to = create(world.context, 4), window = reserve(world.context, 4);
    (void)state;

    if (cannot_move())
        return;
    OK(&world, map(world.context, at, one, 0, 2));
    OK(&world, map(world.context, at + 2 * PAGE, two, 0, 2));
    OK(&world, map(world.context, at + 4 * PAGE, three, 0, 2));
    number_pages(at, 6);
    OK(&world, move(at + PAGE, to, 0, 4));
    expect_numbers(at, 6);
    destroy(world.context, two);
    assert_int_equal(world_used(&world, world.context), 8 * PAGE);
    OK(&world, map(world.context, window, to, 0, 4));
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(word_at(world.context, window + i * PAGE), 101 + i);
    /* The neighbours keep their other pages. */
    put_word(world.context, at, 1);
    put_word(world.context, at + 5 * PAGE, 2);
    OK(&world, unmap(world.context, window, 4));
    OK(&world, map(world.context, window, one, 0, 1));
    OK(&world, map(world.context, window + PAGE, three, 1, 1));
    assert_int_equal(word_at(world.context, window), 1);
    assert_int_equal(word_at(world.context, window + PAGE), 2);
    /* Then pages move from the middle of the new object back to an old one. */
    OK(&world, move(at + 2 * PAGE, one, 1, 1));
    OK(&world, unmap(world.context, at, 6));
    assert_int_equal(MEMORY->read(INSTANCE, world.context, at + 2 * PAGE, 8, &(uint64_t){0}, NULL), FACET_OUT_OF_RANGE);
}

/* The mapping is large enough for huge pages, which move whole and in part. */
static void huge_pages_move(void **state)
{
    const uint64_t huge = UINT64_C(2) << 20, count = 3 * huge / PAGE;
    uint64_t at = 0, from = create(world.context, count), to = create(world.context, count);
    (void)state;

    if (cannot_move())
        return;
    OK(&world, MEMORY->reserve(INSTANCE, world.context, 3 * huge, huge, &at, &world.error));
    OK(&world, map(world.context, at, from, 0, count));
    number_pages(at, count);
    OK(&world, move(at, to, 0, count));
    expect_numbers(at, count);
    OK(&world, move(at + PAGE, from, 5, huge / PAGE));
    OK(&world, move(at + huge + 2 * PAGE, from, huge / PAGE + 5, huge / PAGE));
    expect_numbers(at, count);
    number_pages(at, count);
    expect_numbers(at, count);
    OK(&world, unmap(world.context, at, count));
    destroy(world.context, from);
    destroy(world.context, to);
    /* The new pages reuse an offset in the provider's memory file. */
    destroy(world.context, create(world.context, count));
    assert_int_equal(world_used(&world, world.context), 0);
}

static void other_addresses_keep_the_old_pages(void **state)
{
    uint64_t at = reserve(world.context, 2), from = create(world.context, 1), to = create(world.context, 1);
    (void)state;

    if (cannot_move())
        return;
    OK(&world, map(world.context, at, from, 0, 1));
    OK(&world, map(world.context, at + PAGE, from, 0, 1));
    put_word(world.context, at, 7);
    OK(&world, move(at, to, 0, 1));
    put_word(world.context, at, 8);
    assert_int_equal(word_at(world.context, at + PAGE), 7);
    destroy(world.context, from);
    assert_int_equal(word_at(world.context, at + PAGE), 7);
    OK(&world, unmap(world.context, at + PAGE, 1));
    assert_int_equal(world_used(&world, world.context), PAGE);
}

static void impossible_moves_are_refused(void **state)
{
    uint64_t at = reserve(world.context, 4), from = create(world.context, 3), to = create(world.context, 3);
    uint64_t other = world_context(&world, "other"), plain = world_alloc(&world, world.context, 4 * PAGE);
    uint64_t theirs = create(other, 3), used = 0;
    (void)state;

    if (cannot_move())
        return;
    OK(&world, map(world.context, at, from, 0, 3));
    number_pages(at, 3);
    used = world_used(&world, world.context);
    assert_int_equal(move(at, to, 0, 0), FACET_OUT_OF_RANGE);
    assert_int_equal(move(at, to, 0, 4), FACET_OUT_OF_RANGE); /* the last page is not mapped */
    assert_int_equal(move(at, to, 1, 3), FACET_OUT_OF_RANGE); /* beyond the object */
    assert_int_equal(move(at, to, UINT64_MAX / PAGE, 1), FACET_OUT_OF_RANGE);
    assert_int_equal(move(at + 8, to, 0, 1), FACET_OUT_OF_RANGE);
    assert_int_equal(move(at, to, 0, UINT64_MAX / PAGE), FACET_OUT_OF_RANGE);
    assert_int_equal(MEMORY->move(INSTANCE, world.context, at, to, 0, PAGE / 2, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(MEMORY->move(INSTANCE, world.context, at, to, 8, PAGE, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(move(plain, to, 0, 1), FACET_OUT_OF_RANGE);
    assert_int_equal(move(at, 12345, 0, 1), FACET_NOT_FOUND);
    assert_int_equal(move(at, theirs, 0, 1), FACET_NOT_FOUND);
    assert_int_equal(MEMORY->move(INSTANCE, 12345, at, to, 0, PAGE, NULL), FACET_NOT_FOUND);
    assert_int_equal(MEMORY->move(INSTANCE, other, at, theirs, 0, PAGE, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(move(at, from, 0, 1), FACET_BUSY); /* to its own object */
    assert_int_equal(move(at + PAGE, from, 0, 1), FACET_BUSY);
    OK(&world, map(world.context, at + 3 * PAGE, to, 1, 1));
    assert_int_equal(move(at, to, 0, 3), FACET_BUSY);
    assert_non_null(strstr(world.error.message, "expected nothing of them to be mapped"));
    assert_int_equal(world_used(&world, world.context), used);
    expect_numbers(at, 3);
    OK(&world, move(at, to, 0, 1));
    OK(&world, move(at + PAGE, to, 2, 1));
    expect_numbers(at, 3);
}

/* Whichever inner step fails, the memory keeps its contents and can be written, and no further page stays charged. */
static void a_move_that_fails_changes_nothing(void **state)
{
    int *const counts[] = {&failures.mmap, &failures.calloc, &failures.remap, &failures.protect,
                           &failures.register_watch};
    uint64_t at = reserve(world.context, 4), one = create(world.context, 2), two = create(world.context, 2);
    uint64_t to = create(world.context, 2), used = world_used(&world, world.context), failed = 0;
    (void)state;

    if (cannot_move())
        return;
    OK(&world, map(world.context, at, one, 0, 2));
    OK(&world, map(world.context, at + 2 * PAGE, two, 0, 2));
    number_pages(at, 4);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int n = 0;; n++) {
            fail_none();
            *counts[i] = n;
            enum facet_status status = move(at + PAGE, to, 0, 2);
            bool failure_injected = *counts[i] < 0;
            fail_none();
            assert_int_equal(world_used(&world, world.context), used);
            expect_numbers(at, 4);
            number_pages(at, 4);
            expect_numbers(at, 4);
            if (!failure_injected) {
                OK(&world, status);
                OK(&world, unmap(world.context, at, 4));
                OK(&world, map(world.context, at, one, 0, 2));
                OK(&world, map(world.context, at + 2 * PAGE, two, 0, 2));
                number_pages(at, 4);
                break;
            }
            assert_int_equal(status, FACET_NO_MEMORY);
            failed++;
        }
    /*
     * At least, in the order of `counts`: 1 failure of mmap(), 2 of calloc(), and 1 of each other call. With
     * FACET_CPU_COMMIT the target pages are mapped elsewhere, so the copy needs no mmap().
     */
    assert_true(failed >= (getenv("FACET_CPU_COMMIT") ? 0 : 1) + 2 + 1 + 1 + 1);
}

/*
 * The move also works where mremap() fails because the process has no mapping left, or where write protection works
 * only within one mapping.
 */
static void a_move_works_where_the_kernel_refuses_a_call(void **state)
{
    bool *const lacks[] = {&failures.no_remap, &failures.one_mapping};
    (void)state;

    if (cannot_move())
        return;
    for (size_t i = 0; i < sizeof lacks / sizeof lacks[0]; i++) {
        uint64_t at = reserve(world.context, 4), from = create(world.context, 4), to = create(world.context, 3);

        OK(&world, map(world.context, at, from, 0, 4));
        number_pages(at, 4);
        *lacks[i] = true;
        enum facet_status status = move(at + PAGE, to, 0, 3);
        fail_none();
        OK(&world, status);
        expect_numbers(at, 4);
        number_pages(at, 4);
        expect_numbers(at, 4);
    }
}

static void without_userfaultfd_nothing_moves(void **state)
{
    (void)state;
    world_end(&world);
    failures.no_userfaultfd = true;
    world_begin(&world);
    uint64_t at = reserve(world.context, 1), from = create(world.context, 1), to = create(world.context, 1);
    assert_int_equal(capabilities() & FACET_CAN_MOVE_PAGES, 0);
    assert_int_equal(capabilities() & FACET_CAN_SHARE_PAGES, FACET_CAN_SHARE_PAGES);
    OK(&world, map(world.context, at, from, 0, 1));
    number_pages(at, 1);
    assert_int_equal(move(at, to, 0, 1), FACET_UNSUPPORTED);
    assert_non_null(strstr(world.error.message, "userfaultfd"));
    expect_numbers(at, 1);
    OK(&world, map(world.context, reserve(world.context, 1), to, 0, 1)); /* the refused move did not map `to` */
}

/* --- while it is used --- */

struct rounds {
    uint64_t words;
    uint64_t control; /* [0]: has begun; [1]: must end; [2]: rounds done */
    uint64_t count;
};

static void start_rounds(const struct rounds *rounds, uint64_t stream)
{
    const struct timespec pause = {.tv_nsec = 100000};
    struct facet_launch launch = world_launch(&world, "rounds", sizeof *rounds, 1, 1);

    OK(&world, world.provider->execution->launch(INSTANCE, world.context, stream, &launch, rounds, &world.error));
    for (int i = 0; i < 100000 && !__atomic_load_n((uint64_t *)rounds->control, __ATOMIC_ACQUIRE); i++)
        nanosleep(&pause, NULL);
    assert_int_equal(__atomic_load_n((uint64_t *)rounds->control, __ATOMIC_ACQUIRE), 1);
}

static void end_rounds(const struct rounds *rounds, uint64_t stream)
{
    static uint64_t words[4 * WORDS];

    __atomic_store_n((uint64_t *)rounds->control + 1, 1, __ATOMIC_RELEASE);
    OK(&world, world.provider->execution->synchronize(INSTANCE, world.context, stream, WORLD_WAIT_NS, &world.error));
    uint64_t expected = word_at(world.context, rounds->control + 16);
    assert_true(expected > 0);
    assert_true(rounds->count <= sizeof words / sizeof words[0]);
    OK(&world, MEMORY->read(INSTANCE, world.context, rounds->words, rounds->count * 8, words, &world.error));
    for (uint64_t i = 0; i < rounds->count; i++)
        if (words[i] != expected)
            fail_msg("word %zu: %zu of %zu increments", (size_t)i, (size_t)words[i], (size_t)expected);
}

/* Pages move whole, in part, and from one object or several, while a kernel adds to each of their words. */
static void no_write_of_a_kernel_is_lost(void **state)
{
    uint64_t at = reserve(world.context, 4), one = create(world.context, 4), two = create(world.context, 6);
    struct rounds rounds = {at, world_alloc(&world, world.context, 4096), 4 * WORDS};
    (void)state;

    if (cannot_move())
        return;
    world_load(&world, "test-cpu-kernels.so");
    OK(&world, map(world.context, at, one, 0, 4));
    start_rounds(&rounds, world.stream);
    for (int i = 0; i < 60; i++) {
        OK(&world, move(at, two, 0, 4));
        OK(&world, move(at + PAGE, one, 0, 2));
        OK(&world, move(at, two, 4, 1));
        OK(&world, move(at + 3 * PAGE, two, 5, 1));
        OK(&world, move(at + 2 * PAGE, two, 2, 2));
        OK(&world, move(at, two, 0, 1));
        OK(&world, move(at + PAGE, two, 1, 1));
        OK(&world, move(at, one, 0, 4));
    }
    end_rounds(&rounds, world.stream);
}

struct transfers {
    uint64_t at;
    bool stop; /* atomic */
    uint64_t passes;
};

/* Transfers by the memory operations, and by a stream. */
static void *transfer_repeatedly(void *argument)
{
    struct transfers *transfers = argument;
    unsigned char bytes[4096], got[4096];
    struct facet_error error;

    while (!__atomic_load_n(&transfers->stop, __ATOMIC_ACQUIRE)) {
        uint64_t pass = __atomic_fetch_add(&transfers->passes, 1, __ATOMIC_RELAXED);
        uint64_t at = transfers->at + pass * 4096 % (2 * PAGE - 4096);

        memset(bytes, (int)(pass + 1), sizeof bytes);
        if (MEMORY->write(INSTANCE, world.context, at, bytes, sizeof bytes, &error) != FACET_OK ||
            MEMORY->copy(INSTANCE, world.context, transfers->at + 2 * PAGE, at, sizeof bytes, &error) != FACET_OK ||
            world.provider->execution->copy(INSTANCE, world.context, world.stream, transfers->at + 3 * PAGE,
                                            transfers->at + 2 * PAGE, sizeof bytes, &error) != FACET_OK ||
            MEMORY->read(INSTANCE, world.context, transfers->at + 3 * PAGE, sizeof got, got, &error) != FACET_OK ||
            memcmp(bytes, got, sizeof got) != 0)
            return transfers;
    }
    return NULL;
}

static uint64_t passes_of(const struct transfers *transfers, int count)
{
    uint64_t passes = 0;

    for (int i = 0; i < count; i++)
        passes += __atomic_load_n(&transfers[i].passes, __ATOMIC_RELAXED);
    return passes;
}

/* Pages move until transfers have run, however late a busy machine lets the transfers begin. */
static void transfers_work_while_pages_move(void **state)
{
    struct transfers transfers = {.at = reserve(world.context, 4)};
    uint64_t one = create(world.context, 4), two = create(world.context, 4);
    void *wrong = NULL;
    pthread_t thread;
    (void)state;

    if (cannot_move())
        return;
    OK(&world, map(world.context, transfers.at, one, 0, 4));
    assert_int_equal(pthread_create(&thread, NULL, transfer_repeatedly, &transfers), 0);
    for (int i = 0; i < 200 || passes_of(&transfers, 1) <= 1; i++) {
        OK(&world, move(transfers.at, i % 2 ? one : two, 0, 3));
        OK(&world, move(transfers.at + 3 * PAGE, i % 2 ? one : two, 3, 1));
    }
    __atomic_store_n(&transfers.stop, true, __ATOMIC_RELEASE);
    pthread_join(thread, &wrong);
    assert_null(wrong);
}

static void *fill_repeatedly(void *argument)
{
    struct transfers *transfers = argument;

    while (!__atomic_load_n(&transfers->stop, __ATOMIC_ACQUIRE)) {
        MEMORY->fill(INSTANCE, world.context, transfers->at, 1, UINT64_C(16) << 20, NULL);
        __atomic_fetch_add(&transfers->passes, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/*
 * At any time at least one of the three threads is in a transfer. A move waits for transfers that have begun, and not
 * for later ones.
 */
static void continuous_transfers_do_not_starve_a_move(void **state)
{
    struct transfers transfers[3] = {{0}};
    uint64_t at = reserve(world.context, 2), one = create(world.context, 2), two = create(world.context, 2), passes = 0;
    pthread_t threads[3];
    (void)state;

    if (cannot_move())
        return;
    OK(&world, map(world.context, at, one, 0, 2));
    for (int i = 0; i < 3; i++) {
        transfers[i].at = world_alloc(&world, world.context, UINT64_C(16) << 20);
        assert_int_equal(pthread_create(&threads[i], NULL, fill_repeatedly, &transfers[i]), 0);
    }
    number_pages(at, 2);
    for (int i = 0; i < 20; i++) {
        uint64_t before = passes_of(transfers, 3);
        OK(&world, move(at, i % 2 ? one : two, 0, 2));
        passes += passes_of(transfers, 3) - before;
    }
    expect_numbers(at, 2);
    assert_true(passes < 20 * 16); /* of 20 moves, each let fewer than 16 transfers begin, on average */
    for (int i = 0; i < 3; i++)
        __atomic_store_n(&transfers[i].stop, true, __ATOMIC_RELEASE);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

/*
 * A context has mapped the owner's shared pages; they move to other shared pages while that context's kernel writes to
 * them.
 */
static void shared_pages_move_while_a_kernel_writes_them(void **state)
{
    uint64_t owner = world_context(&world, "owner"), from = create(owner, 4), to = create(owner, 4);
    struct rounds rounds = {reserve(world.context, 2), world_alloc(&world, world.context, 4096), 2 * WORDS};
    (void)state;

    if (cannot_move())
        return;
    OK(&world, MEMORY->share_pages(INSTANCE, owner, from, &world.error));
    OK(&world, MEMORY->share_pages(INSTANCE, owner, to, &world.error));
    OK(&world, map(world.context, rounds.words, from, 1, 2));
    world_load(&world, "test-cpu-kernels.so");
    start_rounds(&rounds, world.stream);
    for (int i = 0; i < 20; i++) {
        OK(&world, move(rounds.words, to, 2, 2));
        OK(&world, move(rounds.words, from, 0, 2));
    }
    OK(&world, move(rounds.words, to, 0, 2));
    destroy(owner, from); /* no page of it is mapped any more */
    assert_int_equal(world_used(&world, owner), 4 * PAGE + 4096);
    OK(&world, MEMORY->destroy_context(INSTANCE, owner, &world.error));
    assert_int_equal(move(rounds.words, to, 2, 2), FACET_NOT_FOUND);
    end_rounds(&rounds, world.stream);
    assert_int_equal(world_used(&world, world.context), 4 * PAGE + 4096);
    OK(&world, unmap(world.context, rounds.words, 2));
    assert_int_equal(world_used(&world, world.context), 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(mapped_pages_move, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pages_of_several_objects_move_into_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(huge_pages_move, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_addresses_keep_the_old_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(impossible_moves_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_move_that_fails_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_move_works_where_the_kernel_refuses_a_call, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_userfaultfd_nothing_moves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_write_of_a_kernel_is_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(transfers_work_while_pages_move, set_up, tear_down),
        cmocka_unit_test_setup_teardown(continuous_transfers_do_not_starve_a_move, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shared_pages_move_while_a_kernel_writes_them, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
