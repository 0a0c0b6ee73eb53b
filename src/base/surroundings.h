/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings that a process inherits from its parent, on which a daemon that serves others must not depend.
 *
 * Owns: the environment that is kept, limits of the kernel, processors, priority, signals, standard streams.
 * Never: called by the library or an interposer: a program's surroundings are its own.
 */
#ifndef FACET_BASE_SURROUNDINGS_H
#define FACET_BASE_SURROUNDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include <facet/error.h>

/*
 * A descriptor that is opened later must never take the place of a closed standard stream. A closed output stays one
 * that cannot be written. False: /dev/null cannot be opened.
 */
bool facet_surroundings_open_streams(void);

/*
 * Keeps only the variables that are known to be useful: the settings (config.h), the variables of providers, HOME,
 * USER, LOGNAME, XDG_*_HOME, XDG_RUNTIME_DIR, TZ, those named in FACET_KEEP_ENV, and a PATH of the system's folders. So
 * providers find the same devices for every caller. A HOME or XDG_CACHE_HOME that cannot be written is left out, and
 * HOME is then the user's by the system. `terminal`: also variables that output depends on. False with errno: no
 * memory.
 */
bool facet_surroundings_clean_environment(bool terminal);

/* Raises soft limits to the hard ones, as far as that is useful; a stack has 8 MiB. */
void facet_surroundings_raise_limits(void);

/* Whether the hard limits allow a daemon; where this process may raise them, it does. FACET_NO_SPACE names one. */
enum facet_status facet_surroundings_check_limits(struct facet_error *error);

/*
 * No signal is ignored or handled, but SIGXFSZ: a write beyond the file size limit (ulimit -f) must fail instead of
 * ending the process. The C library's own handlers stay.
 */
void facet_surroundings_reset_signals(void);

/* All processors and memory, the usual priorities, and signals as above, none of them blocked: as far as this process
 * may. Before exec. */
void facet_surroundings_reset(void);

/*
 * The settings that this could not undo, or that no process can: "a nice value of 5, no_new_privs, ...". False: none.
 */
bool facet_surroundings_tell_rest(char *ret_text, size_t size);

#endif
