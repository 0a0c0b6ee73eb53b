/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings that a process inherits from its parent, on which a daemon that serves others must not depend.
 *
 * Owns: the environment that is kept, limits of the kernel, processors, priority, signals, standard streams.
 * Never: is called by the library or an interposer, because a program's surroundings are its own.
 */
#ifndef FACET_BASE_SURROUNDINGS_H
#define FACET_BASE_SURROUNDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include <facet/error.h>

/*
 * Opens closed standard streams on /dev/null, so that no descriptor that is opened later takes their numbers. A closed
 * output stays a descriptor that cannot be written. False: /dev/null cannot be opened.
 */
bool facet_surroundings_open_streams(void);

/*
 * Keeps only the variables that are known to be useful: the settings (config.h), the variables of providers, HOME,
 * USER, LOGNAME, XDG_*_HOME, XDG_RUNTIME_DIR, TZ, and the variables that FACET_KEEP_ENV names. PATH is set to the
 * system's folders. So providers find the same devices for every caller. A HOME or XDG_CACHE_HOME that cannot be
 * written is removed, and HOME is then taken from the user database. With `terminal`, the variables on which output to
 * a terminal depends are also kept. False with errno: no memory.
 */
bool facet_surroundings_clean_environment(bool terminal);

/* Raises soft limits to the hard limits, as far as that is useful; the stack size becomes 8 MiB. */
void facet_surroundings_raise_limits(void);

/*
 * Whether the hard limits are high enough for a daemon; raises them if this process may. FACET_NO_SPACE names a limit
 * that is too low.
 */
enum facet_status facet_surroundings_check_limits(struct facet_error *error);

/*
 * Resets all signals to their default action, except SIGXFSZ, which is ignored: a write beyond the file size limit
 * (ulimit -f) must fail instead of ending the process. The C library's own handlers stay.
 */
void facet_surroundings_reset_signals(void);

/*
 * Resets scheduling, processors, memory nodes and signals, and unblocks all signals, as far as this process may. For
 * use before exec.
 */
void facet_surroundings_reset(void);

/*
 * Lists the settings that facet_surroundings_reset() could not undo: "a nice value of 5, no_new_privs, ...". False:
 * there are none.
 */
bool facet_surroundings_list_remaining(char *ret_text, size_t size);

#endif
