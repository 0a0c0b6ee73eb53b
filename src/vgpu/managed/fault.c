/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the thread that answers page faults, which a thread causes that touches a page at the device or writes a clean
 * page.
 * Never: leaves a thread waiting for a page that cannot come, or gives it a page whose content is not the device's.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "vgpu/managed/enter.h"
#include "vgpu/managed/managed.h"

/* Some kernel headers lack these constants. */
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif
#ifndef UFFD_FEATURE_POISON
#define UFFD_FEATURE_POISON (1 << 14)
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define FAULT_TRIES 200 /* attempts to answer a fault, RETRY_NS apart; then the page is poisoned */
#define RETRY_NS    FACET_NS_PER_MS

/* ---- opening ---- */

static int open_device(void)
{
    FACET_CLEANUP_FD int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);

    return device >= 0 ? ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK) : -1;
}

/* Without UFFD_USER_MODE_ONLY, userfaultfd also reports pages that system calls touch; such a descriptor needs a
 * privilege, or access to /dev/userfaultfd. */
static int open_faults(bool *ret_system_calls)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        fd = open_device();
    *ret_system_calls = fd >= 0;
    return fd >= 0 ? fd : (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
}

static enum facet_status agree_on_features(struct facet_managed *managed, struct facet_error *error)
{
    struct uffdio_api newest = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_POISON};
    struct uffdio_api min = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP};

    managed->can_poison = ioctl(managed->fault_fd, UFFDIO_API, &newest) == 0;
    if (managed->can_poison || ioctl(managed->fault_fd, UFFDIO_API, &min) == 0)
        return FACET_OK;
    return facet_error_set(error, FACET_UNSUPPORTED,
                           "managed memory needs a kernel that reports writes to protected memory (userfaultfd, "
                           "Linux 5.7): %s",
                           strerror(errno));
}

/* ---- answering ---- */

static void sleep_before_retry(void)
{
    const struct timespec span = facet_ns_timespec(RETRY_NS);

    nanosleep(&span, NULL);
}

/* Tries once to make the page usable. The caller holds the lock. FACET_OK: the thread that faulted goes on. */
static enum facet_status try_fault(struct facet_managed *managed, uint64_t address, bool write,
                                   struct facet_error *error)
{
    struct facet_managed_range *range = facet_managed_find(managed, address, 1);

    if (!range)
        return FACET_OK; /* the page was freed, and unmapping it woke the thread */
    uint32_t page = (uint32_t)((address - range->address) / managed->page_bytes);
    uint64_t start = facet_managed_address(managed, range, page);

    switch (range->state[page]) {
    case FACET_MANAGED_AT_DEVICE:
        return facet_managed_fetch(managed, start, 1, write, error);
    case FACET_MANAGED_CLEAN:
        if (write)
            return facet_managed_mark_dirty(managed, range, page, error);
        break;
    case FACET_MANAGED_DIRTY: /* the page stayed protected after an error of facet_managed_return() */
        return facet_managed_mark_dirty(managed, range, page, error);
    default:
        break;
    }
    facet_managed_wake(managed, start, managed->page_bytes);
    return FACET_OK;
}

static void poison_page(struct facet_managed *managed, uint64_t address)
{
    struct facet_managed_range *range = facet_managed_find(managed, address, 1);

    if (range)
        facet_managed_poison(managed, range, (uint32_t)((address - range->address) / managed->page_bytes));
}

/* A fault on a paused vGPU stays unanswered; resuming wakes all waiting threads, which then fault again. */
static void answer_fault(struct facet_managed *managed, uint64_t address, bool write)
{
    enum facet_status status = FACET_OK;

    pthread_mutex_lock(&managed->lock);
    struct facet_managed_range *range = facet_managed_find(managed, address, 1);
    if (range)
        range->fault_count++;
    for (int tries = 0; tries < FAULT_TRIES; tries++) {
        status = try_fault(managed, address, write, NULL);
        if (status == FACET_OK || status == FACET_FROZEN || status == FACET_BAD_STATE || status == FACET_DEVICE_LOST)
            break;
        pthread_mutex_unlock(&managed->lock);
        sleep_before_retry();
        pthread_mutex_lock(&managed->lock);
    }
    if (status == FACET_DEVICE_LOST)
        atomic_store(&managed->vgpu->device->lost, true);
    if (status != FACET_OK && status != FACET_FROZEN && status != FACET_BAD_STATE)
        poison_page(managed, address);
    pthread_mutex_unlock(&managed->lock);
}

static void read_faults(struct facet_managed *managed)
{
    struct uffd_msg messages[16];
    ssize_t got = read(managed->fault_fd, messages, sizeof messages);

    for (size_t i = 0; got > 0 && i < (size_t)got / sizeof messages[0]; i++) {
        const struct uffd_msg *message = &messages[i];

        if (message->event == UFFD_EVENT_PAGEFAULT)
            answer_fault(managed, message->arg.pagefault.address,
                         message->arg.pagefault.flags & (UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP));
    }
}

/* A woken thread whose page is still missing faults again, so its fault is reported anew. */
static void wake_all(struct facet_managed *managed)
{
    const struct facet_managed_range *range;

    pthread_mutex_lock(&managed->lock);
    LIST_FOREACH (range, &managed->ranges, all)
        facet_managed_wake(managed, range->address, range->bytes);
    pthread_mutex_unlock(&managed->lock);
}

static bool is_ending(struct facet_managed *managed)
{
    pthread_mutex_lock(&managed->lock);
    bool ending = managed->ending;

    pthread_mutex_unlock(&managed->lock);
    return ending;
}

static void *run_fault_thread(void *argument)
{
    struct facet_managed *managed = argument;
    struct pollfd readiness[2] = {{.fd = managed->fault_fd, .events = POLLIN},
                                  {.fd = managed->wake_fd, .events = POLLIN}};
    uint64_t wake_count;

    while (!is_ending(managed)) {
        if (poll(readiness, 2, -1) < 0)
            continue;
        if (readiness[1].revents && read(managed->wake_fd, &wake_count, sizeof wake_count) > 0 && !is_ending(managed))
            wake_all(managed);
        if (readiness[0].revents)
            read_faults(managed);
    }
    return NULL;
}

/* ---- beginning and end ---- */

/* The fault thread blocks all signals: a signal handler that ran in it and touched managed memory would never end. */
static int start_fault_thread(struct facet_managed *managed)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = pthread_create(&managed->thread, NULL, run_fault_thread, managed);

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    managed->running = result == 0;
    return result;
}

enum facet_status facet_managed_watch(struct facet_managed *managed, struct facet_error *error)
{
    enum facet_status status;
    int result;

    managed->fault_fd = open_faults(&managed->system_calls);
    if (managed->fault_fd < 0)
        return facet_error_set(error, FACET_UNSUPPORTED,
                               "managed memory needs userfaultfd, which this kernel or container does not permit: %s",
                               strerror(errno));
    status = agree_on_features(managed, error);
    if (status != FACET_OK)
        return status;
    managed->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (managed->wake_fd < 0)
        return facet_error_errno(error, errno, "no descriptor for managed memory");
    result = start_fault_thread(managed);
    return result == 0 ? FACET_OK : facet_error_errno(error, result, "no thread for managed memory");
}

static void wake_fault_thread(const struct facet_managed *managed)
{
    const uint64_t one = 1;

    (void)!write(managed->wake_fd, &one, sizeof one);
}

void facet_managed_stop(struct facet_managed *managed)
{
    if (!managed->running)
        return;
    pthread_mutex_lock(&managed->lock);
    managed->ending = true;
    pthread_cond_broadcast(&managed->idle);
    pthread_mutex_unlock(&managed->lock);
    wake_fault_thread(managed);
    pthread_join(managed->thread, NULL);
    managed->running = false;
}

void facet_managed_unwatch(struct facet_managed *managed)
{
    facet_managed_stop(managed);
    if (managed->fault_fd >= 0)
        close(managed->fault_fd);
    if (managed->wake_fd >= 0)
        close(managed->wake_fd);
    managed->fault_fd = managed->wake_fd = -1;
}

void facet_managed_resumed(struct facet_vgpu *vgpu)
{
    const struct facet_managed *managed = atomic_load_explicit(&vgpu->managed, memory_order_acquire);

    if (managed && !managed->shared)
        wake_fault_thread(managed);
}
