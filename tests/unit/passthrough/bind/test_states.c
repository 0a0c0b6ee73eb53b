/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the table of states: every pair, and every combination of facts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <facet/passthrough_bind.h>

/*
 * A row for each state that is left, a column for each state that is entered, both in the order of
 * FACET_PASSTHROUGH_STATE_TABLE. A column's letter: Absent, Host, Detaching, Ready, in_Vm, returning (Back), Stuck,
 * Lost.
 */
static const char *const table[FACET_PASSTHROUGH_STATES] = {
    /*            A H D R V B S L */
    /* absent */ ".x.x....",
    /* host */ "x.x...xx",
    /* detaching */ "xx.x..xx",
    /* ready */ "x...xxxx",
    /* in_vm */ "x..x.xxx",
    /* returning */ "xx.xx.xx",
    /* stuck */ "xxxxxx.x",
    /* lost */ "xx.x....",
};

static void test_every_transition_follows_the_table(void **state)
{
    for (uint32_t from = 0; from < FACET_PASSTHROUGH_STATES; from++)
        for (uint32_t to = 0; to < FACET_PASSTHROUGH_STATES; to++)
            if (facet_passthrough_state_follows(from, to) != (table[from][to] == 'x'))
                fail_msg("%s to %s: not as in the table", facet_passthrough_state_name(from),
                         facet_passthrough_state_name(to));
    assert_false(facet_passthrough_state_follows(FACET_PASSTHROUGH_STATES, 0));
    assert_false(facet_passthrough_state_follows(0, FACET_PASSTHROUGH_STATES));
    assert_false(facet_passthrough_state_follows(UINT32_MAX, UINT32_MAX));
}

/* Every state can be left, and can be reached from the host. */
static void test_every_state_is_reachable(void **state)
{
    uint32_t reached = 1u << FACET_PASSTHROUGH_STATE_HOST;

    for (unsigned round = 0; round < FACET_PASSTHROUGH_STATES; round++)
        for (uint32_t from = 0; from < FACET_PASSTHROUGH_STATES; from++)
            for (uint32_t to = 0; to < FACET_PASSTHROUGH_STATES; to++)
                if (reached >> from & 1u && facet_passthrough_state_follows(from, to))
                    reached |= 1u << to;
    assert_int_equal(reached, (1u << FACET_PASSTHROUGH_STATES) - 1);
    for (uint32_t from = 0; from < FACET_PASSTHROUGH_STATES; from++)
        if (from != FACET_PASSTHROUGH_STATE_ABSENT)
            assert_true(facet_passthrough_state_follows(from, FACET_PASSTHROUGH_STATE_ABSENT));
}

/* The bits stand for facts as in test_every_set_of_facts_has_a_state(). */
static enum facet_passthrough_state expected_state(unsigned bits)
{
    if (!(bits & 1))
        return FACET_PASSTHROUGH_STATE_ABSENT;
    if (bits & 64)
        return FACET_PASSTHROUGH_STATE_STUCK;
    if (bits & 2)
        return FACET_PASSTHROUGH_STATE_LOST;
    if (bits & 16)
        return FACET_PASSTHROUGH_STATE_DETACHING;
    if (bits & 32)
        return FACET_PASSTHROUGH_STATE_RETURNING;
    if (!(bits & 4))
        return FACET_PASSTHROUGH_STATE_HOST;
    return bits & 8 ? FACET_PASSTHROUGH_STATE_IN_VM : FACET_PASSTHROUGH_STATE_READY;
}

static void test_every_set_of_facts_has_a_state(void **state)
{
    for (unsigned bits = 0; bits < 128; bits++) {
        struct facet_passthrough_facts facts = {
            .size = sizeof facts,
            .is_present = bits & 1,
            .is_lost = bits & 2,
            .is_vfio = bits & 4,
            .is_open = bits & 8,
            .is_detaching = bits & 16,
            .is_returning = bits & 32,
            .is_stuck = bits & 64,
        };

        assert_int_equal(facet_passthrough_state_of(&facts), expected_state(bits));
    }
    assert_int_equal(facet_passthrough_state_of(NULL), FACET_PASSTHROUGH_STATE_ABSENT);
}

static void test_every_state_has_a_name(void **state)
{
    assert_string_equal(facet_passthrough_state_name(FACET_PASSTHROUGH_STATE_IN_VM), "in_vm");
    assert_null(facet_passthrough_state_name(FACET_PASSTHROUGH_STATES));
    assert_null(facet_passthrough_state_text(FACET_PASSTHROUGH_STATES));
    for (uint32_t i = 0; i < FACET_PASSTHROUGH_STATES; i++)
        assert_true(strlen(facet_passthrough_state_text(i)) > 0);
    for (uint32_t i = 0; i < FACET_PASSTHROUGH_STEPS; i++)
        assert_non_null(facet_passthrough_step_name(i));
    assert_null(facet_passthrough_step_name(FACET_PASSTHROUGH_STEPS));
    for (uint32_t i = 0; i < FACET_PASSTHROUGH_NOTE_KINDS; i++)
        assert_non_null(facet_passthrough_note_name(i));
    assert_null(facet_passthrough_note_name(FACET_PASSTHROUGH_NOTE_KINDS));
    assert_string_equal(facet_passthrough_outcome_name(FACET_PASSTHROUGH_BROKEN), "broken");
    assert_null(facet_passthrough_outcome_name(4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_transition_follows_the_table),
        cmocka_unit_test(test_every_state_is_reachable),
        cmocka_unit_test(test_every_set_of_facts_has_a_state),
        cmocka_unit_test(test_every_state_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
