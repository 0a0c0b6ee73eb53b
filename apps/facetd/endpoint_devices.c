/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: GET /v1/devices and GET /v1/providers. Never: asks a provider; the table was read at the start. */
#include "device/json.h"
#include "endpoint.h"

enum facet_status endpoint_devices(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                   struct facet_error *error)
{
    return answer_json(200, facet_device_table_json(daemon->devices), ret_answer, error);
}

enum facet_status endpoint_providers(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                     struct facet_error *error)
{
    return answer_json(200, facet_provider_table_json(daemon->devices), ret_answer, error);
}
