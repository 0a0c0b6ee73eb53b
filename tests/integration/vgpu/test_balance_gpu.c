/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the proof that a GPU counts as one unit of work for a balancer. Never: runs a kernel. */
#include "balance_world.h"

/* A launch on a GPU takes all of its units, so an estimated wait is not divided by the number of units. */
static void a_gpu_is_one_unit_of_work(void **state)
{
    struct facet_balancer_config config = balancer_config();
    struct facet_driver_device device = {.size = sizeof device};

    (void)state;
    members_make(2, 0);
    assert_true(facet_driver_get_device(world.driver, 0, &device));
    assert_true(device.units > 1);
    balancer_make(&config);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(member_of(i).units, 1);
    balanced_world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gpu_is_one_unit_of_work),
    };

    return cmocka_run_group_tests_name("balance_gpu", tests, world_load, world_unload);
}
