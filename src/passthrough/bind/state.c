/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the states of a function, their successors, the state that follows from facts; the names of states and notes.
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

/* In every state a function can fall off the bus, or be removed. */
#define LOSSES (TO(LOST) | TO(ABSENT))

/* A process may hold the device's lock in the kernel forever: in a reset, or when another tool unbinds a driver. */
#define LOSSES_OR_STUCK (TO(STUCK) | LOSSES)

static const uint32_t successors[FACET_PASSTHROUGH_STATES] = {
    /* After plugging in: a driver of the host, or of vfio if an override or vfio's list of models matches. */
    [FACET_PASSTHROUGH_STATE_ABSENT] = TO(HOST) | TO(READY),
    [FACET_PASSTHROUGH_STATE_HOST] = TO(DETACHING) | LOSSES_OR_STUCK,
    /* A change to HOST means that the binding was undone. */
    [FACET_PASSTHROUGH_STATE_DETACHING] = TO(READY) | TO(HOST) | LOSSES_OR_STUCK,
    [FACET_PASSTHROUGH_STATE_READY] = TO(IN_VM) | TO(RETURNING) | LOSSES_OR_STUCK,
    /* To READY: the virtual machine ended. To RETURNING: the virtual machine was asked to unplug the function. */
    [FACET_PASSTHROUGH_STATE_IN_VM] = TO(READY) | TO(RETURNING) | LOSSES_OR_STUCK,
    /* To READY: the return was undone, or the function was unplugged and kept. To IN_VM: the guest refused. */
    [FACET_PASSTHROUGH_STATE_RETURNING] = TO(HOST) | TO(READY) | TO(IN_VM) | LOSSES_OR_STUCK,
    /* The call in the kernel returned, and the transaction was undone or completed. To IN_VM: the call was a reset. */
    [FACET_PASSTHROUGH_STATE_STUCK] = TO(HOST) | TO(READY) | TO(IN_VM) | TO(DETACHING) | TO(RETURNING) | LOSSES,
    /* To HOST or READY: a rescan of the bus found the function again. */
    [FACET_PASSTHROUGH_STATE_LOST] = TO(HOST) | TO(READY) | TO(ABSENT),
};

bool facet_passthrough_state_follows(uint32_t from, uint32_t to)
{
    return from < FACET_PASSTHROUGH_STATES && to < FACET_PASSTHROUGH_STATES && (successors[from] >> to & 1u);
}

/* The worst facts come first; the users of a stuck function, for example, no longer matter. */
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
