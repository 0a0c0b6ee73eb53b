/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: int8 is claimed where there is none. Never: breaks anything else. */
#include "base.h"

static enum facet_status support(struct facet_provider_instance *instance, uint32_t device,
                                 struct facet_math_support *ret_support, struct facet_error *error)
{
    struct facet_math_support all = {.size = sizeof all};
    enum facet_status status = base_math.support(instance, device, &all, error);

    all.types[FACET_MATH_ATTENTION] = 15;
    return status == FACET_OK ? facet_kit_struct(&all, sizeof all, ret_support, error) : status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->math.support = support;
}
