/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types and functions that the files replay*.c share.
 *
 * Owns: a value of a document with its position, functions that read it, the state of a running vector, and the outcome
 * of a step.
 * Never: is included outside replay*.c.
 */
#ifndef FACET_PLACEMENT_REPLAY_INSIDE_H
#define FACET_PLACEMENT_REPLAY_INSIDE_H

#include <jansson.h>

#include "placement/maps/maps.h"
#include "placement/maps/replay.h"

#define REPLAY_ITEMS_MAX 1024u
#define REPLAY_STEPS_MAX 100000u

struct replay_text {
    char bytes[3000]; /* lines; those for which there is no room are left out */
    size_t length;
};

void replay_append(struct replay_text *text, const char *format, ...) FACET_PRINTF(2, 3);

/*
 * A value, and its position in `path`, like "/vectors/3/steps/0". Only the first refusal is kept in `fault`;
 * readers return
 * 0 for a value that they refuse.
 */
struct replay_value {
    json_t *value; /* NULL: absent */
    struct replay_text *fault;
    char path[200];
};

struct replay_value replay_member(const struct replay_value *at, const char *name);
struct replay_value replay_item(const struct replay_value *at, size_t index);
void replay_refuse(const struct replay_value *at, const char *expected);
const char *replay_string(const struct replay_value *at); /* refuses any other value, and returns "" */
bool replay_expect_object(const struct replay_value *at); /* refuses any other value */
size_t replay_count(const struct replay_value *at, size_t max);
bool replay_present(const struct replay_value *at); /* whether there is a value that is not null */
/* Reads a text or an integer, which may be negative. False: the amount is out of range or too fine, or the value is no
 * amount, which is refused. */
bool replay_amount(const struct replay_value *at, int64_t *ret_amount, struct facet_error *error);
uint64_t replay_whole(const struct replay_value *at);
/* The index of a text among `names` (ends with NULL), in upper or lower case; `fallback` when the value is absent. */
uint32_t replay_choice(const struct replay_value *at, const char *const *names, uint32_t fallback);

/* The effect of a step. */
struct replay_effect {
    uint64_t grant; /* 0: none */
    struct facet_maps_part *parts;
    uint32_t count;
    bool released;
    bool handle_lost; /* the grant was turned into reserved amounts, which have no handle */
};

struct replay_outcome {
    bool refused;
    uint32_t reason;               /* enum facet_refusal; FACET_REFUSED_NOT: the refused step was no request */
    struct replay_effect *granted; /* NULL: the step granted nothing */
    struct facet_error error;
};

struct replay_run {
    struct facet_maps *maps;
    struct replay_text fault, notes;
    bool has_several_maps; /* a kernel vector, with maps under their names */
    bool is_strict;        /* from Backend.AI's own tests: the rules are Backend.AI's */
    bool outcome_recorded; /* the record is what Backend.AI's code did, right or wrong */
    bool own_broken;       /* an outcome of Facet broke a rule */
    bool record_broken;    /* a recorded outcome broke a rule: later differences do not count */
    uint32_t affinity;
    uint32_t places;
    int64_t *before, *after;            /* by place: taken amounts, around a step */
    int64_t *recorded, *recorded_after; /* by place: taken amounts, as recorded */
    int64_t *result;                    /* by place: the result, as recorded */
    int64_t *own_result;                /* by place: our result */
    bool discrete[FACET_MAPS_MOST];     /* by map */
    uint32_t *hint;
    uint32_t hint_count;
    struct replay_effect *effects;
    uint32_t steps;
    struct facet_maps_item *items; /* the request of the step */
    uint32_t item_count;
    bool impossible_amount; /* an item has an amount that no map could grant: negative or too fine */
};

/* --- replay_read.c --- */
/*
 * Writes an allocation to `amounts`, by place; in a kernel vector it is divided by map. False: it names an unknown
 * place with an amount that is not 0.
 */
bool replay_allocation(struct replay_run *run, const struct replay_value *at, int64_t *amounts);

/* --- replay_build.c: refuses into the run's fault --- */
void replay_build(struct replay_run *run, const struct replay_value *vector);
void replay_clear(struct replay_run *run);

/* --- replay_step.c --- */
void replay_step(struct replay_run *run, const struct replay_value *vector, uint32_t index);
void replay_read_taken(struct replay_run *run, int64_t *amounts); /* the taken amounts now */

/* --- replay_judge.c --- */
void replay_judge(struct replay_run *run, const struct replay_value *step, uint32_t index,
                  const struct replay_outcome *outcome);

/* --- replay_node.c: vectors about a node, which have no maps --- */
void replay_agents_split(struct replay_text *fault, const struct replay_value *vector);
void replay_align(struct replay_text *fault, const struct replay_value *vector);
void replay_density(struct replay_text *fault, const struct replay_value *table);

#endif
