/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: GET /v1/node and /v1/measurements. Never: writes a document differently from the library. */
#include <string.h>

#include "base/cleanup.h"
#include "endpoint.h"
#include "measured.h"
#include "node.h"

enum facet_status endpoint_node(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                struct facet_error *error)
{
    CLEANUP_SPEC struct facet_spec *spec = NULL;
    FACET_CLEANUP_FREE char *text = NULL;

    enum facet_status status = node_describe(daemon->devices, daemon->sessions, &spec, error);
    if (status == FACET_OK)
        status = facet_spec_write(spec, &text, error);
    return status == FACET_OK ? answer_json(200, json_loads(text, 0, NULL), ret_answer, error) : status;
}

enum facet_status endpoint_measurements(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                        struct facet_error *error)
{
    FACET_CLEANUP_FREE char *text = NULL;

    enum facet_status status = measured_look(daemon->measured, &text, error);
    return status == FACET_OK ? answer_json(200, json_loads(text, 0, NULL), ret_answer, error) : status;
}
