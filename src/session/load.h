/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first steps with a provider: its shared object, its entry point, its version.
 *
 * Owns: loading, version negotiation, the size rules of struct facet_provider.
 * Never: guards against a provider that crashes or hangs (child.h does), or unloads a provider: vendors' libraries
 * leave threads and exit handlers behind, and callers may rely on a provider's data to stay.
 */
#ifndef FACET_SESSION_LOAD_H
#define FACET_SESSION_LOAD_H

#include <stdbool.h>

#include <facet/provider.h>

/* Finds the entry point in the object at `path`. Errors: FACET_IO, FACET_ABI_MISMATCH. */
enum facet_status facet_load_object(const char *path, facet_provider_entry_func *ret_entry, struct facet_error *error);

/*
 * Calls the entry point, claiming `abi_minor`, and checks its result: versions, sizes, name, and that it can be opened
 * and listed. Errors: FACET_ABI_MISMATCH, FACET_CORRUPT, FACET_UNSUPPORTED, and the provider's own refusals.
 */
enum facet_status facet_load_enter(facet_provider_entry_func entry, uint16_t abi_minor,
                                   const struct facet_provider **ret_provider, struct facet_error *error);

/* Opens a provider that facet_load_enter() returned. Errors: the provider's own. */
enum facet_status facet_load_open(const struct facet_provider *provider, struct facet_provider_instance **ret_instance,
                                  struct facet_error *error);

/* Whether `name` may name a provider. */
bool facet_load_is_name(const char *name);

/* Composes "what: text of the status: the provider's text" for a provider that failed at `what`. */
enum facet_status facet_load_failed(struct facet_error *error, enum facet_status status, const char *what);

#endif
