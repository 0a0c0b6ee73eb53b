/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: GET /v1/health. Never: waits for a device. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/variables.h"
#include "endpoint.h"

/* The variables that decide which devices the daemon finds; the command compares them with its own. */
static json_t *environment_json(void)
{
    json_t *object = json_object();

    for (char **entry = environ; entry && *entry; entry++) {
        size_t length = strcspn(*entry, "=");
        char name[128];

        if (!(*entry)[length] || !(*entry)[length + 1] || !facet_variable_is_of_devices(*entry))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)length, *entry);
        json_object_set_new(object, name, json_string(*entry + length + 1)); /* a value that is not UTF-8 is left out */
    }
    return object;
}

enum facet_status endpoint_health(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                  struct facet_error *error)
{
    uint64_t uptime_ns = facet_clock_now_ns() - daemon->started_ns;
    size_t vgpus = registry_count(daemon->registry);

    json_t *json = json_pack("{s:s, s:i, s:I, s:b, s:I, s:o}", "version", FACET_VERSION, "pid", (int)getpid(),
                             "uptime_ns", (json_int_t)uptime_ns, "private", (int)daemon->private, "vgpus",
                             (json_int_t)vgpus, "environment", environment_json());
    return answer_json(200, json, ret_answer, error);
}
