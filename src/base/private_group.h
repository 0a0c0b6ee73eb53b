/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: whether a user is alone in the group that a umask of 0002 lets write the user's files.
 */
#ifndef FACET_BASE_PRIVATE_GROUP_H
#define FACET_BASE_PRIVATE_GROUP_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Whether `group` is the primary group of `user` with the user's name, and no other user has it, neither as a member
 * nor as primary group. False whenever this cannot be found out: other users may come from a directory service, which
 * need not list them. `root` is the folder in which etc and run are: "" except in tests.
 */
bool facet_private_group(const char *root, gid_t group, uid_t user);

#endif
