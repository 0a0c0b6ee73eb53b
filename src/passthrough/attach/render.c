/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table of forms, and the steps of a rendering. Never: writes the text of a form. */
#include "passthrough/attach/render.h"

static const struct {
    const char *name;
    enum facet_status (*render)(struct facet_attach_rendering *rendering, struct facet_error *error);
} forms[FACET_ATTACH_FORMS] = {
    [FACET_ATTACH_QEMU] = {"qemu", facet_attach_render_qemu},
    [FACET_ATTACH_LIBVIRT] = {"libvirt", facet_attach_render_libvirt},
    [FACET_ATTACH_CLOUD] = {"cloud_hypervisor", facet_attach_render_cloud},
    [FACET_ATTACH_CLOUD_ADD] = {"cloud_hypervisor_add", facet_attach_render_cloud_add},
    [FACET_ATTACH_CLOUD_REMOVE] = {"cloud_hypervisor_remove", facet_attach_render_cloud_remove},
};

const char *facet_attach_form_name(uint32_t form)
{
    return form < FACET_ATTACH_FORMS ? forms[form].name : NULL;
}

enum facet_status facet_attach_cannot(const struct facet_attach_rendering *rendering, uint32_t index, const char *what,
                                      struct facet_error *error)
{
    return facet_error_argument(error, FACET_UNSUPPORTED, what, "'%s': %s cannot be expressed for %s",
                                rendering->layout.ids[index], what, rendering->target);
}

enum facet_status facet_attach_render(uint32_t form, const struct facet_attach_request *request,
                                      struct facet_attach_texts **ret_texts, struct facet_error *error)
{
    struct facet_attach_rendering rendering = {.request = request};

    if (form >= FACET_ATTACH_FORMS)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "form", "form %u: expected 0 to %u", form,
                                    FACET_ATTACH_FORMS - 1);
    enum facet_status status = facet_attach_lay_out(request, &rendering.layout, error);
    if (status != FACET_OK)
        return status;
    rendering.texts = calloc(1, sizeof *rendering.texts);
    if (!rendering.texts)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the text");
    status = forms[form].render(&rendering, error);
    if (status == FACET_OK && rendering.texts->failed)
        status = facet_error_set(error, FACET_NO_MEMORY, "no memory for the text");
    if (status == FACET_OK)
        *ret_texts = rendering.texts;
    else
        facet_attach_texts_destroy(rendering.texts);
    return status;
}
