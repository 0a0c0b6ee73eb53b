/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table of docs/api.md as code. Never: decodes a path; the library has decoded it. */
#include "route.h"

#include <stdio.h>
#include <string.h>

enum { METHODS_PER_PATH = 3 };

/* `*` in a path stands for one non-empty part: the name or id of a vGPU or reservation, or a device. */
static const struct path {
    const char *pattern;
    const char *allow;
    struct {
        const char *method;
        endpoint_func endpoint;
    } methods[METHODS_PER_PATH];
} paths[] = {
    {"/metrics", "GET", {{"GET", endpoint_metrics}}},
    {"/v1/health", "GET", {{"GET", endpoint_health}}},
    {"/v1/devices", "GET", {{"GET", endpoint_devices}}},
    {"/v1/devices/*", "GET", {{"GET", endpoint_device}}},
    {"/v1/events", "GET", {{"GET", endpoint_events}}},
    {"/v1/measurements", "GET", {{"GET", endpoint_measurements}}},
    {"/v1/node", "GET", {{"GET", endpoint_node}}},
    {"/v1/providers", "GET", {{"GET", endpoint_providers}}},
    {"/v1/reservations", "GET, POST", {{"GET", endpoint_reservation_list}, {"POST", endpoint_reservation_create}}},
    {"/v1/reservations/*",
     "GET, DELETE",
     {{"GET", endpoint_reservation_show}, {"DELETE", endpoint_reservation_release}}},
    {"/v1/vgpus", "GET, POST", {{"GET", endpoint_vgpu_list}, {"POST", endpoint_vgpu_create}}},
    {"/v1/vgpus/*",
     "GET, PATCH, DELETE",
     {{"GET", endpoint_vgpu_show}, {"PATCH", endpoint_vgpu_change}, {"DELETE", endpoint_vgpu_destroy}}},
    {"/v1/vgpus/*/freeze", "POST", {{"POST", endpoint_vgpu_freeze}}},
    {"/v1/vgpus/*/resume", "POST", {{"POST", endpoint_vgpu_resume}}},
};

static bool path_matches(const char *pattern, const char *path, char *ret_ref, size_t size)
{
    const char *star = strchr(pattern, '*');

    ret_ref[0] = '\0';
    if (!star)
        return strcmp(pattern, path) == 0;

    size_t head = (size_t)(star - pattern);
    if (strncmp(pattern, path, head) != 0)
        return false;
    size_t length = strcspn(path + head, "/");
    if (length == 0 || strcmp(path + head + length, star + 1) != 0)
        return false;
    snprintf(ret_ref, size, "%.*s", (int)(length < size ? length : size), path + head);
    return true;
}

void route_find(const char *method, const char *path, struct route_match *ret_match)
{
    *ret_match = (struct route_match){0};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (!path_matches(paths[i].pattern, path, ret_match->ref, sizeof ret_match->ref))
            continue;
        ret_match->allow = paths[i].allow;
        for (size_t j = 0; j < METHODS_PER_PATH && paths[i].methods[j].method; j++)
            if (strcmp(paths[i].methods[j].method, method) == 0)
                ret_match->endpoint = paths[i].methods[j].endpoint;
        return;
    }
}
