/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the state of one rendering, which the render function of each form gets.
 * Never: outlives that rendering.
 */
#ifndef FACET_PASSTHROUGH_ATTACH_RENDER_H
#define FACET_PASSTHROUGH_ATTACH_RENDER_H

#include "passthrough/attach/draft.h"
#include "passthrough/attach/layout.h"

struct facet_attach_rendering {
    const struct facet_attach_request *request;
    const char *target; /* the program that the form is for */
    struct facet_attach_layout layout;
    struct facet_attach_texts *texts;
};

enum facet_status facet_attach_render_qemu(struct facet_attach_rendering *rendering, struct facet_error *error);
enum facet_status facet_attach_render_libvirt(struct facet_attach_rendering *rendering, struct facet_error *error);
enum facet_status facet_attach_render_cloud(struct facet_attach_rendering *rendering, struct facet_error *error);
enum facet_status facet_attach_render_cloud_add(struct facet_attach_rendering *rendering, struct facet_error *error);
enum facet_status facet_attach_render_cloud_remove(struct facet_attach_rendering *rendering, struct facet_error *error);

/* FACET_UNSUPPORTED: this form cannot express `what`. */
enum facet_status facet_attach_cannot(const struct facet_attach_rendering *rendering, uint32_t index, const char *what,
                                      struct facet_error *error);

#endif
