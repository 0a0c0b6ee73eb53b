/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: libvirt's <hostdev>, one for each function; libvirt itself chooses ports and places in the VM.
 * Never: passes options on to QEMU that libvirt cannot express.
 */
#include "passthrough/attach/render.h"

#include <inttypes.h>

/* The first release of libvirt whose domains have iommufd. */
#define IOMMUFD_SINCE FACET_ATTACH_VERSION(12, 1)

static enum facet_status check_function(const struct facet_attach_rendering *rendering, uint32_t index,
                                        struct facet_error *error)
{
    const struct facet_attach_function *function = &rendering->request->functions[index];

    if (function->flags & FACET_ATTACH_PRIMARY)
        return facet_attach_cannot(rendering, index, "primary", error);
    if (function->flags & FACET_ATTACH_CLIQUE)
        return facet_attach_cannot(rendering, index, "a clique", error);
    if (function->flags & FACET_ATTACH_GUEST_IOMMU)
        return facet_attach_cannot(rendering, index, "the guest's IOMMU", error);
    if (function->fd)
        return facet_attach_cannot(rendering, index, "a descriptor", error);
    if (function->port)
        return facet_attach_cannot(rendering, index, "a port", error);
    if (!function->mdev && (function->flags & FACET_ATTACH_NO_DISPLAY))
        return facet_attach_cannot(rendering, index, "no display (except of a mediated device)", error);
    return FACET_OK;
}

static enum facet_status check_rendering(const struct facet_attach_rendering *rendering, struct facet_error *error)
{
    const struct facet_attach_request *request = rendering->request;
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; status == FACET_OK && i < request->count; i++)
        status = check_function(rendering, i, error);
    if (status != FACET_OK)
        return status;
    if (request->segment)
        return facet_attach_cannot(rendering, 0, "a segment", error);
    if (request->iommufd_fd)
        return facet_attach_cannot(rendering, 0, "a descriptor", error);
    if ((request->flags & FACET_ATTACH_IOMMUFD) && !request->libvirt_version)
        return facet_error_argument(error, FACET_UNSUPPORTED, "libvirt",
                                    "libvirt's version was not given; for iommufd, expected 12.1 or later");
    if ((request->flags & FACET_ATTACH_IOMMUFD) && request->libvirt_version < IOMMUFD_SINCE)
        return facet_error_argument(error, FACET_UNSUPPORTED, "libvirt",
                                    "libvirt %" PRIu32 ".%" PRIu32
                                    " has no iommufd; expected 12.1 or later, or to go without",
                                    request->libvirt_version >> 16, request->libvirt_version & 0xffff);
    return facet_attach_check_versions(request, request->qemu_version, error);
}

static void add_source(struct facet_draft *draft, const struct facet_attach_function *function)
{
    const struct facet_pci_address *at = &function->address;

    facet_draft_add(draft, "  <source>\n");
    if (function->mdev)
        facet_draft_add(draft, "    <address uuid='%s'/>\n", function->mdev);
    else
        facet_draft_add(draft, "    <address domain='0x%04" PRIx32 "' bus='0x%02x' slot='0x%02x' function='0x%x'/>\n",
                        at->domain, at->bus, at->device, at->function);
    facet_draft_add(draft, "  </source>\n");
}

static void add_rom(struct facet_draft *draft, const struct facet_attach_function *function)
{
    if (function->flags & FACET_ATTACH_NO_ROM)
        facet_draft_add(draft, "  <rom bar='off'/>\n");
    if (!function->romfile)
        return;
    facet_draft_add(draft, "  <rom file='");
    facet_draft_add_escaped(draft, function->romfile, facet_escape_xml);
    facet_draft_add(draft, "'/>\n");
}

static void add_function(struct facet_attach_rendering *rendering, uint32_t index)
{
    const struct facet_attach_request *request = rendering->request;
    const struct facet_attach_function *function = &request->functions[index];
    FACET_CLEANUP_DRAFT struct facet_draft draft = {0};

    if (function->mdev)
        facet_draft_add(&draft, "<hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'%s>\n",
                        function->flags & FACET_ATTACH_NO_DISPLAY ? " display='off'" : "");
    else
        facet_draft_add(&draft, "<hostdev mode='subsystem' type='pci' managed='%s'>\n",
                        request->flags & FACET_ATTACH_MANAGED ? "yes" : "no");
    if (!function->mdev)
        facet_draft_add(&draft, "  <driver name='vfio'%s/>\n",
                        request->flags & FACET_ATTACH_IOMMUFD ? " iommufd='yes'" : "");
    add_source(&draft, function);
    /* libvirt keeps a user's alias only if it begins with "ua-". */
    facet_draft_add(&draft, "  <alias name='ua-");
    facet_draft_add_escaped(&draft, rendering->layout.ids[index], facet_escape_alias);
    facet_draft_add(&draft, "'/>\n");
    add_rom(&draft, function);
    facet_draft_add(&draft, "</hostdev>\n");
    facet_texts_take(rendering->texts, &draft);
}

enum facet_status facet_attach_render_libvirt(struct facet_attach_rendering *rendering, struct facet_error *error)
{
    rendering->target = "libvirt";
    enum facet_status status = check_rendering(rendering, error);

    for (uint32_t i = 0; status == FACET_OK && i < rendering->request->count; i++)
        add_function(rendering, i);
    return status;
}
