/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: waiting for an event or an interval before the next scan, and the snapshot of the last scan. Never: interprets
 * an event.
 */
#include <errno.h>
#include <fcntl.h>
#include <libudev.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <facet/pci_watch.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sized.h"

enum {
    POLL_SECONDS = 5,
    SETTLE_MS = 50,
    SETTLE_MAX = 20, /* how many times the scan is delayed by config.settle_ns while further events come */
};

struct facet_pci_watch {
    struct udev *udev;
    struct udev_monitor *monitor;
    struct facet_pci_watch_config config;
    char *ids;
    struct facet_pci_snapshot *snapshot;
};

/* ---- events ---- */

/* Listens to the kernel's events, not udev's, because udevd may not run. libudev drops events of other senders. */
static enum facet_status open_monitor(struct facet_pci_watch *watch, struct facet_error *error)
{
    static const char *const subsystems[] = {"pci", "mdev", "vfio-dev", "vfio", "drm", "accel"};

    watch->udev = udev_new();
    watch->monitor = watch->udev ? udev_monitor_new_from_netlink(watch->udev, "kernel") : NULL;
    if (!watch->monitor)
        return facet_error_set(error, FACET_UNSUPPORTED, "cannot listen to the kernel's events here: %s",
                               strerror(errno));
    for (size_t i = 0; i < sizeof subsystems / sizeof subsystems[0]; i++)
        if (udev_monitor_filter_add_match_subsystem_devtype(watch->monitor, subsystems[i], NULL) < 0)
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for a filter of events");
    if (udev_monitor_enable_receiving(watch->monitor) < 0)
        return facet_error_set(error, FACET_UNSUPPORTED, "cannot receive the kernel's events here: %s",
                               strerror(errno));
    return FACET_OK;
}

/* Drains all events; returns whether there were any. Events that were lost for lack of room count, too. */
static bool drain_events(struct facet_pci_watch *watch)
{
    struct pollfd ready = {.fd = facet_pci_watch_fd(watch), .events = POLLIN};
    bool any = false;

    while (poll(&ready, 1, 0) > 0) {
        struct udev_device *device = udev_monitor_receive_device(watch->monitor);

        any = any || device || errno == ENOBUFS;
        if (!device && errno != ENOBUFS)
            break;
        udev_device_unref(device);
    }
    return any;
}

/* Milliseconds for poll(), rounded up so that the time has come when it returns. */
static int poll_milliseconds(uint64_t ns)
{
    uint64_t ms = ns / FACET_NS_PER_MS + (ns % FACET_NS_PER_MS != 0);

    return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* Sleeps until an event (true), until a signal, or until `until_ns`. */
static bool sleep_until(struct facet_pci_watch *watch, uint64_t until_ns)
{
    struct pollfd ready = {.fd = facet_pci_watch_fd(watch), .events = POLLIN};

    for (uint64_t now = facet_clock_now_ns(); now < until_ns; now = facet_clock_now_ns()) {
        int count = poll(&ready, 1, poll_milliseconds(until_ns - now));

        if (count < 0)
            return false;
        if (count > 0 && drain_events(watch))
            return true;
    }
    return false;
}

/* Waits until no more events come: a card has many functions, each with several events. */
static void settle_events(struct facet_pci_watch *watch)
{
    for (int i = 0; i < SETTLE_MAX; i++)
        if (!sleep_until(watch, facet_clock_now_ns() + watch->config.settle_ns))
            return;
}

/* ---- scans ---- */

struct delivery {
    facet_pci_change_func take;
    void *user;
    bool any;
};

static bool call_watcher(void *context, const struct facet_pci_change *change)
{
    struct delivery *delivery = context;

    delivery->any = true;
    return delivery->take(delivery->user, change);
}

/* Scans, and reports all changes since the last scan. FACET_TIMEOUT: nothing has changed. */
static enum facet_status scan_again(struct facet_pci_watch *watch, struct delivery *delivery, struct facet_error *error)
{
    struct facet_pci_snapshot *next = NULL;
    enum facet_status status = facet_pci_scan(&watch->config.scan, &next, error);

    if (status)
        return status;
    facet_pci_compare(watch->snapshot, next, call_watcher, delivery);
    facet_pci_snapshot_destroy(watch->snapshot);
    watch->snapshot = next;
    return delivery->any ? FACET_OK : FACET_TIMEOUT;
}

static uint64_t add_time(uint64_t time, uint64_t more)
{
    return more > UINT64_MAX - time ? UINT64_MAX : time + more;
}

enum facet_status facet_pci_watch_wait(struct facet_pci_watch *watch, uint64_t timeout_ns, facet_pci_change_func take,
                                       void *user, struct facet_error *error)
{
    struct delivery delivery = {.take = take, .user = user};

    if (!watch || !take)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, watch ? "take" : "watch", "must not be NULL");

    uint64_t end = add_time(facet_clock_now_ns(), timeout_ns);
    for (;;) {
        enum facet_status status = scan_again(watch, &delivery, error);
        uint64_t now = facet_clock_now_ns();

        if (status != FACET_TIMEOUT)
            return status;
        if (now >= end)
            return facet_error_set(error, FACET_TIMEOUT, "nothing has changed");
        uint64_t poll_at = add_time(now, watch->config.poll_ns);
        if (sleep_until(watch, poll_at < end ? poll_at : end))
            settle_events(watch);
    }
}

/* ---- opening and closing ---- */

static enum facet_status begin_watch(struct facet_pci_watch *watch, const struct facet_pci_watch_config *config,
                                     struct facet_error *error)
{
    FACET_SIZED_TAKE(&watch->config, config);
    watch->config.poll_ns = config->poll_ns ? config->poll_ns : POLL_SECONDS * FACET_NS_PER_S;
    watch->config.settle_ns = config->settle_ns ? config->settle_ns : SETTLE_MS * FACET_NS_PER_MS;
    watch->config.scan.root = fcntl(config->scan.root, F_DUPFD_CLOEXEC, 3);
    if (watch->config.scan.root < 0)
        return facet_error_errno(error, errno, "cannot keep the root directory open");
    watch->ids = config->scan.ids ? strdup(config->scan.ids) : NULL;
    if (config->scan.ids && !watch->ids)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a watch");
    watch->config.scan.ids = watch->ids;
    enum facet_status status = config->events ? open_monitor(watch, error) : FACET_OK;
    return status ? status : facet_pci_scan(&watch->config.scan, &watch->snapshot, error);
}

enum facet_status facet_pci_watch_open(const struct facet_pci_watch_config *config, struct facet_pci_watch **ret_watch,
                                       struct facet_error *error)
{
    if (!config || !ret_watch)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, config ? "ret_watch" : "config", "must not be NULL");
    if (config->size < sizeof *config)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config->size", "is %u, at least %zu was expected",
                                    config->size, sizeof *config);
    FACET_NEED_KNOWN("config", config, error);
    if (config->events > 1)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config->events", "is %u, 0 or 1 was expected",
                                    config->events);

    struct facet_pci_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a watch");
    watch->config.scan.root = -1;
    enum facet_status status = begin_watch(watch, config, error);
    if (status) {
        facet_pci_watch_close(watch);
        return status;
    }
    *ret_watch = watch;
    return FACET_OK;
}

void facet_pci_watch_close(struct facet_pci_watch *watch)
{
    if (!watch)
        return;
    facet_pci_snapshot_destroy(watch->snapshot);
    udev_monitor_unref(watch->monitor);
    udev_unref(watch->udev);
    if (watch->config.scan.root >= 0)
        close(watch->config.scan.root);
    free(watch->ids);
    free(watch);
}

const struct facet_pci_snapshot *facet_pci_watch_snapshot(const struct facet_pci_watch *watch)
{
    return watch->snapshot;
}

int facet_pci_watch_fd(const struct facet_pci_watch *watch)
{
    return watch->monitor ? udev_monitor_get_fd(watch->monitor) : -1;
}
