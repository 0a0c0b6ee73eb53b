/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about names of enumerators, the parts of agents, and aligned memory. */
#include <inttypes.h>
#include <string.h>

#include "node.h"

static void test_enumerators_have_names(void **state)
{
    assert_string_equal(facet_map_kind_name(FACET_MAP_FRACTION), "fraction");
    assert_string_equal(facet_map_strategy_name(FACET_MAP_FILL), "fill");
    assert_string_equal(facet_slot_type_name(FACET_SLOT_UNIFIED), "unified");
    assert_string_equal(facet_refusal_name(FACET_REFUSED_FRAGMENTED), "fragmented");
    assert_string_equal(facet_agents_mode_name(FACET_AGENTS_AUTO_SPLIT), "auto-split");
    assert_null(facet_map_kind_name(2));
    assert_null(facet_map_strategy_name(2));
    assert_null(facet_slot_type_name(4));
    assert_null(facet_refusal_name(7));
    assert_null(facet_agents_mode_name(3));
}

static struct facet_agents_config agents_config(uint32_t mode, uint32_t kind, uint32_t count, int64_t total,
                                                int64_t system, int64_t manual)
{
    return (struct facet_agents_config){.size = sizeof(struct facet_agents_config),
                                        .mode = mode,
                                        .kind = kind,
                                        .count = count,
                                        .total = total,
                                        .system = system,
                                        .manual = manual};
}

static void test_agents_split_by_each_mode(void **state)
{
    struct facet_agents_config config = agents_config(FACET_AGENTS_AUTO_SPLIT, FACET_MAP_DISCRETE, 3, 5 * ONE, 0, 0);
    int64_t withheld[3] = {0};

    assert_int_equal(facet_agents_split(&config, withheld, NULL), FACET_OK);
    assert_true(withheld[0] == 3 * ONE && withheld[1] == 3 * ONE && withheld[2] == 4 * ONE);
    config = agents_config(FACET_AGENTS_AUTO_SPLIT, FACET_MAP_FRACTION, 3, ONE, 0, 0);
    assert_int_equal(facet_agents_split(&config, withheld, NULL), FACET_OK);
    /* The amounts that they may use add up to the total, to the micro-unit. */
    assert_int_equal(3 * ONE - withheld[0] - withheld[1] - withheld[2], ONE);
    config = agents_config(FACET_AGENTS_SHARED, FACET_MAP_DISCRETE, 2, 16 * ONE, 4 * ONE, 0);
    assert_int_equal(facet_agents_split(&config, withheld, NULL), FACET_OK);
    assert_true(withheld[0] == 4 * ONE && withheld[1] == 4 * ONE);
    config = agents_config(FACET_AGENTS_MANUAL, FACET_MAP_DISCRETE, 2, 16 * ONE, 4 * ONE, 6 * ONE);
    assert_int_equal(facet_agents_split(&config, withheld, NULL), FACET_OK);
    assert_true(withheld[0] == 10 * ONE && withheld[1] == 10 * ONE);
}

static void test_wrong_agents_are_refused(void **state)
{
    const struct facet_agents_config bad[] = {
        agents_config(3, 0, 1, ONE, 0, 0),       agents_config(0, 2, 1, ONE, 0, 0),
        agents_config(0, 0, 0, ONE, 0, 0),       agents_config(0, 0, 1, -1, 0, 0),
        agents_config(0, 0, 1, ONE, 2 * ONE, 0), agents_config(0, 0, 1, ONE, -1, 0),
        agents_config(2, 0, 1, ONE, 0, -1),      agents_config(2, 0, 2, 16 * ONE, 4 * ONE, 7 * ONE),
    };

    for (size_t i = 0; i < LENGTH(bad); i++) {
        int64_t withheld[2] = {-5, -5};
        struct facet_error error = {0};

        assert_int_not_equal(facet_agents_split(&bad[i], withheld, &error), FACET_OK);
        assert_true(error.argument[0] && error.message[0]);
        assert_true(withheld[0] == -5 && withheld[1] == -5);
    }
    assert_int_equal(facet_agents_split(NULL, NULL, NULL), FACET_INVALID_ARGUMENT);
}

static void test_memory_is_aligned(void **state)
{
    static const uint64_t cases[][5] = {{19950, 1000, 10, 18950, 1000},
                                        {19999, 1000, 10, 19000, 999},
                                        {20000, 1000, 10, 19000, 1000},
                                        {20001, 1000, 10, 19000, 1001},
                                        {20049, 1000, 10, 19050, 999},
                                        {5, 5, 10, 0, 5},
                                        {19, 0, 10, 10, 9}};
    uint64_t usable = 1, reserved = 1;

    for (size_t i = 0; i < LENGTH(cases); i++) {
        assert_int_equal(facet_agents_align_memory(cases[i][0], cases[i][1], cases[i][2], &usable, &reserved, NULL),
                         FACET_OK);
        assert_int_equal(usable, cases[i][3]);
        assert_int_equal(reserved, cases[i][4]);
    }
    assert_int_equal(facet_agents_align_memory(10, 11, 1, &usable, &reserved, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_agents_align_memory(10, 1, 0, &usable, &reserved, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_agents_align_memory(UINT64_MAX, 1, 16, &usable, &reserved, NULL), FACET_OK);
    assert_true(usable % 16 == 0 && usable + reserved == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_enumerators_have_names),
        cmocka_unit_test(test_agents_split_by_each_mode),
        cmocka_unit_test(test_wrong_agents_are_refused),
        cmocka_unit_test(test_memory_is_aligned),
    };

    return cmocka_run_group_tests_name("placement/maps_agents", tests, NULL, NULL);
}
