/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: GET /v1/health. Never: waits for a device. */
#include <unistd.h>

#include "base/clock.h"
#include "endpoint.h"

enum facet_status endpoint_health(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                  struct facet_error *error)
{
    uint64_t uptime_ns = facet_clock_now_ns() - daemon->started_ns;
    size_t vgpus = registry_count(daemon->registry);

    json_t *json = json_pack("{s:s, s:i, s:I, s:b, s:I}", "version", FACET_VERSION, "pid", (int)getpid(), "uptime_ns",
                             (json_int_t)uptime_ns, "private", (int)daemon->private, "vgpus", (json_int_t)vgpus);
    return answer_json(200, json, ret_answer, error);
}
