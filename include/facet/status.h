/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status codes: the one vocabulary in which every Facet call reports how it went.
 *
 * Owns: the table of codes, their names, their texts and the caller's remedies.
 * Never: carries context about one failure; that is struct facet_error (error.h).
 *
 * The ranges tell the caller the remedy without knowledge of the code:
 *      0          done
 *     -1 .. -99   the caller asked for something wrong; fix the request
 *   -100 .. -199  not now; wait, free something, or try again
 *   -200 .. -299  the device is lost; re-open it
 *   -300 .. -399  unsupported here
 *   -400 ..       a defect or a broken environment; report it
 */
#ifndef FACET_STATUS_H
#define FACET_STATUS_H

#include <stdbool.h>

#include <facet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, name, value, text, remedy) */
#define FACET_STATUS_TABLE(X)                                                                                          \
    X(OK, ok, 0, "success", "nothing")                                                                                 \
    X(INVALID_ARGUMENT, invalid_argument, -1, "invalid argument", "correct the named argument")                        \
    X(NOT_FOUND, not_found, -2, "not found", "list what exists and name one of those")                                 \
    X(ALREADY_EXISTS, already_exists, -3, "already exists", "choose another name or use the existing one")             \
    X(PERMISSION, permission, -4, "permission denied", "run as the owner of the daemon or as root")                    \
    X(OUT_OF_RANGE, out_of_range, -5, "out of range", "stay within the limits that the message names")                 \
    X(BAD_STATE, bad_state, -6, "not possible in this state", "see which state the message asks for")                  \
    X(TOO_SMALL, too_small, -7, "buffer too small", "call again with the size that was returned")                      \
    X(BUSY, busy, -100, "busy", "try again")                                                                           \
    X(TIMEOUT, timeout, -101, "timed out", "try again, or look at what holds it up")                                   \
    X(QUOTA, quota, -102, "quota exceeded", "free some memory or raise the quota")                                     \
    X(NO_MEMORY, no_memory, -103, "out of host memory", "free memory on this machine")                                 \
    X(NO_SPACE, no_space, -104, "no space left", "free some, or ask for less")                                         \
    X(FROZEN, frozen, -105, "vGPU is frozen", "resume it")                                                             \
    X(DEVICE_LOST, device_lost, -200, "device lost", "open the device again")                                          \
    X(UNSUPPORTED, unsupported, -300, "unsupported", "see what the device or provider offers")                         \
    X(ABI_MISMATCH, abi_mismatch, -301, "ABI mismatch", "use a provider built for this version")                       \
    X(INTERNAL, internal, -400, "internal error", "report this with the message")                                      \
    X(CORRUPT, corrupt, -401, "corrupt data", "remove or restore the named file")                                      \
    X(IO, io, -402, "input/output error", "look at the named file or device")

enum facet_status {
#define FACET_STATUS_ENUM(NAME, name, value, text, todo) FACET_##NAME = (value),
    FACET_STATUS_TABLE(FACET_STATUS_ENUM)
#undef FACET_STATUS_ENUM
};

/* The code's name in lower case ("invalid_argument"), the spelling used in JSON. Never NULL. */
FACET_API const char *facet_status_name(enum facet_status status);

/* One short phrase for people ("invalid argument"). Never NULL. */
FACET_API const char *facet_status_text(enum facet_status status);

/* The caller's remedy ("correct the named argument"). Never NULL. */
FACET_API const char *facet_status_advice(enum facet_status status);

/* The code with that lower-case name; FACET_INTERNAL when there is none. */
FACET_API enum facet_status facet_status_from_name(const char *name);

#ifdef __cplusplus
}
#endif
#endif
