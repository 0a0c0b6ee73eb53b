/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: nothing: the good provider, which must pass whole. */
#include "base.h"

void base_install_fault(struct base_tables *tables)
{
}
