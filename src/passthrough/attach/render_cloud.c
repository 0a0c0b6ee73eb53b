/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: Cloud Hypervisor's arguments, and the bodies of its API.
 * Never: escapes a value: the checked ids and paths have no bytes that Cloud Hypervisor treats specially.
 */
#include "passthrough/attach/render.h"

#include <inttypes.h>

#include <jansson.h>

static enum facet_status check_function(const struct facet_attach_rendering *rendering, uint32_t index,
                                        struct facet_error *error)
{
    const struct facet_attach_function *function = &rendering->request->functions[index];

    if (function->flags & FACET_ATTACH_PRIMARY)
        return facet_attach_cannot(rendering, index, "primary", error);
    if ((function->flags & FACET_ATTACH_NO_ROM) || function->romfile)
        return facet_attach_cannot(rendering, index, "a ROM", error);
    if (function->flags & FACET_ATTACH_NO_DISPLAY)
        return facet_attach_cannot(rendering, index, "no display", error);
    if (function->fd)
        return facet_attach_cannot(rendering, index, "a descriptor", error);
    if (function->port)
        return facet_attach_cannot(rendering, index, "a port", error);
    return FACET_OK;
}

static enum facet_status check_rendering(struct facet_attach_rendering *rendering, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    rendering->target = "Cloud Hypervisor";
    for (uint32_t i = 0; status == FACET_OK && i < rendering->request->count; i++)
        status = check_function(rendering, i, error);
    if (status == FACET_OK && rendering->request->iommufd_fd)
        status = facet_attach_cannot(rendering, 0, "a descriptor", error);
    return status == FACET_OK ? facet_attach_check_versions(rendering->request, 0, error) : status;
}

static void add_platform(struct facet_attach_rendering *rendering)
{
    const struct facet_attach_request *request = rendering->request;
    FACET_CLEANUP_DRAFT struct facet_draft draft = {0};

    if (!request->segment && !(request->flags & FACET_ATTACH_IOMMUFD))
        return;
    if (request->segment)
        facet_draft_add(&draft, "num_pci_segments=%" PRIu32, request->segment + 1);
    if (request->flags & FACET_ATTACH_IOMMUFD)
        facet_draft_add(&draft, "%siommufd=on", request->segment ? "," : "");
    facet_texts_add(rendering->texts, "--platform");
    facet_texts_take(rendering->texts, &draft);
}

static void add_device(struct facet_attach_rendering *rendering, uint32_t index)
{
    const struct facet_attach_function *function = &rendering->request->functions[index];
    char path[FACET_ATTACH_PATH_SIZE];
    FACET_CLEANUP_DRAFT struct facet_draft draft = {0};

    facet_attach_path(function, path);
    facet_draft_add(&draft, "path=%s,id=%s", path, rendering->layout.ids[index]);
    if (function->flags & FACET_ATTACH_GUEST_IOMMU)
        facet_draft_add(&draft, ",iommu=on");
    if (rendering->request->segment)
        facet_draft_add(&draft, ",pci_segment=%" PRIu32, rendering->request->segment);
    if (function->flags & FACET_ATTACH_CLIQUE)
        facet_draft_add(&draft, ",x_nv_gpudirect_clique=%" PRIu32, function->clique);
    facet_texts_take(rendering->texts, &draft);
}

enum facet_status facet_attach_render_cloud(struct facet_attach_rendering *rendering, struct facet_error *error)
{
    enum facet_status status = check_rendering(rendering, error);

    if (status != FACET_OK)
        return status;
    add_platform(rendering);
    /* The option appears once, with all devices behind it, because Cloud Hypervisor refuses it a second time. */
    facet_texts_add(rendering->texts, "--device");
    for (uint32_t i = 0; i < rendering->request->count; i++)
        add_device(rendering, i);
    return FACET_OK;
}

static void take_json(struct facet_attach_rendering *rendering, json_t *json)
{
    char *text = facet_draft_json(json, "");

    if (text)
        facet_texts_add(rendering->texts, text);
    else
        rendering->texts->failed = true;
    free(text);
    json_decref(json);
}

static json_t *device_json(const struct facet_attach_rendering *rendering, uint32_t index)
{
    const struct facet_attach_function *function = &rendering->request->functions[index];
    char path[FACET_ATTACH_PATH_SIZE];
    int failed = 0;

    facet_attach_path(function, path);
    json_t *json = json_pack("{s:s, s:s}", "path", path, "id", rendering->layout.ids[index]);
    if (function->flags & FACET_ATTACH_GUEST_IOMMU)
        failed |= json_object_set_new(json, "iommu", json_true());
    if (rendering->request->segment)
        failed |= json_object_set_new(json, "pci_segment", json_integer(rendering->request->segment));
    if (function->flags & FACET_ATTACH_CLIQUE)
        failed |= json_object_set_new(json, "x_nv_gpudirect_clique", json_integer(function->clique));
    if (!failed)
        return json;
    json_decref(json);
    return NULL;
}

enum facet_status facet_attach_render_cloud_add(struct facet_attach_rendering *rendering, struct facet_error *error)
{
    enum facet_status status = check_rendering(rendering, error);

    /* Whether iommufd is used was settled when the VM was started, so the flag is not checked here. */
    for (uint32_t i = 0; status == FACET_OK && i < rendering->request->count; i++)
        take_json(rendering, device_json(rendering, i));
    return status;
}

enum facet_status facet_attach_render_cloud_remove(struct facet_attach_rendering *rendering, struct facet_error *error)
{
    for (uint32_t i = 0; i < rendering->request->count; i++)
        take_json(rendering, json_pack("{s:s}", "id", rendering->layout.ids[i]));
    return FACET_OK;
}
