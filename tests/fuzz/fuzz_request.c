/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing request_parse(). The first byte, repeated in both bytes of a mask, is the set of members that the call
 * allows; the rest is the body. */
#include "request.h"

#include "fuzz.h"

static void check_accepted(const struct request *request, uint32_t allowed)
{
    const struct facet_limits *limits = &request->limits;

    FUZZ_ASSERT((request->present & ~allowed) == 0);
    FUZZ_ASSERT(!(request->present & REQUEST_NAME) || facet_check_name(request->name, "name", NULL) == FACET_OK);
    FUZZ_ASSERT(!(request->present & REQUEST_RESERVATION) ||
                facet_check_name(request->reservation, "reservation", NULL) == FACET_OK);
    FUZZ_ASSERT(!(request->present & REQUEST_DEVICE) == !request->device[0]);
    FUZZ_ASSERT(!(request->present & REQUEST_MEMORY_LIMIT) == !limits->memory_bytes);
    FUZZ_ASSERT(limits->compute_request_milli <= FACET_MILLI_WHOLE);
    FUZZ_ASSERT(limits->compute_limit_milli >= 1 && limits->compute_limit_milli <= FACET_MILLI_WHOLE);
    FUZZ_ASSERT(facet_mode_name((enum facet_mode)limits->mode));
    FUZZ_ASSERT(facet_priority_name((enum facet_priority)limits->priority));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t allowed = size ? (data[0] | (uint32_t)data[0] << 8) & REQUEST_ALL : REQUEST_ALL;
    struct facet_error error = {0};
    struct request request, untouched;

    if (size) {
        data++;
        size--;
    }
    memset(&request, 0x5a, sizeof request);
    untouched = request;
    enum facet_status status = request_parse((const char *)data, size, allowed, &request, &error);
    if (status == FACET_OK) {
        check_accepted(&request, allowed);
    } else {
        FUZZ_ASSERT(memcmp(&request, &untouched, sizeof request) == 0);
        FUZZ_ASSERT(status == FACET_INVALID_ARGUMENT || status == FACET_OUT_OF_RANGE);
        FUZZ_ASSERT(error.status == status && error.argument[0] && error.message[0]);
    }
    return 0;
}
