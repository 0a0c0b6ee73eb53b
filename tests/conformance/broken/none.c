/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: nothing: the good provider, which must pass whole. */
#include "base.h"

void base_break(struct base_tables *tables)
{
}
