/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a capability is claimed, and the operation is missing. Never: breaks anything else. */
#include "base.h"

void base_install_fault(struct base_tables *tables)
{
    tables->container.items = NULL;
}
