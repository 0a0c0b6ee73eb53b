/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A provider that is open and can be called; it runs in a child process or in this process.
 *
 * Owns: loading, version negotiation, the child and its deadlines, and complete tables: an operation that a provider
 * does not offer is a stub that answers FACET_UNSUPPORTED, so callers never check for NULL.
 * Never: changes what an operation means: the operations of facet/provider.h work alike in a child process and in this
 * process.
 *
 *     struct facet_session *session;
 *
 *     if (facet_session_open(path, NULL, &session, &error) == FACET_OK) {
 *         const struct facet_provider *provider = facet_session_provider(session);
 *         struct facet_provider_instance *instance = facet_session_instance(session);
 *
 *         status = provider->partition->create(instance, 0, "1g.10gb", FACET_PLACEMENT_ANY, &partition, &error);
 *     }
 *     facet_session_close(session);
 *
 * In a child, a provider that crashes, exits or passes a deadline takes nothing with it: the call under way and all
 * later ones answer FACET_DEVICE_LOST, with the reason of the provider's end, until facet_session_restart(). The
 * provider's answers are checked: texts are terminated and printable, enumerations known, counts and sizes bounded; any
 * other answer is FACET_CORRUPT. A provider in this process is not isolated: FACET_SESSION_IN_PROCESS is for trusted
 * providers whose calls must cost nanoseconds.
 *
 * The kernel does not count the provider's child among the program's own children: no SIGCHLD reports its end, and
 * wait() neither returns nor waits for it. Only a program that adopts orphans (the first process of a PID namespace, or
 * one with PR_SET_CHILD_SUBREAPER) sees the provider's child. So a program may ignore SIGCHLD, or wait for all of its
 * children wherever it likes.
 *
 * Thread rule: one thread opens, closes and restarts a session; any number of threads may call the operations. After
 * fork(), the forked process cannot use the session: close does nothing there, and operations answer FACET_BAD_STATE.
 * With a provider in this process, the forked process must not call operations at all.
 */
#ifndef FACET_SESSION_H
#define FACET_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/provider.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_session;

enum facet_session_place {
    FACET_SESSION_CHILD = 0,
    FACET_SESSION_IN_PROCESS = 1,
};

/* Zeroed members mean the default. */
struct facet_session_options {
    uint32_t size;             /* of this struct */
    uint32_t place;            /* enum facet_session_place */
    uint64_t open_deadline_ns; /* from starting the child until the provider is open; default 10 s */
    uint64_t call_deadline_ns; /* for each call, added to the call's own timeout if it has one; default 5 s. A snapshot
                                  may take 60 times as long, and each byte of data adds 4 ns */
    uint16_t abi_minor;        /* the minor version to claim; default FACET_PROVIDER_ABI_MINOR */
    uint16_t reserved[3];
};
FACET_STATIC_ASSERT(sizeof(struct facet_session_options) == 32, "ABI: facet_session_options");

/*
 * Loads the provider file and opens it. `options` may be NULL.
 * Errors: FACET_IO (the file cannot be loaded), FACET_ABI_MISMATCH, FACET_CORRUPT (the provider breaks a rule),
 * FACET_TIMEOUT, FACET_INTERNAL (the provider crashed or exited; the message names the step), FACET_NOT_FOUND (the
 * program facet-provider-host is not installed), or the status of the provider's own open.
 */
FACET_API enum facet_status facet_session_open(const char *path, const struct facet_session_options *options,
                                               struct facet_session **ret_session, struct facet_error *error);

/* Closes the provider and ends its child. NULL is allowed. */
FACET_API void facet_session_close(struct facet_session *session);

/* Both are borrowed until close. Every table and operation of this version is set. */
FACET_API const struct facet_provider *facet_session_provider(const struct facet_session *session);
FACET_API struct facet_provider_instance *facet_session_instance(const struct facet_session *session);

/* Whether the provider runs in a child or in this process. */
FACET_API enum facet_session_place facet_session_place(const struct facet_session *session);

/* Whether the provider can be called. If not, `error` (may be NULL) says how the provider ended. */
FACET_API bool facet_session_alive(struct facet_session *session, struct facet_error *error);

/*
 * Opens a lost provider again, in a new child. Contexts, streams and other objects of the lost child are gone. Does
 * nothing while the provider is alive. FACET_BAD_STATE: the provider runs in this process.
 */
FACET_API enum facet_status facet_session_restart(struct facet_session *session, struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
