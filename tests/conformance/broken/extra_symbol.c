/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: the object exports a second symbol. Never: breaks anything else. */
#include "base.h"

FACET_API int acme_helper(void);

FACET_API int acme_helper(void)
{
    return 1;
}

void base_install_fault(struct base_tables *tables)
{
}
