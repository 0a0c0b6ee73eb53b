/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: storing, loading and listing journals on the disk. Never: leaves a partial journal under its final name. */
#include "passthrough/bind/journal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "passthrough/scan/tree.h"

/* ---- in memory ---- */

struct journal_function *journal_find(const struct journal *journal, const struct facet_pci_address *address)
{
    for (size_t i = 0; i < journal->count; i++)
        if (facet_pci_address_compare(&journal->functions[i].identity.address, address) == 0)
            return &journal->functions[i];
    return NULL;
}

bool journal_has_group(const struct journal *journal, int32_t group)
{
    for (size_t i = 0; i < journal->count; i++)
        if (journal->functions[i].identity.group == group)
            return true;
    return false;
}

bool journal_is_stuck(const struct journal *journal, const struct bind_host *host)
{
    for (size_t i = 0; i < journal->count; i++)
        if (bind_is_alive(host, &journal->functions[i].stuck))
            return true;
    return false;
}

/* ---- on the disk ---- */

/* Writes a temporary file, syncs it, and renames it to `name`. */
static int write_file(struct bind_host *host, const char *name, const char *text)
{
    FACET_CLEANUP_FD int fd = -1;
    char fresh[JOURNAL_NAME_SIZE + 8];
    int errnum;

    snprintf(fresh, sizeof fresh, "%s.new", name);
    errnum = host->ops->create(host, fresh, &fd);
    if (!errnum)
        errnum = host->ops->append(host, fd, text, strlen(text));
    if (!errnum)
        errnum = host->ops->sync(host, fd);
    if (!errnum)
        errnum = host->ops->rename(host, fresh, name);
    if (!errnum)
        errnum = host->ops->sync(host, host->state);
    return errnum;
}

enum facet_status journal_store(struct bind_host *host, const struct journal *journal, struct facet_error *error)
{
    FACET_CLEANUP_FREE char *text = journal_text(journal);
    char name[JOURNAL_NAME_SIZE];

    if (!text)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the journal of %zu functions", journal->count);
    journal_name(journal, name);
    int errnum = write_file(host, name, text);
    return errnum ? facet_error_errno(error, errnum, "cannot write the journal %s", name) : FACET_OK;
}

enum facet_status journal_remove(struct bind_host *host, const char *name, struct facet_error *error)
{
    int errnum = host->ops->remove(host, name);

    if (errnum == 0)
        errnum = host->ops->sync(host, host->state);
    if (errnum && errnum != ENOENT)
        return facet_error_errno(error, errnum, "cannot remove the journal %s", name);
    return FACET_OK;
}

enum facet_status journal_load(struct bind_host *host, const char *name, struct journal *ret_journal,
                               struct facet_error *error)
{
    FACET_CLEANUP_FREE char *bytes = malloc(JOURNAL_BYTES_MAX + 1);
    struct journal journal;
    char expected[JOURNAL_NAME_SIZE];
    size_t size = 0;

    if (!bytes)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the journal %s", name);
    enum facet_pci_unread unread = tree_read_bytes(host->state, name, bytes, JOURNAL_BYTES_MAX + 1, &size);
    if (unread != FACET_PCI_READ)
        return facet_error_set(error, unread == FACET_PCI_UNREAD_ABSENT ? FACET_NOT_FOUND : FACET_IO,
                               "cannot read the journal %s: %s", name, facet_pci_unread_name(unread));
    if (journal_parse(bytes, size, &journal, error) != FACET_OK)
        return facet_error_prefix(error, "journal %s", name);
    journal_name(&journal, expected);
    if (strcmp(name, expected) != 0) {
        journal_clear(&journal);
        return facet_error_set(error, FACET_CORRUPT, "journal %s: its content belongs to %s", name, expected);
    }
    *ret_journal = journal;
    return FACET_OK;
}

/* ---- all journals ---- */

struct walk {
    char (*names)[JOURNAL_NAME_SIZE];
    size_t count;
    bool failed;
};

static bool take_name(void *context, char *name)
{
    struct walk *walk = context;
    size_t length = strlen(name), digits;

    if (strncmp(name, "group-", 6) != 0 || length >= JOURNAL_NAME_SIZE)
        return true;
    digits = strspn(name + 6, "0123456789");
    if (digits == 0 || strcmp(name + 6 + digits, ".journal") != 0)
        return true; /* the file of a lock, or of an unfinished journal */
    char(*added)[JOURNAL_NAME_SIZE] = tree_append((void **)&walk->names, &walk->count, JOURNAL_NAME_SIZE);
    walk->failed = !added;
    if (added)
        memcpy(*added, name, length + 1);
    return added != NULL;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static bool hand_over_journal(struct bind_host *host, const char *name, journal_take_func take, void *context)
{
    struct journal journal = {.count = 0};
    struct facet_error failure = {.status = FACET_OK};
    enum facet_status status = journal_load(host, name, &journal, &failure);
    bool goes_on = true;

    if (status != FACET_NOT_FOUND) /* not found: removed since it was listed */
        goes_on = take(context, name, &journal, status ? &failure : NULL);
    journal_clear(&journal);
    return goes_on;
}

enum facet_status journal_each(struct bind_host *host, journal_take_func take, void *context, struct facet_error *error)
{
    struct walk walk = {.count = 0};
    enum facet_pci_unread unread = tree_each_name(host->state, ".", take_name, &walk);
    enum facet_status status = FACET_OK;

    if (walk.failed)
        status = facet_error_set(error, FACET_NO_MEMORY, "no memory for a list of journals");
    else if (unread != FACET_PCI_READ)
        status = facet_error_set(error, FACET_IO, "cannot list the journals: %s", facet_pci_unread_name(unread));
    if (walk.count > 1)
        qsort(walk.names, walk.count, sizeof *walk.names, compare_names);
    for (size_t i = 0; !status && i < walk.count; i++)
        if (!hand_over_journal(host, walk.names[i], take, context))
            break;
    free(walk.names);
    return status;
}
