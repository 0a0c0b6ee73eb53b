/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory when system calls fail, when addresses are in use, and when a page cannot be brought to the host.
 *
 * With FACET_TEST_PLACE=1 the provider is in this process. Then pages do not move, and most of these failures cannot
 * happen.
 */
#include "managed.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

/* ---- calls that fail on purpose (--wrap) ---- */

#define REFUSE_ALL         1 /* no userfaultfd can be opened */
#define REFUSE_KERNEL_MODE 2 /* only a userfaultfd for faults of user mode can be opened */

static atomic_int calls_left = -1; /* calls that succeed before one fails; below 0: none fails */
static atomic_bool no_poison;      /* UFFDIO_POISON fails, as on older kernels */
static _Atomic uint64_t obstacle;  /* bytes that cannot be mapped, from the address of the first try on */
static uint64_t obstacle_at;
static atomic_int userfaultfd_refusal; /* 0, REFUSE_ALL or REFUSE_KERNEL_MODE */

static bool must_fail(void)
{
    return atomic_load(&calls_left) >= 0 && atomic_fetch_sub(&calls_left, 1) == 0;
}

/* Stops failing calls. True if fewer calls were made than were to succeed, so that none failed. */
static bool disarm_fault(void)
{
    return atomic_exchange(&calls_left, -1) >= 0;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return must_fail() ? NULL : __real_calloc(count, size);
}

/* Small allocations do not fail: without memory for an answer a session reports its provider as lost. */
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return size >= MIB && must_fail() ? NULL : __real_malloc(size);
}

int __real_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
    bool poison = request == _IOWR(UFFDIO, 0x08, char[32]);

    if (request == UFFDIO_WAKE || !((poison && atomic_load(&no_poison)) || must_fail()))
        return __real_ioctl(fd, request, argument);
    errno = ENOMEM;
    return -1;
}

int __real_madvise(void *address, size_t bytes, int advice);
int __wrap_madvise(void *address, size_t bytes, int advice);
int __wrap_madvise(void *address, size_t bytes, int advice)
{
    if (!must_fail())
        return __real_madvise(address, bytes, advice);
    errno = ENOMEM;
    return -1;
}

int __real_eventfd(unsigned int count, int flags);
int __wrap_eventfd(unsigned int count, int flags);
int __wrap_eventfd(unsigned int count, int flags)
{
    if (!must_fail())
        return __real_eventfd(count, flags);
    errno = EMFILE;
    return -1;
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    return must_fail() ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

int __real_open64(const char *path, int flags, unsigned mode);
int __wrap_open64(const char *path, int flags, unsigned mode);
int __wrap_open64(const char *path, int flags, unsigned mode)
{
    if (!atomic_load(&userfaultfd_refusal) || strcmp(path, "/dev/userfaultfd") != 0)
        return __real_open64(path, flags, mode);
    errno = EACCES;
    return -1;
}

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    bool kernel_mode = number == SYS_userfaultfd && !(a & 1); /* without UFFD_USER_MODE_ONLY */
    bool refused = number == SYS_userfaultfd && (atomic_load(&userfaultfd_refusal) == REFUSE_ALL ||
                                                 (atomic_load(&userfaultfd_refusal) && kernel_mode));

    if (number == SYS_mmap && atomic_load(&obstacle) > 0) {
        obstacle_at = obstacle_at ? obstacle_at : (uint64_t)a;
        if ((uint64_t)a - obstacle_at < atomic_load(&obstacle)) {
            errno = EEXIST;
            return -1;
        }
    }
    if (!refused && !(number == SYS_mmap && must_fail()))
        return __real_syscall(number, a, b, c, d, e, f);
    errno = refused ? EPERM : ENOMEM;
    return -1;
}

/* ---- allocating ---- */

static void without_privilege_system_calls_fail_on_pages_at_the_device(void **state)
{
    char *pointer = NULL;
    int ends[2];

    (void)state;
    if (is_shared())
        return;
    atomic_store(&userfaultfd_refusal, REFUSE_ALL);
    vgpu_make(1);
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_allocate_managed(world.driver, 1, 1, NULL, (void **)&pointer, ERROR));
    assert_int_equal(vgpu_info(1).allocations, 0);
    atomic_store(&userfaultfd_refusal, REFUSE_KERNEL_MODE);
    pointer = managed(1, 2 * PAGE);
    atomic_store(&userfaultfd_refusal, 0);
    assert_int_equal(usage_of(1, pointer).flags, 0);
    OK(facet_vgpu_fill(world.driver, 1, (uintptr_t)pointer, 'x', 2 * PAGE, ERROR));
    assert_int_equal(pointer[5], 'x');
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], pointer, 100), 100); /* this page is at the host */
    assert_int_equal(write(ends[1], pointer + PAGE, 100), -1);
    assert_int_equal(errno, EFAULT);
    assert_int_equal(pointer[PAGE], 'x');
    close(ends[0]);
    close(ends[1]);
}

/* 20 MiB of addresses are in use: the allocation is made behind them, and the failed tries leave nothing. */
static void an_allocation_avoids_addresses_in_use(void **state)
{
    uint64_t *pointer = NULL;

    (void)state;
    if (is_shared())
        return;
    vgpu_make(1);
    obstacle_at = 0;
    atomic_store(&obstacle, 20 * MIB);
    pointer = managed(1, MIB);
    assert_true((uintptr_t)pointer >= obstacle_at + 20 * MIB);
    assert_int_equal(vgpu_info(1).allocations, 1);
    pointer[3] = 4;
    assert_int_equal(vgpu_word(1, (uintptr_t)(pointer + 3)), 4);
    atomic_store(&obstacle, UINT64_MAX);
    REFUSED(FACET_BUSY, facet_vgpu_allocate_managed(world.driver, 1, MIB, NULL, (void **)&pointer, ERROR));
    atomic_store(&obstacle, 0);
    assert_int_equal(vgpu_info(1).allocations, 1);
}

/* Whichever call within an allocation fails, it returns a status and leaves nothing, and the next allocation works. */
static void an_allocation_is_whole_or_not_there(void **state)
{
    bool over = false;
    int refused = 0;

    (void)state;
    for (int nth = 0; !over; nth++) {
        uint64_t *pointer = NULL;

        vgpu_make(1);
        atomic_store(&calls_left, nth);
        enum facet_status status =
            facet_vgpu_allocate_managed(world.driver, 1, 3 * PAGE, NULL, (void **)&pointer, ERROR);
        over = disarm_fault();
        assert_int_equal(pointer != NULL, status == FACET_OK);
        if (status != FACET_OK) {
            assert_int_not_equal(status, FACET_INTERNAL);
            assert_int_equal(vgpu_info(1).allocations, 0);
            assert_int_equal(vgpu_info(1).memory_allocated_bytes, 0);
            pointer = managed(1, 3 * PAGE);
            refused++;
        }
        pointer[1] = 4;
        assert_int_equal(vgpu_word(1, (uintptr_t)(pointer + 1)), 4);
        OK(facet_vgpu_destroy(world.driver, 1, ERROR));
        assert_true(nth < 1000);
    }
    assert_in_range(refused, is_shared() ? 3 : 8, 1000);
}

/* Whichever call fails while pages move between host and device, no word is lost: the page comes later, or the launch
 * is refused. */
static void nothing_is_lost_when_calls_fail(void **state)
{
    enum { PAGES = 4, ROUNDS = 60 };
    uint64_t launches = 0;

    (void)state;
    vgpu_make(1);
    uint64_t *words = managed(1, PAGES * PAGE);
    struct facet_kernel *kernel = vgpu_kernel(1, "add", (uintptr_t)words, 100000);
    const struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {1}, .group = {1}};
    memset(words, 0, PAGES * PAGE);
    vgpu_launch(1, 0, kernel, 1);
    launches++;
    for (int nth = 0; nth < ROUNDS; nth++) {
        atomic_store(&calls_left, nth % 20);
        for (uint64_t i = 0; i < PAGES; i++)
            words[i * PAGE_WORDS + 1]++;
        launches += facet_vgpu_execute(world.driver, 1, 0, kernel, &range, NULL, ERROR) == FACET_OK;
        for (uint64_t i = 0; i < PAGES; i++)
            words[i * PAGE_WORDS + 1]++;
        disarm_fault();
    }
    vgpu_finish(1);
    assert_int_equal(words[0], launches * 100000);
    for (uint64_t i = 0; i < PAGES; i++)
        assert_int_equal(words[i * PAGE_WORDS + 1], 2 * ROUNDS);
    assert_true(launches > ROUNDS / 2);
    facet_kernel_destroy(kernel);
}

/* ---- pages that cannot come ---- */

struct waiter {
    pthread_t thread;
    const uint64_t *word;
    bool read;
};

static void *wait_for_page(void *argument)
{
    struct waiter *waiter = argument;

    waiter->read = can_read(waiter->word);
    return NULL;
}

/* A thread that waits for a page gets a signal when the vGPU is destroyed or its device is lost. */
static void no_thread_waits_forever(void **state)
{
    (void)state;
    if (is_shared())
        return;
    enum { DESTROY, LOSE_DEVICE, LOSE_DEVICE_WITHOUT_POISON, ENDS };
    for (int end = DESTROY; end < ENDS; end++) {
        bool destroy = end == DESTROY;
        struct facet_driver_config config = world_config();
        struct waiter waiter;

        world_open(&config);
        vgpu_make(1);
        uint64_t *words = managed(1, 2 * PAGE);
        words[PAGE_WORDS] = 8;
        uint64_t gate = vgpu_memory(1, 16);
        struct facet_kernel *kernel = vgpu_kernel(1, "gate", gate, 0);

        if (destroy)
            OK(facet_vgpu_pause(world.driver, 1, ERROR));
        else
            assert_true(wait_for_status(1, vgpu_launch(1, 0, kernel, 1), FACET_EXECUTION_RUNNING));
        uint64_t faults = usage_of(1, words).faults_total;
        atomic_store(&no_poison, end == LOSE_DEVICE_WITHOUT_POISON);
        catch_signals();
        waiter = (struct waiter){.word = words};
        pthread_create(&waiter.thread, NULL, wait_for_page, &waiter);
        for (uint64_t waited = 0; waited < WAIT_NS && usage_of(1, words).faults_total == faults; waited += MS)
            nap(MS);
        nap(10 * MS);
        if (destroy)
            OK(facet_vgpu_destroy(world.driver, 1, ERROR));
        else
            kill(world_child(), SIGKILL);
        pthread_join(waiter.thread, NULL);
        assert_false(waiter.read);
        assert_int_equal(signals, 1);
        if (!destroy) {
            assert_int_equal(vgpu_status(1), FACET_VGPU_ERROR);
            assert_false(can_read(words + 1)); /* fails at once, without a wait */
            assert_false(can_read(words + PAGE_WORDS));
        }
        restore_signals();
        atomic_store(&no_poison, false);
        facet_kernel_destroy(kernel);
        world_close();
    }
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, world_set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(without_privilege_system_calls_fail_on_pages_at_the_device),
        WITH_WORLD(an_allocation_avoids_addresses_in_use),
        WITH_WORLD(an_allocation_is_whole_or_not_there),
        WITH_WORLD(nothing_is_lost_when_calls_fail),
        cmocka_unit_test(no_thread_waits_forever),
    };

    return cmocka_run_group_tests(tests, world_load, world_unload);
}
