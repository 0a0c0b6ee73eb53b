/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of a provider that runs in a child.
 *
 * Owns: tables whose functions turn their arguments into a call. Their instance is a struct facet_client.
 * Never: behaves otherwise than the provider's own tables.
 */
#ifndef FACET_SESSION_PROXY_H
#define FACET_SESSION_PROXY_H

#include "session/tables.h"

/* `provider` describes the provider in the child. Its texts are borrowed, and its tables are ignored. */
void facet_proxy_fill(struct facet_tables *tables, const struct facet_provider *provider);

#endif
