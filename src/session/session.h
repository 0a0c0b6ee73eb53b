/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions in parts, for a caller that opens several at once or needs to know how a session ended.
 *
 * Owns: opening in two steps, closing with a reason, giving up a session that would never close.
 * Never: is public; facet/session.h is for all other callers.
 */
#ifndef FACET_SESSION_SESSION_H
#define FACET_SESSION_SESSION_H

#include <facet/session.h>

/* Begins to open a session: starts a child, which loads and opens the provider. The caller awaits its opening, or
 * closes it. */
enum facet_status facet_session_start(const char *path, const struct facet_session_options *options,
                                      struct facet_session **ret_session, struct facet_error *error);

/* Waits until the session is open. On failure the child has ended, and the session can only be closed. */
enum facet_status facet_session_await_open(struct facet_session *session, struct facet_error *error);

/* Closes the session as facet_session_close() does, and returns the error if the child did not end as it should. */
enum facet_status facet_session_end(struct facet_session *session, struct facet_error *error);

/*
 * Ends the child at once, in any state, because a provider with endless work would not close in time. Afterwards calls
 * return FACET_DEVICE_LOST with `why` ("was ended with ..."). The session must still be closed. A provider in this
 * process cannot be ended and goes on.
 */
void facet_session_abandon(struct facet_session *session, const char *why);

#endif
