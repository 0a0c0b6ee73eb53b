/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the folders of Facet: runtime folder, state folder, and the files that ship beside the command.
 * Never: creates a folder, except in facet_path_make() and facet_path_make_chosen().
 *
 *   runtime folder (tmpfs; sockets, segments)   $FACET_RUNTIME_DIR, else /run/facet as root,
 *                                               else $XDG_RUNTIME_DIR/facet, else /tmp/facet-<uid>
 *   state folder (survives reboot; database)    $FACET_STATE_DIR, else /var/lib/facet as root,
 *                                               else $XDG_STATE_HOME/facet, else ~/.local/state/facet
 *   cache folder (compiled kernels)             $FACET_CACHE_DIR, else $XDG_CACHE_HOME/facet, else ~/.cache/facet
 *   library folder (layers, providers, facetd)  $FACET_LIB_DIR, else the folder of the running program when it holds
 *                                               the file, else that of libfacet.so when it does, else the folder
 *                                               chosen at build time
 */
#ifndef FACET_BASE_PATHS_H
#define FACET_BASE_PATHS_H

#include <stddef.h>
#include <sys/types.h>

#include <facet/error.h>

#include "base/config.h"

/* Longest path we build; sun_path (108) bounds the socket's path, which is checked where it is bound. */
#define FACET_PATH_SIZE 1024

/* The runtime folder of root's daemon, which is the machine's, unless a setting names another. */
#define FACET_PATH_MACHINE_RUNTIME "/run/facet"

enum facet_status facet_path_runtime(char *ret_path, size_t size, struct facet_error *error);
enum facet_status facet_path_state(char *ret_path, size_t size, struct facet_error *error);
/* The state folder of root, whoever asks: it holds the data that belong to the machine. */
enum facet_status facet_path_root_state(char *ret_path, size_t size, struct facet_error *error);
enum facet_status facet_path_cache(char *ret_path, size_t size, struct facet_error *error);

/* <runtime>/facetd.sock */
enum facet_status facet_path_socket(char *ret_path, size_t size, struct facet_error *error);

/* The full path of a file that ships with Facet ("facetd", "libfacet-opencl-layer.so"). FACET_NOT_FOUND names the
 * places tried. */
enum facet_status facet_path_shipped(const char *file, char *ret_path, size_t size, struct facet_error *error);

/*
 * Whether only the caller's user and root can change the target of a path. Each component is checked in turn, and each
 * link on the way: it belongs to the user or to root, and others may not write it. A folder on the way may be writable
 * for all when it is sticky (/tmp), or, like a file, for the user's own group that no other user has. Once a path is
 * found good no other user can make it bad, so that files in it may be opened by name. FACET_PERMISSION names the
 * component; FACET_NOT_FOUND: something on the way is missing.
 */
enum facet_status facet_path_trust_folder(const char *path, struct facet_error *error);
enum facet_status facet_path_trust_file(const char *path, struct facet_error *error);

/*
 * Like facet_path_trust_folder(), and makes the folder and its missing parents with `mode`. An existing folder keeps
 * its mode.
 */
enum facet_status facet_path_make(const char *path, mode_t mode, struct facet_error *error);

/*
 * facet_path_make() and facet_path_trust_folder() for a folder that a setting chooses: the message names the setting.
 */
enum facet_status facet_path_make_chosen(const char *path, mode_t mode, enum facet_setting_id setting,
                                         struct facet_error *error);
enum facet_status facet_path_trust_chosen(const char *path, enum facet_setting_id setting, struct facet_error *error);

/*
 * Opens a file for appending, and makes it if it is missing. FACET_IO: it is a link, FIFO or device, or cannot be
 * opened.
 */
enum facet_status facet_path_open_log(const char *path, int *ret_fd, struct facet_error *error);

#endif
