/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record by which any later process can undo a transaction.
 *
 * Owns: the record of one transaction, its text with a checksum. It reaches the disk whole or not at all.
 * Never: takes a name from a file that could lead a write elsewhere; removes an unreadable file.
 *
 * A journal is of all groups of its functions, and named after the lowest: "group-17.journal". While a group has one,
 * nothing else is bound in it; so a function is in one journal at most.
 */
#ifndef FACET_PASSTHROUGH_BIND_JOURNAL_H
#define FACET_PASSTHROUGH_BIND_JOURNAL_H

#include "passthrough/bind/host.h"

#define JOURNAL_NAME_SIZE     32u
#define JOURNAL_FUNCTIONS_MAX 256u
#define JOURNAL_BYTES_MAX     (1u << 20)

/* The place of a function: its driver and its settings. */
struct journal_place {
    char driver[40];   /* empty: none */
    char override[40]; /* empty: none */
    char power[16];    /* "auto", "on"; empty: not known, and left alone */
    char rights[24];   /* of its group's node: "0:0"; empty: there is none, or it is left alone */
};

struct journal_function {
    struct facet_passthrough_identity identity;
    struct journal_place old;
    struct journal_place bound;
    struct bind_stuck stuck;
};

enum journal_phase {
    JOURNAL_PREPARING = 0, /* to be undone, unless the one that wrote it goes on */
    JOURNAL_BOUND = 1,
    JOURNAL_RETURNING = 2, /* to be given back */
};

struct journal {
    uint32_t phase; /* enum journal_phase */
    char boot[40];  /* the run of the machine in which it was written */
    struct journal_function *functions;
    size_t count;
};

void journal_clear(struct journal *journal);

struct journal_function *journal_find(const struct journal *journal, const struct facet_pci_address *address);
bool journal_has_group(const struct journal *journal, int32_t group);
bool journal_is_stuck(const struct journal *journal, const struct bind_host *host);

/* ---- text (journal_text.c); NULL: no memory. FACET_CORRUPT names the error. ---- */

char *journal_text(const struct journal *journal);
enum facet_status journal_parse(const char *bytes, size_t size, struct journal *ret_journal, struct facet_error *error);

/* A name that becomes a part of a path. */
bool journal_is_name(const char *text);

/* "10de:2204:1043:8888": vendor, device, and both of the subsystem. */
#define IDENTITY_MODEL_SIZE 24u
void identity_print_model(const struct facet_passthrough_identity *identity, char text[IDENTITY_MODEL_SIZE]);
bool identity_parse_model(const char *text, struct facet_passthrough_identity *identity);

/* ---- files (journal.c) ---- */

void journal_name(const struct journal *journal, char name[JOURNAL_NAME_SIZE]);

/* On the disk when it returns; on failure the disk holds either the former journal or the new one. */
enum facet_status journal_store(struct bind_host *host, const struct journal *journal, struct facet_error *error);
enum facet_status journal_remove(struct bind_host *host, const char *name, struct facet_error *error);
enum facet_status journal_load(struct bind_host *host, const char *name, struct journal *ret_journal,
                               struct facet_error *error);

/* All of them: readable, or with `failure`. Both are released afterwards; return false to stop. */
typedef bool (*journal_take_func)(void *context, const char *name, struct journal *journal,
                                  const struct facet_error *failure);
enum facet_status journal_each(struct bind_host *host, journal_take_func take, void *context,
                               struct facet_error *error);

#endif
