/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: interrupts of a function as eventfds. Never: waits for an interrupt. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "passthrough/vfio/inside.h"

static const char *const names[] = {"INTx", "MSI", "MSI-X", "error", "request"};

static enum facet_status check_kind(const struct facet_vfio_device *device, enum facet_vfio_interrupt kind,
                                    struct facet_error *error)
{
    if ((unsigned)kind >= device->info.num_irqs || (unsigned)kind >= sizeof names / sizeof names[0])
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "kind", "%s: %u, but it has %u kinds of interrupts",
                                    device->address, (unsigned)kind, device->info.num_irqs);
    return FACET_OK;
}

enum facet_status facet_vfio_device_interrupt_info(const struct facet_vfio_device *device,
                                                   enum facet_vfio_interrupt kind,
                                                   struct facet_vfio_interrupt_info *ret_info,
                                                   struct facet_error *error)
{
    struct vfio_irq_info info = {.argsz = sizeof info, .index = (uint32_t)kind};
    enum facet_status status = check_kind(device, kind, error);

    if (status != FACET_OK)
        return status;
    if (vfio_control(device->space, device->fd, VFIO_DEVICE_GET_IRQ_INFO, &info) != 0) {
        /* EINVAL: the function has none of this kind, as a function without PCI Express has no error interrupt. */
        if (errno != EINVAL)
            return facet_error_errno(error, errno, "%s: asking for its %s interrupts", device->address, names[kind]);
        info.count = 0;
    }
    *ret_info = (struct facet_vfio_interrupt_info){
        .count = info.count,
        .auto_masked = !!(info.flags & VFIO_IRQ_INFO_AUTOMASKED),
    };
    return FACET_OK;
}

static enum facet_status set_interrupt(struct facet_vfio_device *device, enum facet_vfio_interrupt kind, uint32_t flags,
                                       const int *eventfds, uint32_t count, struct facet_error *error)
{
    size_t bytes = sizeof(struct vfio_irq_set) + (eventfds ? count * sizeof *eventfds : 0);
    FACET_CLEANUP_FREE struct vfio_irq_set *ask = calloc(1, bytes);

    if (!ask)
        return facet_error_set(error, FACET_NO_MEMORY, "%s: no memory for %u interrupts", device->address, count);
    *ask = (struct vfio_irq_set){.argsz = (uint32_t)bytes, .flags = flags, .index = (uint32_t)kind, .count = count};
    if (eventfds)
        memcpy(ask->data, eventfds, count * sizeof *eventfds);
    if (vfio_control(device->space, device->fd, VFIO_DEVICE_SET_IRQS, ask) != 0)
        return facet_error_errno(error, errno, "%s: setting %u %s interrupts", device->address, count, names[kind]);
    return FACET_OK;
}

enum facet_status facet_vfio_device_interrupt(struct facet_vfio_device *device, enum facet_vfio_interrupt kind,
                                              const int *eventfds, uint32_t count, struct facet_error *error)
{
    struct facet_vfio_interrupt_info info = {0};
    enum facet_status status = facet_vfio_device_interrupt_info(device, kind, &info, error);

    if (status != FACET_OK)
        return status;
    if (count > info.count)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "count", "%s: %u, but it has %u %s interrupts",
                                    device->address, count, info.count, names[kind]);
    if (count == 0)
        return set_interrupt(device, kind, VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER, NULL, 0, error);
    return set_interrupt(device, kind, VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER, eventfds, count, error);
}

enum facet_status facet_vfio_device_unmask(struct facet_vfio_device *device, enum facet_vfio_interrupt kind,
                                           struct facet_error *error)
{
    enum facet_status status = check_kind(device, kind, error);

    if (status != FACET_OK)
        return status;
    return set_interrupt(device, kind, VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_UNMASK, NULL, 1, error);
}
