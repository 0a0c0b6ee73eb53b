/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the search for other members of a group in /etc/passwd, /etc/group and the sources of nsswitch.conf.
 * Never: calls getpwent() or getgrent(), whose place in the list belongs to the surrounding program. Never: takes an
 * entry that it cannot read for one that is not there.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/paths.h"
#include "base/private_group.h"

enum {
    STRINGS_SIZE = 16384, /* of an entry's strings; with a longer entry the group counts as shared */
    LINE_SIZE = 1024,
    LOGIN_SIZE = 256,
};

static FILE *open_below(const char *root, const char *name)
{
    char path[FACET_PATH_SIZE];

    if (snprintf(path, sizeof path, "%s/%s", root, name) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    return fopen(path, "re");
}

/* ---- where users come from ---- */

/* Whether a folder has no entry except these names; a missing folder has none. */
static bool has_no_entry_except(const char *root, const char *folder, const char *const *names)
{
    char path[FACET_PATH_SIZE];

    if (snprintf(path, sizeof path, "%s/%s", root, folder) >= (int)sizeof path)
        return false;
    FACET_CLEANUP_DIR DIR *directory = opendir(path);
    if (!directory)
        return errno == ENOENT;
    for (const struct dirent *entry; errno = 0, (entry = readdir(directory));) {
        const char *const *name = names;

        while (*name && strcmp(*name, entry->d_name) != 0)
            name++;
        if (!*name)
            return false;
    }
    return errno == 0;
}

/*
 * Whether systemd adds no user to a group of another user. The users that it makes for its own services have groups of
 * their own; user records and services of other packages may name any group.
 */
static bool systemd_adds_no_member(const char *root)
{
    static const char *const folders[] = {"etc/userdb", "run/userdb", "run/host/userdb", "usr/lib/userdb",
                                          "usr/local/lib/userdb"};
    static const char *const none[] = {".", "..", NULL};
    static const char *const known[] = {".",
                                        "..",
                                        "io.systemd.DropIn",
                                        "io.systemd.DynamicUser",
                                        "io.systemd.Machine",
                                        "io.systemd.Multiplexer",
                                        "io.systemd.NameServiceSwitch",
                                        NULL};

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (!has_no_entry_except(root, folders[i], none))
            return false;
    return has_no_entry_except(root, "run/systemd/userdb", known);
}

/* Whether files list all entries of a database whose sources are "files systemd", with actions in brackets between. */
static bool files_list_database(const char *root, char *sources)
{
    char *open;

    while ((open = strchr(sources, '['))) {
        char *end = strchr(open, ']');

        if (!end)
            return false;
        memset(open, ' ', (size_t)(end - open) + 1);
    }
    for (char *rest = NULL, *source = strtok_r(sources, " \t\n", &rest); source;
         source = strtok_r(NULL, " \t\n", &rest))
        if (strcmp(source, "files") != 0 && (strcmp(source, "systemd") != 0 || !systemd_adds_no_member(root)))
            return false;
    return true;
}

/* Whether all users and memberships can be read from files; without an nsswitch.conf they can. */
static bool files_list_all(const char *root)
{
    static const char *const databases[] = {"passwd", "group", "initgroups"};
    FACET_CLEANUP_FILE FILE *file = open_below(root, "etc/nsswitch.conf");
    char line[LINE_SIZE];

    if (!file)
        return errno == ENOENT;
    while (fgets(line, sizeof line, file)) {
        char *name = line + strspn(line, " \t"), *colon = strchr(name, ':');

        if (!strchr(line, '\n') && !feof(file))
            return false; /* the next read would take the rest of this line for a line */
        name[strcspn(name, "#")] = '\0';
        if (!colon || !*colon)
            continue;
        size_t length = strcspn(name, " \t:");
        for (size_t i = 0; i < sizeof databases / sizeof *databases; i++)
            if (strlen(databases[i]) == length && strncmp(databases[i], name, length) == 0 &&
                !files_list_database(root, colon + 1))
                return false;
    }
    return !ferror(file);
}

/* ---- who is in the group ---- */

/* Finds the user's name, unless another user has the primary group. */
static bool is_primary_of_user_alone(const char *root, gid_t group, uid_t user, char ret_name[static LOGIN_SIZE])
{
    FACET_CLEANUP_FILE FILE *file = open_below(root, "etc/passwd");
    char strings[STRINGS_SIZE];
    struct passwd entry, *found;
    int errnum;

    ret_name[0] = '\0';
    if (!file)
        return false;
    while ((errnum = fgetpwent_r(file, &entry, strings, sizeof strings, &found)) == 0) {
        if (entry.pw_uid != user && entry.pw_gid == group)
            return false;
        if (entry.pw_uid != user || ret_name[0])
            continue;
        if (entry.pw_gid != group || strlen(entry.pw_name) >= LOGIN_SIZE)
            return false;
        memcpy(ret_name, entry.pw_name, strlen(entry.pw_name) + 1);
    }
    return errnum == ENOENT && ret_name[0];
}

/* Whether the group has the user's name, and no entry with the group's number has another member. */
static bool has_no_other_member(const char *root, gid_t group, const char *name)
{
    FACET_CLEANUP_FILE FILE *file = open_below(root, "etc/group");
    char strings[STRINGS_SIZE];
    struct group entry, *found;
    bool is_named = false;
    int errnum;

    if (!file)
        return false;
    while ((errnum = fgetgrent_r(file, &entry, strings, sizeof strings, &found)) == 0) {
        if (entry.gr_gid != group)
            continue;
        is_named = is_named || strcmp(entry.gr_name, name) == 0;
        for (char **member = entry.gr_mem; *member; member++)
            if (strcmp(*member, name) != 0)
                return false;
    }
    return errnum == ENOENT && is_named;
}

bool facet_private_group(const char *root, gid_t group, uid_t user)
{
    char name[LOGIN_SIZE];

    return files_list_all(root) && is_primary_of_user_alone(root, group, user, name) &&
           has_no_other_member(root, group, name);
}
