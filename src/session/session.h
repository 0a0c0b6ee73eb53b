/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions in parts, for a caller that opens several at once or wants to know how one ended.
 *
 * Owns: opening in two steps, closing with a reason, giving up a session that would never close.
 * Never: is public; facet/session.h is for all other callers.
 */
#ifndef FACET_SESSION_SESSION_H
#define FACET_SESSION_SESSION_H

#include <facet/session.h>

/* Begins to open: a child starts, and loads and opens the provider by itself. To be finished, or closed. */
enum facet_status facet_session_start(const char *path, const struct facet_session_options *options,
                                      struct facet_session **ret_session, struct facet_error *error);

/* Waits until it is open. On failure there is no child any more, and the session is only good to be closed. */
enum facet_status facet_session_finish(struct facet_session *session, struct facet_error *error);

/* Closes as facet_session_close(), and reports how that went. */
enum facet_status facet_session_end(struct facet_session *session, struct facet_error *error);

/*
 * Ends the child at once, in any state: a provider with endless work would take its time to close. From here on calls
 * answer FACET_DEVICE_LOST with `why` ("was ended with ..."); the session is still to be closed. A provider in this
 * process goes on: nothing can end it.
 */
void facet_session_abandon(struct facet_session *session, const char *why);

#endif
