/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: checking a request and reducing it to the fields that matter for placing it. Never: keeps a request. */
#include <inttypes.h>
#include <string.h>

#include "base/sized.h"
#include "placement/fleet/fleet.h"

static uint64_t model_bit(const struct facet_fleet *fleet, const char *name, size_t length)
{
    for (uint32_t i = 0; i < fleet->model_count; i++)
        if (strlen(fleet->models[i]) == length && memcmp(fleet->models[i], name, length) == 0)
            return UINT64_C(1) << i;
    return 0;
}

/* "A||B" names two models. "|" names none, which allows any model. A model that no node has is allowed, too. */
uint64_t fleet_models_of(const struct facet_fleet *fleet, const char *spec, bool *ret_any)
{
    uint64_t models = 0;

    *ret_any = true;
    while (spec && *spec) {
        size_t length = strcspn(spec, "|");

        if (length > 0) {
            *ret_any = false;
            models |= model_bit(fleet, spec, length);
        }
        spec += length + (spec[length] == '|');
    }
    return *ret_any ? FLEET_ANY_MODEL : models;
}

static enum facet_status check_request(const struct facet_fleet_request *request, struct facet_error *error)
{
    if (!request || request->size < sizeof *request)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "request",
                                    "request: expected a struct with its size");
    FACET_NEED_KNOWN("request", request, error);
    FACET_NEED_RESERVED("request", request, error);
    if (request->num_gpu > FACET_FLEET_GPUS)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "num_gpu", "num_gpu: %u, expected at most %u",
                                    request->num_gpu, FACET_FLEET_GPUS);
    if (request->num_gpu > 0 && (request->gpu_milli == 0 || request->gpu_milli > FLEET_WHOLE))
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "gpu_milli", "gpu_milli: %u, expected 1 to %u",
                                    request->gpu_milli, FLEET_WHOLE);
    if (request->cpu_milli > FACET_FLEET_CPU)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "cpu_milli",
                                    "cpu_milli: %" PRIu64 ", expected at most %u", request->cpu_milli, FACET_FLEET_CPU);
    return FACET_OK;
}

enum facet_status fleet_shape_make(const struct facet_fleet *fleet, const struct facet_fleet_request *request,
                                   struct fleet_shape *ret_shape, struct facet_error *error)
{
    enum facet_status status = check_request(request, error);
    struct fleet_shape shape = {.any_model = true, .models = FLEET_ANY_MODEL};

    if (status != FACET_OK)
        return status;
    shape.cpu = (uint32_t)request->cpu_milli;
    shape.memory = request->memory_bytes;
    shape.gpu_count = (uint8_t)request->num_gpu;
    if (shape.gpu_count > 0) {
        shape.milli = (uint16_t)request->gpu_milli;
        shape.gpu_milli_sum = request->num_gpu * request->gpu_milli;
        shape.kind = shape.gpu_count == 1 && shape.milli < FLEET_WHOLE ? 0 : shape.gpu_count;
        shape.models = fleet_models_of(fleet, request->gpu_spec, &shape.any_model);
    }
    *ret_shape = shape;
    return FACET_OK;
}
