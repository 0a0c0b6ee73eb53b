/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: macros that make the functions, requests and reports of the tests of attaching. Never: asserts. */
#ifndef FACET_TEST_ATTACH_REQUEST_H
#define FACET_TEST_ATTACH_REQUEST_H

#include <facet/attach.h>

#define FUNCTION(...)                ((struct facet_attach_function){.size = sizeof(struct facet_attach_function), __VA_ARGS__})
#define AT(bus_, device_, function_) .address = {.bus = (bus_), .device = (device_), .function = (function_)}
#define REQUEST(list, ...)                                                                                             \
    (&(struct facet_attach_request){.size = sizeof(struct facet_attach_request),                                       \
                                    .functions = (list),                                                               \
                                    .count = sizeof(list) / sizeof(list)[0],                                           \
                                    __VA_ARGS__})

static inline void reports_clear(struct facet_attach_report *reports, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        reports[i] = (struct facet_attach_report){.size = sizeof reports[i]};
}

#endif
