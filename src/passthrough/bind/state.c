/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the states of a function: their successors, and the state that follows from the facts; the names of states and
 * notes.
 * Never: reads a host.
 */
#include <facet/passthrough_bind.h>

static const struct {
    const char *name, *text;
} states[] = {
#define STATE(NAME, name, text) {#name, text},
    FACET_PASSTHROUGH_STATE_TABLE(STATE)
#undef STATE
};

const char *facet_passthrough_state_name(uint32_t state)
{
    return state < FACET_PASSTHROUGH_STATES ? states[state].name : NULL;
}

const char *facet_passthrough_state_text(uint32_t state)
{
    return state < FACET_PASSTHROUGH_STATES ? states[state].text : NULL;
}

#define TO(NAME) (UINT32_C(1) << FACET_PASSTHROUGH_STATE_##NAME)

/* A machine can lose a function, and have it pulled, in every state. */
#define FALLS (TO(LOST) | TO(ABSENT))

/* A holder of a kernel lock may keep it: a reset, or another tool that takes a driver away. */
#define FALLS_OR_HANGS (TO(STUCK) | FALLS)

static const uint32_t followers[FACET_PASSTHROUGH_STATES] = {
    /* Plugged in: the host's, unless an override or vfio's list of models was waiting for it. */
    [FACET_PASSTHROUGH_STATE_ABSENT] = TO(HOST) | TO(READY),
    [FACET_PASSTHROUGH_STATE_HOST] = TO(DETACHING) | FALLS_OR_HANGS,
    /* Back to the host: undone. */
    [FACET_PASSTHROUGH_STATE_DETACHING] = TO(READY) | TO(HOST) | FALLS_OR_HANGS,
    [FACET_PASSTHROUGH_STATE_READY] = TO(IN_VM) | TO(RETURNING) | FALLS_OR_HANGS,
    /* Returning: unplugging was asked for; ready: the machine ended. */
    [FACET_PASSTHROUGH_STATE_IN_VM] = TO(READY) | TO(RETURNING) | FALLS_OR_HANGS,
    /* Ready: undone, or unplugged and kept; in_vm: the guest did not let go. */
    [FACET_PASSTHROUGH_STATE_RETURNING] = TO(HOST) | TO(READY) | TO(IN_VM) | FALLS_OR_HANGS,
    /* The kernel came back after all, and the rest was undone or finished; in_vm: from a reset. */
    [FACET_PASSTHROUGH_STATE_STUCK] = TO(HOST) | TO(READY) | TO(IN_VM) | TO(DETACHING) | TO(RETURNING) | FALLS,
    /* Found again by reading the bus. */
    [FACET_PASSTHROUGH_STATE_LOST] = TO(HOST) | TO(READY) | TO(ABSENT),
};

bool facet_passthrough_state_follows(uint32_t from, uint32_t to)
{
    return from < FACET_PASSTHROUGH_STATES && to < FACET_PASSTHROUGH_STATES && (followers[from] >> to & 1u);
}

/* Certain and worst facts come first: the users of a stuck function no longer matter. */
enum facet_passthrough_state facet_passthrough_state_of(const struct facet_passthrough_facts *facts)
{
    if (!facts || !facts->is_present)
        return FACET_PASSTHROUGH_STATE_ABSENT;
    if (facts->is_stuck)
        return FACET_PASSTHROUGH_STATE_STUCK;
    if (facts->is_lost)
        return FACET_PASSTHROUGH_STATE_LOST;
    if (facts->is_detaching)
        return FACET_PASSTHROUGH_STATE_DETACHING;
    if (facts->is_returning)
        return FACET_PASSTHROUGH_STATE_RETURNING;
    if (!facts->is_vfio)
        return FACET_PASSTHROUGH_STATE_HOST;
    return facts->is_open ? FACET_PASSTHROUGH_STATE_IN_VM : FACET_PASSTHROUGH_STATE_READY;
}

/* ---- names ---- */

static const char *name_of(const char *const *names, uint32_t count, uint32_t number)
{
    return number < count ? names[number] : NULL;
}

const char *facet_passthrough_step_name(uint32_t kind)
{
    static const char *const names[FACET_PASSTHROUGH_STEPS] = {"load",   "override", "unbind", "probe",
                                                               "attach", "power",    "reset",  "rights"};

    return name_of(names, FACET_PASSTHROUGH_STEPS, kind);
}

const char *facet_passthrough_outcome_name(uint32_t outcome)
{
    static const char *const names[] = {"untouched", "done", "undone", "broken"};

    return name_of(names, sizeof names / sizeof names[0], outcome);
}

const char *facet_passthrough_note_name(uint32_t kind)
{
    static const char *const names[FACET_PASSTHROUGH_NOTE_KINDS] = {
        "failed",  "undo_failed", "stuck",   "gone", "drift",      "rolled_back",
        "adopted", "stale",       "damaged", "busy", "half_bound",
    };

    return name_of(names, FACET_PASSTHROUGH_NOTE_KINDS, kind);
}
