/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the endpoint of each path. Never: calls an endpoint; endpoints are only names here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "route.h"

#define ENDPOINT(name)                                                                                                 \
    enum facet_status name(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,            \
                           struct facet_error *error)                                                                  \
    {                                                                                                                  \
        return FACET_INTERNAL;                                                                                         \
    }
ENDPOINT(endpoint_health)
ENDPOINT(endpoint_metrics)
ENDPOINT(endpoint_devices)
ENDPOINT(endpoint_device)
ENDPOINT(endpoint_events)
ENDPOINT(endpoint_measurements)
ENDPOINT(endpoint_node)
ENDPOINT(endpoint_providers)
ENDPOINT(endpoint_reservation_list)
ENDPOINT(endpoint_reservation_create)
ENDPOINT(endpoint_reservation_show)
ENDPOINT(endpoint_reservation_release)
ENDPOINT(endpoint_vgpu_list)
ENDPOINT(endpoint_vgpu_create)
ENDPOINT(endpoint_vgpu_show)
ENDPOINT(endpoint_vgpu_change)
ENDPOINT(endpoint_vgpu_destroy)
ENDPOINT(endpoint_vgpu_freeze)
ENDPOINT(endpoint_vgpu_resume)

static const struct expectation {
    const char *method, *path;
    endpoint_func endpoint;
    const char *ref, *allow;
} expectations[] = {
    {"GET", "/v1/health", endpoint_health, "", "GET"},
    {"GET", "/metrics", endpoint_metrics, "", "GET"},
    {"GET", "/v1/devices", endpoint_devices, "", "GET"},
    {"GET", "/v1/devices/opencl:0", endpoint_device, "opencl:0", "GET"},
    {"GET", "/v1/events", endpoint_events, "", "GET"},
    {"GET", "/v1/measurements", endpoint_measurements, "", "GET"},
    {"GET", "/v1/node", endpoint_node, "", "GET"},
    {"POST", "/v1/node", NULL, "", "GET"},
    {"GET", "/v1/providers", endpoint_providers, "", "GET"},
    {"GET", "/v1/reservations", endpoint_reservation_list, "", "GET, POST"},
    {"POST", "/v1/reservations", endpoint_reservation_create, "", "GET, POST"},
    {"GET", "/v1/reservations/a", endpoint_reservation_show, "a", "GET, DELETE"},
    {"DELETE", "/v1/reservations/a", endpoint_reservation_release, "a", "GET, DELETE"},
    {"PATCH", "/v1/reservations/a", NULL, "a", "GET, DELETE"},
    {"GET", "/v1/vgpus", endpoint_vgpu_list, "", "GET, POST"},
    {"POST", "/v1/vgpus", endpoint_vgpu_create, "", "GET, POST"},
    {"GET", "/v1/vgpus/a", endpoint_vgpu_show, "a", "GET, PATCH, DELETE"},
    {"PATCH", "/v1/vgpus/a.b-c_d", endpoint_vgpu_change, "a.b-c_d", "GET, PATCH, DELETE"},
    {"DELETE", "/v1/vgpus/freeze", endpoint_vgpu_destroy, "freeze", "GET, PATCH, DELETE"},
    {"POST", "/v1/vgpus/a/freeze", endpoint_vgpu_freeze, "a", "POST"},
    {"POST", "/v1/vgpus/a/resume", endpoint_vgpu_resume, "a", "POST"},
    {"DELETE", "/v1/vgpus", NULL, "", "GET, POST"},
    {"get", "/v1/health", NULL, "", "GET"},
    {"GET", "/v1/vgpus/a/freeze", NULL, "a", "POST"},
    {"GET", "/", NULL, "", NULL},
    {"GET", "", NULL, "", NULL},
    {"GET", "/v1", NULL, "", NULL},
    {"GET", "/v1/healthy", NULL, "", NULL},
    {"GET", "/v1/vgpus/", NULL, "", NULL},
    {"GET", "/v1/vgpus//freeze", NULL, "", NULL},
    {"GET", "/v1/vgpus/a/", NULL, "", NULL},
    {"POST", "/v1/vgpus/a/b/freeze", NULL, "", NULL},
    {"GET", "/v2/health", NULL, "", NULL},
};

static void paths_lead_to_the_documented_endpoints(void **state)
{
    for (size_t i = 0; i < sizeof expectations / sizeof expectations[0]; i++) {
        const struct expectation *expected = &expectations[i];
        struct route_match match;

        route_find(expected->method, expected->path, &match);
        assert_true(match.endpoint == expected->endpoint);
        if (!expected->allow)
            assert_null(match.allow);
        else
            assert_string_equal(match.allow, expected->allow);
        if (match.endpoint)
            assert_string_equal(match.ref, expected->ref);
    }
}

/* A cut reference must not turn into the name of another vGPU. */
static void a_reference_that_is_too_long_names_nothing(void **state)
{
    char path[200] = "/v1/vgpus/";
    struct route_match match;

    memset(path + strlen(path), 'a', 80);
    route_find("DELETE", path, &match);
    assert_non_null(match.endpoint);
    assert_true(strlen(match.ref) >= FACET_NAME_SIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_lead_to_the_documented_endpoints),
        cmocka_unit_test(a_reference_that_is_too_long_names_nothing),
    };

    return cmocka_run_group_tests_name("route", tests, NULL, NULL);
}
