/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: turning an error into a refusal; see refusal.h. Never: changes the error. */
#include "refusal.h"

unsigned refusal_http(enum facet_status status)
{
    switch (status) {
    case FACET_INVALID_ARGUMENT:
    case FACET_OUT_OF_RANGE:
        return 400;
    case FACET_PERMISSION:
        return 403;
    case FACET_NOT_FOUND:
        return 404;
    case FACET_ALREADY_EXISTS:
    case FACET_BAD_STATE:
    case FACET_BUSY:
        return 409;
    case FACET_UNSUPPORTED:
        return 501;
    case FACET_NO_SPACE:
        return 507;
    case FACET_DEVICE_LOST:
        return 503;
    case FACET_TIMEOUT:
        return 504;
    default:
        return 500;
    }
}

/* The advice for a status. A client need not reopen a lost device, because the daemon restarts its provider. */
static const char *advice_of(enum facet_status status)
{
    return status == FACET_DEVICE_LOST ? "the provider is started again; try in a moment" : facet_status_advice(status);
}

char *refusal_text(const struct facet_error *error)
{
    json_t *inner = json_object();

    json_object_set_new(inner, "code", json_string(facet_status_name(error->status)));
    if (error->argument[0])
        json_object_set_new(inner, "argument", json_string(error->argument));
    /* A message that is not UTF-8 is replaced by the status's own text. */
    json_t *message = json_string(error->message);
    json_object_set_new(inner, "message", message ? message : json_string(facet_status_text(error->status)));
    json_object_set_new(inner, "advice", json_string(advice_of(error->status)));

    json_t *whole = json_pack("{s:o}", "error", inner);
    char *text = json_dumps(whole, JSON_COMPACT);
    json_decref(whole);
    return text;
}
