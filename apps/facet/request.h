/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of -d, -m, -c, --mode, --template, --priority, --idle-freeze, --reservation, --oversubscribe, --label and
 * --name, and the JSON they become.
 *
 * Owns: checking as much as possible before a daemon is asked or started.
 * Never: prints, or enforces a limit.
 */
#ifndef FACET_REQUEST_H
#define FACET_REQUEST_H

#include <stdbool.h>

#include "base/label.h"
#include "client.h"

/* As typed; NULL = not given. Borrowed from argv. */
struct request {
    const char *device, *memory, *compute, *mode, *template_id, *priority, *name, *idle_freeze, *reservation;
    bool oversubscribe;
    const char *labels[FACET_LABELS_MOST]; /* "KEY=VALUE" */
    uint32_t label_count;                  /* may be above FACET_LABELS_MOST: request_check() refuses that */
};

#define REQUEST_LIMIT_LETTERS "m:c:"
#define REQUEST_LIMIT_WORDS                                                                                            \
    {"memory", required_argument, NULL, 'm'}, {"compute", required_argument, NULL, 'c'},                               \
        {"idle-freeze", required_argument, NULL, OPTION_IDLE_FREEZE},                                                  \
        {"label", required_argument, NULL, OPTION_LABEL},                                                              \
    {                                                                                                                  \
        "priority", required_argument, NULL, OPTION_PRIORITY                                                           \
    }
#define REQUEST_LETTERS "d:" REQUEST_LIMIT_LETTERS
#define REQUEST_WORDS                                                                                                  \
    {"device", required_argument, NULL, 'd'}, REQUEST_LIMIT_WORDS, {"mode", required_argument, NULL, OPTION_MODE},     \
        {"template", required_argument, NULL, OPTION_TEMPLATE},                                                        \
        {"reservation", required_argument, NULL, OPTION_RESERVATION},                                                  \
        {"oversubscribe", no_argument, NULL, OPTION_OVERSUBSCRIBE},                                                    \
    {                                                                                                                  \
        "name", required_argument, NULL, OPTION_NAME                                                                   \
    }

/* Takes one of these options. False: it is another option. */
bool request_option(struct request *request, int option, const char *value);

/* Whether any of the options limits the program. */
bool request_has_limits(const struct request *request);

/* The first option given, as typed ("--memory"); NULL when none was. */
const char *request_first_given(const struct request *request);

/* Splits "KEY=VALUE"; the key is copied, the value points into `text`. NULL: it has no '='; then the key is all of it.
 */
const char *request_split_label(const char *text, char ret_key[FACET_LABEL_KEY_MOST + 2]);

/* Checks labels by which vGPUs are found: KEY or KEY=VALUE. */
enum facet_status request_check_filter(const struct request *request, struct facet_error *error);

/* All checks that need no device. */
enum facet_status request_check(const struct request *request, struct facet_error *error);

/*
 * Makes the body for POST or PATCH /v1/vgpus. Asks the daemon for the memory of `device` (NULL: the first one) when the
 * request has a percentage of it. The caller owns *ret_body.
 */
enum facet_status request_body(const struct request *request, struct client *client, const char *device,
                               json_t **ret_body, struct facet_error *error);

#endif
