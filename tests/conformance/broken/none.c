/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: nothing. This provider must pass the whole suite. */
#include "base.h"

void base_install_fault(struct base_tables *tables)
{
}
