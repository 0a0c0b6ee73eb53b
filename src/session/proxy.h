/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of a provider that runs in a child.
 *
 * Owns: tables whose functions turn their arguments into a call. Their instance is a struct facet_client.
 * Never: can be distinguished by a caller from a provider's own tables.
 */
#ifndef FACET_SESSION_PROXY_H
#define FACET_SESSION_PROXY_H

#include "session/tables.h"

/* `provider` describes the one in the child; its texts are borrowed, its tables ignored. */
void facet_proxy_fill(struct facet_tables *tables, const struct facet_provider *provider);

#endif
