/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record by which any later process can undo a transaction.
 *
 * Owns: the record of one transaction, and its text with a checksum, which reaches the disk complete or not at all.
 * Never: accepts a name from a file that could lead a write elsewhere, or removes an unreadable file.
 *
 * A journal covers all IOMMU groups of its functions, and is named after the lowest number: "group-17.journal". While a
 * group has a journal, no other transaction binds functions of the group; so a function is in one journal at most.
 */
#ifndef FACET_PASSTHROUGH_BIND_JOURNAL_H
#define FACET_PASSTHROUGH_BIND_JOURNAL_H

#include "passthrough/bind/host.h"

#define JOURNAL_NAME_SIZE     32u
#define JOURNAL_FUNCTIONS_MAX 256u
#define JOURNAL_BYTES_MAX     (1u << 20)

/* A function's binding, also called its place: its driver and its settings. */
struct journal_binding {
    char driver[40];   /* empty: none */
    char override[40]; /* empty: none */
    char power[16];    /* "auto", "on"; empty: unknown, and not changed */
    char rights[24];   /* the owner of its group's node, "0:0"; empty: there is no node, or its owner is not changed */
};

struct journal_function {
    struct facet_passthrough_identity identity;
    struct journal_binding old;
    struct journal_binding bound;
    struct bind_stuck stuck;
};

enum journal_phase {
    JOURNAL_PREPARING = 0, /* being bound; recovery undoes it, unless its transaction still runs */
    JOURNAL_BOUND = 1,
    JOURNAL_RETURNING = 2, /* being given back; recovery completes it */
};

struct journal {
    uint32_t phase; /* enum journal_phase */
    char boot[40];  /* the kernel's boot id when the journal was written */
    struct journal_function *functions;
    size_t count;
};

void journal_clear(struct journal *journal);

struct journal_function *journal_find(const struct journal *journal, const struct facet_pci_address *address);
bool journal_has_group(const struct journal *journal, int32_t group);
bool journal_is_stuck(const struct journal *journal, const struct bind_host *host);

/* ---- text (journal_text.c); NULL: no memory. FACET_CORRUPT: the error's message names the damage. ---- */

char *journal_text(const struct journal *journal);
enum facet_status journal_parse(const char *bytes, size_t size, struct journal *ret_journal, struct facet_error *error);

/* Whether `text` may be a part of a path: letters, digits and "_-.+", without a dot at the beginning. */
bool journal_is_name(const char *text);

/* "10de:2204:1043:8888": vendor, device, subsystem vendor, subsystem device. */
#define IDENTITY_MODEL_SIZE 24u
void identity_print_model(const struct facet_passthrough_identity *identity, char text[IDENTITY_MODEL_SIZE]);
bool identity_parse_model(const char *text, struct facet_passthrough_identity *identity);

/* ---- files (journal.c) ---- */

void journal_name(const struct journal *journal, char name[JOURNAL_NAME_SIZE]);

/* Writes and syncs the journal. On failure the disk holds either the former journal or the new one. */
enum facet_status journal_store(struct bind_host *host, const struct journal *journal, struct facet_error *error);
enum facet_status journal_remove(struct bind_host *host, const char *name, struct facet_error *error);
enum facet_status journal_load(struct bind_host *host, const char *name, struct journal *ret_journal,
                               struct facet_error *error);

/*
 * Called for each journal. A `failure` other than NULL says why the journal is unreadable. The callee may keep neither
 * of them. Returns false to stop.
 */
typedef bool (*journal_take_func)(void *context, const char *name, struct journal *journal,
                                  const struct facet_error *failure);
enum facet_status journal_each(struct bind_host *host, journal_take_func take, void *context,
                               struct facet_error *error);

#endif
