/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the walk along a path that finds out which users can change each component.
 * Never: checks a component before its parents: after the parents are checked, no other user can replace the component.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/paths.h"
#include "base/private_group.h"

enum {
    LINKS_MAX = 40, /* as many as the kernel follows */
};

struct walk {
    const char *path;               /* as the caller named it */
    char reached[FACET_PATH_SIZE];  /* checked, with links resolved; empty: the root */
    char rest[2 * FACET_PATH_SIZE]; /* not checked yet */
    unsigned links;
    bool creates_folders;
    mode_t mode;
    bool is_shared;     /* `reached` is a folder like /tmp, which every user may write */
    uid_t root;         /* the owner of the root folder: 0, unless the user namespace does not map it */
    struct stat status; /* of `reached` */
};

static bool is_trusted_owner(const struct walk *walk, uid_t owner)
{
    return owner == geteuid() || owner == 0 || (owner == walk->root && !walk->is_shared);
}

/*
 * Under a umask of 0002 a user's private group may write the user's files. The group bits may also stand for an access
 * control list (ACL), so a file with an ACL counts as not ours alone.
 */
static bool is_only_ours(const char *path, const struct stat *status)
{
    return getxattr(path, "system.posix_acl_access", NULL, 0) <= 0 &&
           facet_private_group("", status->st_gid, geteuid());
}

static enum facet_status refuse_path(const struct walk *walk, const char *at, const char *what,
                                     struct facet_error *error)
{
    if (strcmp(at, walk->path) == 0)
        return facet_error_set(error, FACET_PERMISSION, "%s %s", at, what);
    return facet_error_set(error, FACET_PERMISSION, "%s, which leads to %.200s, %s", at, walk->path, what);
}

static enum facet_status check_owner(const struct walk *walk, const char *at, const struct stat *status,
                                     struct facet_error *error)
{
    char what[96];

    if (is_trusted_owner(walk, status->st_uid))
        return FACET_OK;
    if (geteuid() == 0)
        snprintf(what, sizeof what, "belongs to user %lu, expected root", (unsigned long)status->st_uid);
    else
        snprintf(what, sizeof what, "belongs to user %lu, expected user %lu or root", (unsigned long)status->st_uid,
                 (unsigned long)geteuid());
    return refuse_path(walk, at, what, error);
}

/*
 * Before the last component, a sticky folder that all users may write is accepted: no user can remove another's files
 * there. The last folder must not be writable by other users or any group.
 */
static enum facet_status check_mode(const struct walk *walk, const char *at, const struct stat *status, bool last,
                                    struct facet_error *error)
{
    unsigned mode = status->st_mode & 07777u;
    bool by_any = mode & S_IWOTH, by_group = mode & S_IWGRP, is_end = last && S_ISDIR(status->st_mode);
    char what[96];

    if ((!by_any && !by_group) || (!last && mode & S_ISVTX) || (!is_end && !by_any && is_only_ours(at, status)))
        return FACET_OK;
    snprintf(what, sizeof what, "may be written by %s (mode %04o)%s", by_any ? "any user" : "others", mode,
             last ? "" : ": expected 'chmod +t' or 'chmod go-w' of it");
    return refuse_path(walk, at, what, error);
}

/* Takes the next name from walk->rest; false at the end. */
static bool next_name(struct walk *walk, char name[FACET_PATH_SIZE])
{
    const char *at = walk->rest + strspn(walk->rest, "/");
    size_t length = strcspn(at, "/");

    snprintf(name, FACET_PATH_SIZE, "%.*s", (int)length, at);
    at += length;
    at += strspn(at, "/");
    memmove(walk->rest, at, strlen(at) + 1);
    return length > 0;
}

static enum facet_status refuse_long_path(const struct walk *walk, struct facet_error *error)
{
    return facet_error_set(error, FACET_OUT_OF_RANGE, "path '%.200s...' is longer than %d bytes", walk->path,
                           FACET_PATH_SIZE - 1);
}

/* Puts the link's target in front of the rest of the path. */
static enum facet_status follow_link(struct walk *walk, const char *link, struct facet_error *error)
{
    char target[FACET_PATH_SIZE], left[sizeof walk->rest];
    struct stat status;
    ssize_t length = readlink(link, target, sizeof target - 1);

    /* A folder is not made at the target of a dangling link. */
    if (length < 0 || stat(link, &status) < 0)
        return facet_error_errno(error, errno, "cannot follow link %s", link);
    target[length] = '\0';
    if (++walk->links > LINKS_MAX)
        return facet_error_errno(error, ELOOP, "%s", walk->path);
    int size = snprintf(left, sizeof left, "%s/%s", target, walk->rest);
    if ((size_t)length == sizeof target - 1 || size < 0 || (size_t)size >= sizeof left)
        return refuse_long_path(walk, error);
    memcpy(walk->rest, left, (size_t)size + 1);
    if (target[0] == '/') {
        walk->reached[0] = '\0';
        walk->is_shared = false;
    }
    return FACET_OK;
}

/* Checks the folder or file that was reached, which is no link. */
static enum facet_status check_reached(struct walk *walk, const char *at, const struct stat *status,
                                       struct facet_error *error)
{
    bool last = walk->rest[0] == '\0';
    enum facet_status verdict = check_owner(walk, at, status, error);

    if (verdict == FACET_OK && !last && !S_ISDIR(status->st_mode))
        return facet_error_errno(error, ENOTDIR, "cannot enter %s", at);
    if (verdict == FACET_OK)
        verdict = check_mode(walk, at, status, last, error);
    walk->status = *status;
    walk->is_shared = status->st_mode & S_IWOTH;
    return verdict;
}

static enum facet_status check_path(const struct walk *walk, const char *at, struct stat *ret_status,
                                    struct facet_error *error)
{
    if (lstat(at, ret_status) == 0)
        return FACET_OK;
    if (errno != ENOENT || !walk->creates_folders)
        return facet_error_errno(error, errno, "cannot look at %s", at);
    /* EEXIST: another process made the folder first; it is checked like any other. */
    if (mkdir(at, walk->mode) < 0 && errno != EEXIST)
        return facet_error_errno(error, errno, "cannot make folder %s", at);
    if (lstat(at, ret_status) < 0)
        return facet_error_errno(error, errno, "cannot look at folder %s", at);
    return FACET_OK;
}

/* The path of a name below `reached`; false: it is too long. */
static bool join_path(const struct walk *walk, const char *name, char at[FACET_PATH_SIZE])
{
    const char *slash = strrchr(walk->reached, '/');

    if (strcmp(name, ".") == 0)
        return snprintf(at, FACET_PATH_SIZE, "%s", walk->reached) >= 0;
    if (strcmp(name, "..") == 0)
        return snprintf(at, FACET_PATH_SIZE, "%.*s", slash ? (int)(slash - walk->reached) : 0, walk->reached) >= 0;
    return snprintf(at, FACET_PATH_SIZE, "%s/%s", walk->reached, name) < FACET_PATH_SIZE;
}

static enum facet_status enter_component(struct walk *walk, const char *name, struct facet_error *error)
{
    char at[FACET_PATH_SIZE];
    const char *shown = at;
    struct stat status;

    if (!join_path(walk, name, at))
        return refuse_long_path(walk, error);
    if (!at[0])
        shown = "/";
    enum facet_status verdict = check_path(walk, shown, &status, error);
    if (verdict != FACET_OK)
        return verdict;
    if (S_ISLNK(status.st_mode)) {
        verdict = check_owner(walk, shown, &status, error);
        return verdict == FACET_OK ? follow_link(walk, shown, error) : verdict;
    }
    verdict = check_reached(walk, shown, &status, error);
    memcpy(walk->reached, at, sizeof at);
    return verdict;
}

/* Walks from the root, or from the current folder, to the end. */
static enum facet_status walk_all(struct walk *walk, struct facet_error *error)
{
    char name[FACET_PATH_SIZE], here[FACET_PATH_SIZE] = "";
    struct stat status;

    if (walk->path[0] == '\0')
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "path", "cannot look for a folder without a name");
    if (strlen(walk->path) >= FACET_PATH_SIZE)
        return refuse_long_path(walk, error);
    if (walk->path[0] != '/' && !getcwd(here, sizeof here))
        return facet_error_errno(error, errno, "%s: cannot determine the current folder", walk->path);
    snprintf(walk->rest, sizeof walk->rest, "%s/%s", here, walk->path);
    if (lstat("/", &status) < 0)
        return facet_error_errno(error, errno, "cannot look at /");
    walk->root = status.st_uid;
    enum facet_status verdict = check_mode(walk, "/", &status, false, error);
    walk->status = status;
    while (verdict == FACET_OK && next_name(walk, name))
        verdict = enter_component(walk, name, error);
    return verdict;
}

static enum facet_status expect_kind(const struct walk *walk, mode_t kind, const char *words, struct facet_error *error)
{
    if ((walk->status.st_mode & S_IFMT) == kind)
        return FACET_OK;
    return facet_error_set(error, FACET_PERMISSION, "%s is not a %s", walk->path, words);
}

/*
 * Where the namespace does not map root, other users' folders look like root's: the last folder must be the user's own.
 */
static enum facet_status expect_folder(const struct walk *walk, struct facet_error *error)
{
    uid_t owner = walk->status.st_uid;

    if (owner != geteuid() && owner != 0)
        return facet_error_set(error, FACET_PERMISSION,
                               "%s belongs to user %u, which may be any user in this user namespace: expected user %u",
                               walk->path, owner, geteuid());
    return expect_kind(walk, S_IFDIR, "folder", error);
}

enum facet_status facet_path_make(const char *path, mode_t mode, struct facet_error *error)
{
    struct walk walk = {.path = path, .creates_folders = true, .mode = mode};
    enum facet_status status = walk_all(&walk, error);

    return status == FACET_OK ? expect_folder(&walk, error) : status;
}

enum facet_status facet_path_trust_folder(const char *path, struct facet_error *error)
{
    struct walk walk = {.path = path};
    enum facet_status status = walk_all(&walk, error);

    return status == FACET_OK ? expect_folder(&walk, error) : status;
}

enum facet_status facet_path_trust_file(const char *path, struct facet_error *error)
{
    struct walk walk = {.path = path};
    enum facet_status status = walk_all(&walk, error);

    return status == FACET_OK ? expect_kind(&walk, S_IFREG, "file", error) : status;
}
