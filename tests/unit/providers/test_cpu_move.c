/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: pages of the cpu provider that move while they are used, and that contexts share. */
#include <errno.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "test_cpu_world.h"

#define MEMORY   (world.provider->memory)
#define LIMIT    (world.provider->limit)
#define INSTANCE world.instance
#define PAGE     UINT64_C(65536)
#define WORDS    (PAGE / sizeof(uint64_t))

static struct world world;

/* --- calls that fail --- */

/* How many more of them succeed; then one fails, and then all succeed again. -1: none fails. */
static struct {
    int calloc, mmap, over, protect, watch;
    bool no_faults;
} left;

static bool is_spent(int *count)
{
    return *count >= 0 && (*count)-- == 0;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return is_spent(&left.calloc) ? NULL : __real_calloc(count, size);
}

void *__real_mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (!is_spent(&left.mmap))
        return __real_mmap64(address, bytes, protection, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

int __real_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
    if ((request == UFFDIO_WRITEPROTECT && is_spent(&left.protect)) ||
        (request == UFFDIO_REGISTER && is_spent(&left.watch))) {
        errno = ENOMEM;
        return -1;
    }
    return __real_ioctl(fd, request, argument);
}

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    bool refused = number == SYS_userfaultfd && left.no_faults;

    if (!refused && !(number == SYS_mmap && is_spent(&left.over)))
        return __real_syscall(number, a, b, c, d, e, f);
    errno = refused ? EPERM : ENOMEM;
    return -1;
}

static void fail_none(void)
{
    left.calloc = left.mmap = left.over = left.protect = left.watch = -1;
    left.no_faults = false;
}

/* --- the world --- */

static int begin(void **state)
{
    (void)state;
    fail_none();
    world_begin(&world);
    return 0;
}

static int end(void **state)
{
    (void)state;
    fail_none();
    world_end(&world);
    return 0;
}

static uint64_t capabilities(void)
{
    struct facet_device_info info = {.size = sizeof info};
    uint32_t count = 0;

    OK(&world, world.provider->device->list(INSTANCE, &info, sizeof info, 1, &count, &world.error));
    return info.capabilities;
}

/* Old kernels cannot. */
static bool cannot_move(void)
{
    if (capabilities() & FACET_CAN_MOVE_PAGES)
        return false;
    print_message("this kernel has no userfaultfd for shared memory\n");
    return true;
}

static uint64_t reserve(uint64_t context, uint64_t pages)
{
    uint64_t at = 0;

    OK(&world, MEMORY->reserve(INSTANCE, context, pages * PAGE, 0, &at, &world.error));
    return at;
}

static uint64_t create(uint64_t context, uint64_t pages)
{
    uint64_t number = 0;

    OK(&world, MEMORY->create_pages(INSTANCE, context, pages * PAGE, &number, &world.error));
    return number;
}

/* These count in pages. */
static enum facet_status map(uint64_t context, uint64_t at, uint64_t pages, uint64_t offset, uint64_t count)
{
    return MEMORY->map(INSTANCE, context, at, pages, offset * PAGE, count * PAGE, &world.error);
}

static enum facet_status move(uint64_t at, uint64_t pages, uint64_t offset, uint64_t count)
{
    return MEMORY->move(INSTANCE, world.context, at, pages, offset * PAGE, count * PAGE, &world.error);
}

static enum facet_status unmap(uint64_t context, uint64_t at, uint64_t count)
{
    return MEMORY->unmap(INSTANCE, context, at, count * PAGE, &world.error);
}

static void destroy(uint64_t context, uint64_t pages)
{
    OK(&world, MEMORY->destroy_pages(INSTANCE, context, pages, &world.error));
}

static uint64_t word_at(uint64_t context, uint64_t address)
{
    uint64_t word = 0;

    OK(&world, MEMORY->read(INSTANCE, context, address, sizeof word, &word, &world.error));
    return word;
}

static void put_word(uint64_t context, uint64_t address, uint64_t word)
{
    OK(&world, MEMORY->write(INSTANCE, context, address, &word, sizeof word, &world.error));
}

/* Each page's first word says which it is, as its last does. */
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

static void what_is_mapped_moves(void **state)
{
    uint64_t at = reserve(world.context, 4), from = create(world.context, 4), to = create(world.context, 8);
    (void)state;

    if (cannot_move())
        return;
    OK(&world, map(world.context, at, from, 0, 4));
    number_pages(at, 4);
    OK(&world, move(at, to, 3, 4));
    expect_numbers(at, 4);
    /* They are there, and not where they were: the old ones go when they are destroyed. */
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

/* Six pages of three objects; the middle of them, with parts of both neighbours, becomes one. */
static void parts_of_several_pieces_move_as_one(void **state)
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
    /* What is left of the neighbours is still theirs. */
    put_word(world.context, at, 1);
    put_word(world.context, at + 5 * PAGE, 2);
    OK(&world, unmap(world.context, window, 4));
    OK(&world, map(world.context, window, one, 0, 1));
    OK(&world, map(world.context, window + PAGE, three, 1, 1));
    assert_int_equal(word_at(world.context, window), 1);
    assert_int_equal(word_at(world.context, window + PAGE), 2);
    /* And out of the middle of the new piece, back to one of the old. */
    OK(&world, move(at + 2 * PAGE, one, 1, 1));
    OK(&world, unmap(world.context, at, 6));
    assert_int_equal(MEMORY->read(INSTANCE, world.context, at + 2 * PAGE, 8, &(uint64_t){0}, NULL), FACET_OUT_OF_RANGE);
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

static void what_cannot_move_stays(void **state)
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
    assert_int_equal(move(at, to, 0, 4), FACET_OUT_OF_RANGE); /* the last is not mapped */
    assert_int_equal(move(at, to, 1, 3), FACET_OUT_OF_RANGE); /* beyond the pages */
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
    assert_int_equal(move(at, from, 0, 1), FACET_BUSY); /* onto itself */
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

/* Whatever fails inside: the same memory is there, can be written, and nothing is held. */
static void a_move_that_fails_changes_nothing(void **state)
{
    int *const counts[] = {&left.mmap, &left.calloc, &left.over, &left.protect, &left.watch};
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
            bool spent = *counts[i] < 0;
            fail_none();
            assert_int_equal(world_used(&world, world.context), used);
            expect_numbers(at, 4);
            number_pages(at, 4);
            expect_numbers(at, 4);
            if (!spent) {
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
    assert_true(failed >= 2 + 2 + 1 + 2 + 1);
}

static void without_userfaultfd_nothing_moves(void **state)
{
    (void)state;
    world_end(&world);
    left.no_faults = true;
    world_begin(&world);
    uint64_t at = reserve(world.context, 1), from = create(world.context, 1), to = create(world.context, 1);
    assert_int_equal(capabilities() & FACET_CAN_MOVE_PAGES, 0);
    assert_int_equal(capabilities() & FACET_CAN_SHARE_PAGES, FACET_CAN_SHARE_PAGES);
    OK(&world, map(world.context, at, from, 0, 1));
    number_pages(at, 1);
    assert_int_equal(move(at, to, 0, 1), FACET_UNSUPPORTED);
    assert_non_null(strstr(world.error.message, "userfaultfd"));
    expect_numbers(at, 1);
    OK(&world, map(world.context, reserve(world.context, 1), to, 0, 1)); /* it is nobody's */
}

/* --- while it is used --- */

struct rounds {
    uint64_t words, gate, count;
};

static void start_rounds(const struct rounds *rounds, uint64_t stream)
{
    const struct timespec pause = {.tv_nsec = 100000};
    struct facet_launch launch = world_launch(&world, "rounds", sizeof *rounds, 1, 1);

    OK(&world, world.provider->execution->launch(INSTANCE, world.context, stream, &launch, rounds, &world.error));
    for (int i = 0; i < 100000 && !__atomic_load_n((uint64_t *)rounds->gate, __ATOMIC_ACQUIRE); i++)
        nanosleep(&pause, NULL);
    assert_int_equal(__atomic_load_n((uint64_t *)rounds->gate, __ATOMIC_ACQUIRE), 1);
}

static void end_rounds(const struct rounds *rounds, uint64_t stream)
{
    static uint64_t words[4 * WORDS];

    __atomic_store_n((uint64_t *)rounds->gate + 1, 1, __ATOMIC_RELEASE);
    OK(&world, world.provider->execution->synchronize(INSTANCE, world.context, stream, WORLD_WAIT_NS, &world.error));
    uint64_t expected = word_at(world.context, rounds->gate + 16);
    assert_true(expected > 0);
    assert_true(rounds->count <= sizeof words / sizeof words[0]);
    OK(&world, MEMORY->read(INSTANCE, world.context, rounds->words, rounds->count * 8, words, &world.error));
    for (uint64_t i = 0; i < rounds->count; i++)
        if (words[i] != expected)
            fail_msg("word %zu: %zu of %zu increments", (size_t)i, (size_t)words[i], (size_t)expected);
}

/* Whole, in parts, from one piece and from several: while a kernel adds to every word of them. */
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

/* Through the operations of the ABI, and through a stream. */
static void *transfer(void *argument)
{
    struct transfers *transfers = argument;
    unsigned char bytes[4096], got[4096];
    struct facet_error error;

    while (!__atomic_load_n(&transfers->stop, __ATOMIC_ACQUIRE)) {
        uint64_t at = transfers->at + transfers->passes * 4096 % (2 * PAGE - 4096);

        memset(bytes, (int)(++transfers->passes), sizeof bytes);
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

static void transfers_go_on(void **state)
{
    struct transfers transfers = {.at = reserve(world.context, 4)};
    uint64_t one = create(world.context, 4), two = create(world.context, 4);
    void *wrong = NULL;
    pthread_t thread;
    (void)state;

    if (cannot_move())
        return;
    OK(&world, map(world.context, transfers.at, one, 0, 4));
    assert_int_equal(pthread_create(&thread, NULL, transfer, &transfers), 0);
    for (int i = 0; i < 200; i++) {
        OK(&world, move(transfers.at, i % 2 ? one : two, 0, 3));
        OK(&world, move(transfers.at + 3 * PAGE, i % 2 ? one : two, 3, 1));
    }
    __atomic_store_n(&transfers.stop, true, __ATOMIC_RELEASE);
    pthread_join(thread, &wrong);
    assert_null(wrong);
    assert_true(transfers.passes > 1);
}

/* The owner's chunk, mapped by another context, moves to a shared chunk under that context's kernel. */
static void shared_pages_move_under_a_kernel(void **state)
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
    destroy(owner, from); /* nothing of it is mapped any more */
    assert_int_equal(world_used(&world, owner), 4 * PAGE + 4096);
    OK(&world, MEMORY->destroy_context(INSTANCE, owner, &world.error));
    assert_int_equal(move(rounds.words, to, 2, 2), FACET_NOT_FOUND);
    end_rounds(&rounds, world.stream);
    assert_int_equal(world_used(&world, world.context), 4 * PAGE + 4096);
    OK(&world, unmap(world.context, rounds.words, 2));
    assert_int_equal(world_used(&world, world.context), 4096);
}

/* --- sharing --- */

static void pages_are_ones_own_until_they_are_shared(void **state)
{
    uint64_t other = world_context(&world, "other"), pages = create(world.context, 2);
    uint64_t here = reserve(world.context, 2), there = reserve(other, 2);
    (void)state;

    assert_int_equal(map(other, there, pages, 0, 2), FACET_NOT_FOUND);
    assert_int_equal(MEMORY->share_pages(INSTANCE, other, pages, NULL), FACET_NOT_FOUND);
    assert_int_equal(MEMORY->share_pages(INSTANCE, world.context, 12345, NULL), FACET_NOT_FOUND);
    assert_int_equal(MEMORY->share_pages(INSTANCE, 12345, pages, NULL), FACET_NOT_FOUND);
    OK(&world, MEMORY->share_pages(INSTANCE, world.context, pages, &world.error));
    OK(&world, MEMORY->share_pages(INSTANCE, world.context, pages, &world.error));
    OK(&world, map(other, there, pages, 0, 2));
    OK(&world, map(world.context, here, pages, 1, 1));
    put_word(other, there + PAGE, 77);
    assert_int_equal(word_at(world.context, here), 77);
    assert_int_equal(MEMORY->share_pages(INSTANCE, other, pages, NULL), FACET_NOT_FOUND);
    assert_int_equal(MEMORY->destroy_pages(INSTANCE, other, pages, NULL), FACET_NOT_FOUND);
    assert_int_equal(world_used(&world, other), 2 * PAGE);
    destroy(world.context, pages);
    assert_int_equal(map(other, there, pages, 0, 2), FACET_BUSY);
    assert_int_equal(MEMORY->share_pages(INSTANCE, world.context, pages, NULL), FACET_NOT_FOUND);
    OK(&world, unmap(other, there, 2));
    assert_int_equal(map(other, there, pages, 0, 2), FACET_NOT_FOUND);
    assert_int_equal(word_at(world.context, here), 77);
    assert_int_equal(world_used(&world, other), 2 * PAGE);
    OK(&world, unmap(world.context, here, 1));
    assert_int_equal(world_used(&world, other), 0);
}

/* The worker that shared them pays, with its context gone and with its limit; who maps them does not. */
static void who_shared_pages_pays_to_the_last(void **state)
{
    uint64_t address = 0, pages, owner, at;
    (void)state;

    OK(&world, LIMIT->set_memory(INSTANCE, 0, "owner", 4 * PAGE, &world.error));
    OK(&world, LIMIT->set_memory(INSTANCE, 0, "small", PAGE, &world.error));
    owner = world_context(&world, "owner");
    uint64_t small = world_context(&world, "small");
    pages = create(owner, 3);
    OK(&world, MEMORY->share_pages(INSTANCE, owner, pages, &world.error));
    assert_int_equal(MEMORY->alloc(INSTANCE, owner, 2 * PAGE, &address, NULL), FACET_QUOTA);
    at = reserve(small, 3);
    OK(&world, map(small, at, pages, 0, 3));
    assert_int_equal(world_used(&world, small), 0);
    world_alloc(&world, small, PAGE);
    OK(&world, MEMORY->destroy_context(INSTANCE, owner, &world.error));
    put_word(small, at, 5);
    assert_int_equal(LIMIT->clear(INSTANCE, 0, "owner", NULL), FACET_BUSY);
    owner = world_context(&world, "owner");
    assert_int_equal(world_used(&world, owner), 3 * PAGE);
    assert_int_equal(MEMORY->destroy_pages(INSTANCE, owner, pages, NULL), FACET_NOT_FOUND);
    assert_int_equal(map(owner, reserve(owner, 3), pages, 0, 3), FACET_NOT_FOUND);
    OK(&world, MEMORY->destroy_context(INSTANCE, owner, &world.error));
    assert_int_equal(word_at(small, at), 5);
    OK(&world, MEMORY->destroy_context(INSTANCE, small, &world.error)); /* the last who has them */
    OK(&world, LIMIT->clear(INSTANCE, 0, "owner", &world.error));
    assert_int_equal(world_used(&world, world.context), 0);
}

static void a_worker_of_nothing_but_pages_is_listed(void **state)
{
    struct facet_process_metrics processes[4] = {{.size = sizeof processes[0]}};
    uint64_t owner = world_context(&world, "owner"), pages = create(owner, 2), at = reserve(world.context, 2);
    uint32_t count = 0;
    (void)state;

    OK(&world, MEMORY->share_pages(INSTANCE, owner, pages, &world.error));
    OK(&world, map(world.context, at, pages, 0, 2));
    OK(&world, MEMORY->destroy_context(INSTANCE, owner, &world.error));
    assert_int_equal(LIMIT->set_memory(INSTANCE, 0, "owner", PAGE, NULL), FACET_BUSY);
    OK(&world, world.provider->metrics->processes(INSTANCE, 0, processes, sizeof processes[0], 4, &count, NULL));
    assert_int_equal(count, 2);
    assert_string_equal(processes[1].worker, "owner");
    assert_int_equal(processes[1].memory_used_bytes, 2 * PAGE);
    OK(&world, unmap(world.context, at, 2));
    OK(&world, world.provider->metrics->processes(INSTANCE, 0, processes, sizeof processes[0], 4, &count, NULL));
    assert_int_equal(count, 1);
}

/* Several contexts map, move and unmap what one owns, which it destroys under them. */
struct tenant {
    uint64_t context, pages;
    uint64_t offset;
};

static void *use_shared(void *argument)
{
    const struct tenant *tenant = argument;
    uint64_t at = 0, word = tenant->context, got = 0;

    if (MEMORY->reserve(INSTANCE, tenant->context, PAGE, 0, &at, NULL) != FACET_OK)
        return argument;
    for (int i = 0; i < 100; i++) {
        enum facet_status status =
            MEMORY->map(INSTANCE, tenant->context, at, tenant->pages, tenant->offset, PAGE, NULL);

        if (status == FACET_NOT_FOUND)
            break; /* the owner ended */
        if (status != FACET_OK || MEMORY->write(INSTANCE, tenant->context, at, &word, 8, NULL) != FACET_OK)
            return argument;
        status = MEMORY->move(INSTANCE, tenant->context, at, tenant->pages, tenant->offset + PAGE, PAGE, NULL);
        if ((status != FACET_OK && status != FACET_NOT_FOUND && status != FACET_UNSUPPORTED) ||
            MEMORY->read(INSTANCE, tenant->context, at, 8, &got, NULL) != FACET_OK || got != word ||
            MEMORY->unmap(INSTANCE, tenant->context, at, PAGE, NULL) != FACET_OK)
            return argument;
    }
    return NULL;
}

static void an_owner_ends_under_those_who_map(void **state)
{
    const struct timespec pause = {.tv_nsec = 3000000};
    (void)state;

    for (int round = 0; round < 5; round++) {
        uint64_t owner = world_context(&world, "owner"), pages = create(owner, 6);
        struct tenant tenants[3];
        pthread_t threads[3];
        void *wrong;

        OK(&world, MEMORY->share_pages(INSTANCE, owner, pages, &world.error));
        for (uint64_t i = 0; i < 3; i++) {
            tenants[i] = (struct tenant){world_context(&world, "tenant"), pages, i * 2 * PAGE};
            assert_int_equal(pthread_create(&threads[i], NULL, use_shared, &tenants[i]), 0);
        }
        nanosleep(&pause, NULL);
        OK(&world, MEMORY->destroy_context(INSTANCE, owner, &world.error));
        for (int i = 0; i < 3; i++) {
            pthread_join(threads[i], &wrong);
            assert_null(wrong);
            OK(&world, MEMORY->destroy_context(INSTANCE, tenants[i].context, &world.error));
        }
        assert_int_equal(world_used(&world, world.context), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_mapped_moves, begin, end),
        cmocka_unit_test_setup_teardown(parts_of_several_pieces_move_as_one, begin, end),
        cmocka_unit_test_setup_teardown(other_addresses_keep_the_old_pages, begin, end),
        cmocka_unit_test_setup_teardown(what_cannot_move_stays, begin, end),
        cmocka_unit_test_setup_teardown(a_move_that_fails_changes_nothing, begin, end),
        cmocka_unit_test_setup_teardown(without_userfaultfd_nothing_moves, begin, end),
        cmocka_unit_test_setup_teardown(no_write_of_a_kernel_is_lost, begin, end),
        cmocka_unit_test_setup_teardown(transfers_go_on, begin, end),
        cmocka_unit_test_setup_teardown(shared_pages_move_under_a_kernel, begin, end),
        cmocka_unit_test_setup_teardown(pages_are_ones_own_until_they_are_shared, begin, end),
        cmocka_unit_test_setup_teardown(who_shared_pages_pays_to_the_last, begin, end),
        cmocka_unit_test_setup_teardown(a_worker_of_nothing_but_pages_is_listed, begin, end),
        cmocka_unit_test_setup_teardown(an_owner_ends_under_those_who_map, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
