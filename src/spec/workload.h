/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the struct of a configuration, and helpers for its renderers. Never: is a public header. */
#ifndef FACET_SPEC_WORKLOAD_H
#define FACET_SPEC_WORKLOAD_H

#include <facet/workload.h>

#include "spec/json.h"
#include "spec/violation.h"

struct facet_workload {
    json_t *root;
};

/* Merges a configuration, or some of its members, into *root. On failure *root stays as it is. The names are those of
 * the two sides in the message of a conflict. */
enum facet_status facet_merge_configuration(json_t **root, const char *into_name, const json_t *from,
                                            const char *from_name, struct facet_error *error);

/* The rendering of a configuration in another form. */
struct facet_rendering {
    const json_t *from;
    json_t *to;
    struct facet_violations *left; /* settings that the form cannot express */
    const struct facet_render_options *options;
    bool failed;         /* no memory */
    const char *refused; /* why the form cannot be written at all; NULL: it can */
};

/* Adds a setting to `left`: the form cannot express it, so the caller of facet_workload_render() has to apply it. */
void facet_render_leave(struct facet_rendering *rendering, const char *setting, const char *why);

/* The object at `path` ("HostConfig", "linux/resources") below `to`, made when it is absent. */
json_t *facet_render_object(struct facet_rendering *rendering, const char *path);
json_t *facet_render_array(struct facet_rendering *rendering, const char *path);

/* Both take ownership of the value. NULL stands for lack of memory, and sets `failed`. */
void facet_render_set(struct facet_rendering *rendering, const char *path, const char *key, json_t *value);
void facet_render_append(struct facet_rendering *rendering, const char *path, json_t *value);

/* Appends "K=V" for each variable of the environment. LD_PRELOAD has the hooks by their paths in the container when
 * `inside`, else on the host. */
void facet_render_environment(struct facet_rendering *rendering, const char *path, bool inside);

/* Stands for the number 2^64-1 while JSON is rendered; the returned text has the number in its place. */
#define FACET_RENDER_UNLIMITED "facet:no-limit:18446744073709551615"

/* A new reference to `value`, NULL when it is absent. */
static inline json_t *facet_render_share(const json_t *value)
{
    return value ? json_incref((json_t *)(uintptr_t)value) : NULL;
}

/* A new reference to the seccomp profile in OCI's form, with the configuration's `system_calls` added. NULL: there is
 * no profile to write, or `system_calls` was added to `left`. */
json_t *facet_render_seccomp(struct facet_rendering *rendering);

void facet_render_docker(struct facet_rendering *rendering);
void facet_render_oci(struct facet_rendering *rendering);
void facet_render_cdi(struct facet_rendering *rendering);
void facet_render_plain(struct facet_rendering *rendering); /* FACET_RENDER_ENVIRONMENT: a process on the host */

#endif
