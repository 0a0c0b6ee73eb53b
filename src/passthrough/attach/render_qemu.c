/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: QEMU's command line: an iommufd object, a root port for each device, the functions.
 * Never: repeats QEMU's defaults: only arguments that matter are printed.
 */
#include "passthrough/attach/render.h"

#include <inttypes.h>

/* The default window of a root port. */
#define WINDOW_DEFAULT (UINT64_C(2) << 20)

static void add_size(struct facet_draft *draft, const char *name, uint64_t bytes)
{
    static const char units[] = "MGTPE";
    unsigned unit = 0;

    for (bytes >>= 20; unit + 2 < sizeof units && bytes % 1024 == 0; bytes >>= 10)
        unit++;
    facet_draft_add(draft, ",%s=%" PRIu64 "%c", name, bytes, units[unit]);
}

static void add_object(struct facet_attach_rendering *rendering)
{
    FACET_CLEANUP_DRAFT struct facet_draft draft = {0};

    if (!(rendering->request->flags & FACET_ATTACH_IOMMUFD))
        return;
    facet_draft_add(&draft, "iommufd,id=iommufd0");
    if (rendering->request->iommufd_fd)
        facet_draft_add(&draft, ",fd=%" PRId32, rendering->request->iommufd_fd);
    facet_texts_add(rendering->texts, "-object");
    facet_texts_take(rendering->texts, &draft);
}

/* The firmware sizes a cold-plugged device's windows; the reserve is for a device that returns by hot-plug. */
static void add_port(struct facet_attach_rendering *rendering, const struct facet_attach_slot *slot, uint32_t port)
{
    FACET_CLEANUP_DRAFT struct facet_draft draft = {0};

    facet_draft_add(&draft, "pcie-root-port,id=facet-port%" PRIu32 ",bus=pcie.0,chassis=%" PRIu32 ",slot=%" PRIu32,
                    port, port, port);
    if (slot->prefetchable)
        add_size(&draft, "pref64-reserve", slot->prefetchable);
    if (slot->other > WINDOW_DEFAULT)
        add_size(&draft, "mem-reserve", slot->other);
    facet_texts_add(rendering->texts, "-device");
    facet_texts_take(rendering->texts, &draft);
}

static void add_place(struct facet_draft *draft, const struct facet_attach_function *function)
{
    char text[FACET_ATTACH_PATH_SIZE];

    if (function->fd) {
        facet_draft_add(draft, ",fd=%" PRId32, function->fd);
    } else if (function->mdev || function->address.domain > 0xffff) {
        /* `host` has no room for the domains behind Intel's VMD. */
        facet_attach_path(function, text);
        facet_draft_add(draft, ",sysfsdev=%s", text);
    } else {
        facet_pci_address_print(&function->address, text);
        facet_draft_add(draft, ",host=%s", text);
    }
}

static void add_settings(struct facet_draft *draft, const struct facet_attach_function *function)
{
    if (function->flags & FACET_ATTACH_PRIMARY)
        facet_draft_add(draft, ",x-vga=on");
    if (function->flags & FACET_ATTACH_NO_DISPLAY)
        facet_draft_add(draft, ",display=off");
    if (function->flags & FACET_ATTACH_NO_ROM)
        facet_draft_add(draft, ",rombar=0");
    if (function->romfile) {
        facet_draft_add(draft, ",romfile=");
        facet_draft_add_escaped(draft, function->romfile, facet_escape_qemu);
    }
    if (function->flags & FACET_ATTACH_CLIQUE)
        facet_draft_add(draft, ",x-nv-gpudirect-clique=%" PRIu32, function->clique);
}

static void add_function(struct facet_attach_rendering *rendering, const struct facet_attach_slot *slot,
                         uint32_t member, uint32_t port)
{
    const struct facet_attach_function *function = &rendering->request->functions[slot->members[member]];
    FACET_CLEANUP_DRAFT struct facet_draft draft = {0};

    facet_draft_add(&draft, "vfio-pci");
    add_place(&draft, function);
    facet_draft_add(&draft, ",id=%s", rendering->layout.ids[slot->members[member]]);
    if (slot->port)
        facet_draft_add(&draft, ",bus=%s", slot->port);
    else
        facet_draft_add(&draft, ",bus=facet-port%" PRIu32, port);
    facet_draft_add(&draft, ",addr=0x0.%x", slot->numbers[member]);
    if (slot->count > 1 && member == 0)
        facet_draft_add(&draft, ",multifunction=on");
    if (rendering->request->flags & FACET_ATTACH_IOMMUFD)
        facet_draft_add(&draft, ",iommufd=iommufd0");
    add_settings(&draft, function);
    facet_texts_add(rendering->texts, "-device");
    facet_texts_take(rendering->texts, &draft);
}

static enum facet_status check_rendering(const struct facet_attach_rendering *rendering, struct facet_error *error)
{
    const struct facet_attach_request *request = rendering->request;

    for (uint32_t i = 0; i < request->count; i++)
        if (request->functions[i].flags & FACET_ATTACH_GUEST_IOMMU)
            return facet_attach_cannot(rendering, i, "the guest's IOMMU", error);
    if (request->segment)
        return facet_attach_cannot(rendering, 0, "a segment", error);
    return facet_attach_check_versions(request, request->qemu_version, error);
}

enum facet_status facet_attach_render_qemu(struct facet_attach_rendering *rendering, struct facet_error *error)
{
    const struct facet_attach_layout *layout = &rendering->layout;
    uint32_t port = rendering->request->first_port ? rendering->request->first_port : 1;

    rendering->target = "QEMU's command line";
    enum facet_status status = check_rendering(rendering, error);
    if (status != FACET_OK)
        return status;
    add_object(rendering);
    for (uint32_t i = 0; i < layout->count; i++) {
        const struct facet_attach_slot *slot = &layout->slots[i];
        if (!slot->port)
            add_port(rendering, slot, port);
        for (uint32_t member = 0; member < slot->count; member++)
            add_function(rendering, slot, member, port);
        port += !slot->port;
    }
    return FACET_OK;
}
