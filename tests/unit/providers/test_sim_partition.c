/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of the placement rules: usual cases by hand, and 100,000 random steps for each profile, compared with a
 * second implementation that shares no data and no code with the provider.
 */
#include "../../effort.h"
#include "sim_core_fixture.h"

#define STEPS effort(100000, 2000)

/* --- The oracle: the geometry that `nvidia-smi mig -lgip` and `-lgipp` print, and sets of slices. --- */

#define KINDS 7

static const struct geometry {
    unsigned compute_slices, memory_slices, most;
    const char *starts;
} geometry[KINDS] = {
    {1, 1, 7, "0123456"}, {1, 1, 1, "0123456"}, {1, 2, 4, "0246"}, {2, 2, 3, "024"},
    {3, 4, 2, "04"},      {4, 4, 1, "0"},       {7, 8, 1, "0"},
};

static const struct mig_profile {
    const char *profile;
    const char *templates[KINDS];
    uint32_t units[KINDS];
} mig_profiles[] = {
    {"a100-40gb",
     {"1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"},
     {14, 14, 14, 28, 42, 56, 98}},
    {"h100",
     {"1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"},
     {16, 16, 26, 32, 60, 64, 132}},
    {"h200",
     {"1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"},
     {16, 16, 26, 32, 60, 64, 132}},
};

struct oracle {
    unsigned count;
    struct {
        unsigned kind, start;
        char uuid[64];
    } partitions[64];
};

static bool is_start(unsigned kind, unsigned start)
{
    return start < 8 && strchr(geometry[kind].starts, (int)('0' + start));
}

static bool oracle_allows(const struct oracle *oracle, unsigned kind, unsigned start)
{
    unsigned used[8] = {0}, compute = geometry[kind].compute_slices, alike = 1;

    if (!is_start(kind, start))
        return false;
    for (unsigned i = 0; i < oracle->count; i++) {
        for (unsigned slice = 0; slice < geometry[oracle->partitions[i].kind].memory_slices; slice++)
            used[oracle->partitions[i].start + slice]++;
        compute += geometry[oracle->partitions[i].kind].compute_slices;
        alike += oracle->partitions[i].kind == kind;
    }
    for (unsigned slice = 0; slice < geometry[kind].memory_slices; slice++)
        used[start + slice]++;
    for (unsigned slice = 0; slice < 8; slice++)
        if (used[slice] > 1)
            return false;
    return compute <= 7 && alike <= geometry[kind].most;
}

static bool oracle_allows_somewhere(const struct oracle *oracle, unsigned kind)
{
    for (unsigned start = 0; start < 8; start++)
        if (oracle_allows(oracle, kind, start))
            return true;
    return false;
}

static void check_list(struct facet_provider_instance *instance, const struct mig_profile *mig,
                       const struct oracle *oracle)
{
    struct facet_partition_info infos[64];
    uint32_t units = 0;
    uint64_t bytes = 0;

    assert_int_equal(list_partitions(instance, 0, infos), oracle->count);
    for (unsigned i = 0; i < oracle->count; i++) {
        unsigned found = 0;

        assert_true(i == 0 || infos[i - 1].start + infos[i - 1].length <= infos[i].start);
        units += infos[i].compute_units;
        bytes += infos[i].memory_bytes + infos[i].overhead_bytes;
        for (unsigned j = 0; j < oracle->count; j++)
            found += strcmp(infos[i].uuid, oracle->partitions[j].uuid) == 0 &&
                     infos[i].start == oracle->partitions[j].start &&
                     strcmp(infos[i].template_id, mig->templates[oracle->partitions[j].kind]) == 0;
        assert_int_equal(found, 1);
    }
    assert_true(units <= sim_device_info(instance, 0)->compute_units);
    assert_true(bytes <= sim_device_info(instance, 0)->memory_bytes);
}

static void check_placements(struct facet_provider_instance *instance, const struct mig_profile *mig,
                             const struct oracle *oracle, unsigned kind)
{
    struct facet_partition_placement placements[8];
    uint32_t count = 0;

    assert_int_equal(sim_partition_ops.placements(instance, 0, mig->templates[kind], placements, sizeof *placements, 8,
                                                  &count, NULL),
                     FACET_OK);
    assert_int_equal(count, strlen(geometry[kind].starts));
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(placements[i].start, geometry[kind].starts[i] - '0');
        assert_int_equal(placements[i].length, geometry[kind].memory_slices);
        assert_int_equal(placements[i].free, oracle_allows(oracle, kind, placements[i].start));
    }
}

static void step_create(struct facet_provider_instance *instance, const struct mig_profile *mig, struct oracle *oracle,
                        unsigned kind, uint32_t start)
{
    struct facet_partition_info info = {0};
    bool anywhere = start == FACET_PLACEMENT_ANY;
    bool allowed = anywhere ? oracle_allows_somewhere(oracle, kind) : oracle_allows(oracle, kind, start);
    enum facet_status expected = allowed                             ? FACET_OK
                                 : anywhere || is_start(kind, start) ? FACET_NO_SPACE
                                                                     : FACET_OUT_OF_RANGE;

    assert_int_equal(create_partition(instance, 0, mig->templates[kind], start, &info, NULL), expected);
    if (!allowed)
        return;
    assert_true(anywhere || info.start == start);
    assert_true(oracle_allows(oracle, kind, info.start));
    assert_int_equal(info.compute_units, mig->units[kind]);
    oracle->partitions[oracle->count].kind = kind;
    oracle->partitions[oracle->count].start = info.start;
    memcpy(oracle->partitions[oracle->count++].uuid, info.uuid, sizeof info.uuid);
}

static void step_destroy(struct facet_provider_instance *instance, struct oracle *oracle, unsigned which)
{
    assert_int_equal(sim_partition_ops.destroy(instance, 0, oracle->partitions[which].uuid, NULL), FACET_OK);
    assert_int_equal(sim_partition_ops.destroy(instance, 0, oracle->partitions[which].uuid, NULL), FACET_NOT_FOUND);
    oracle->partitions[which] = oracle->partitions[--oracle->count];
}

static void random_steps(const struct mig_profile *mig, unsigned short seed)
{
    struct facet_provider_instance *instance = open_machine(mig->profile, NULL, NULL);
    struct oracle oracle = {0};
    unsigned short random[3] = {seed, 0x1234, 0x5678};
    unsigned created = 0, refused = 0, destroyed = 0;

    for (unsigned step = 0; step < STEPS; step++) {
        unsigned kind = (unsigned)nrand48(random) % KINDS, before = oracle.count;

        if (oracle.count > 0 && (unsigned)nrand48(random) % 5 < 2) {
            step_destroy(instance, &oracle, (unsigned)nrand48(random) % oracle.count);
            destroyed++;
        } else {
            unsigned start = (unsigned)nrand48(random) % 10;

            step_create(instance, mig, &oracle, kind, start < 9 ? start : FACET_PLACEMENT_ANY);
            created += oracle.count > before;
            refused += oracle.count == before;
        }
        check_placements(instance, mig, &oracle, (kind + step) % KINDS);
        check_list(instance, mig, &oracle);
    }
    assert_true(created > STEPS / 20 && destroyed > STEPS / 20 && refused > STEPS / 20); /* all were frequent */
    sim_device_ops.close(instance);
}

static void random_steps_never_violate_the_rules(void **state)
{
    for (unsigned i = 0; i < sizeof mig_profiles / sizeof mig_profiles[0]; i++)
        random_steps(&mig_profiles[i], (unsigned short)(7 + i));
}

/* --- Cases by hand. --- */

static void four_and_three_fill_the_device(void **state)
{
    struct facet_provider_instance *instance = open_machine("a100-40gb", NULL, NULL);
    struct facet_partition_info info;

    assert_int_equal(create_partition(instance, 0, "4g.20gb", FACET_PLACEMENT_ANY, &info, NULL), FACET_OK);
    assert_int_equal(info.start, 0);
    assert_int_equal(create_partition(instance, 0, "3g.20gb", FACET_PLACEMENT_ANY, &info, NULL), FACET_OK);
    assert_int_equal(info.start, 4);
    assert_refused(create_partition(instance, 0, "1g.5gb", 6, &info, &error), FACET_NO_SPACE, info.uuid);
    assert_refused(create_partition(instance, 0, "1g.5gb", FACET_PLACEMENT_ANY, &info, &error), FACET_NO_SPACE,
                   "slices");
    sim_device_ops.close(instance);
}

static void every_template_reaches_its_count(void **state)
{
    static const char *const profiles[] = {"a100-40gb", "h100", "h200", "h200x8", "dual-socket", "mi300x"};

    for (unsigned i = 0; i < sizeof profiles / sizeof profiles[0]; i++) {
        struct facet_provider_instance *instance = open_machine(profiles[i], NULL, NULL);
        struct facet_partition_template templates[32];
        struct facet_partition_info info;
        uint32_t count = 0, most = 0;

        assert_int_equal(sim_partition_ops.templates(instance, 0, templates, sizeof *templates, 32, &count, NULL),
                         FACET_OK);
        assert_true(count >= 7);
        for (uint32_t j = 0; j < count; j++) {
            uint32_t made = 0;

            while (create_partition(instance, 0, templates[j].id, FACET_PLACEMENT_ANY, &info, NULL) == FACET_OK)
                made++;
            assert_int_equal(made, templates[j].max_count);
            most = made > most ? made : most;
            struct facet_partition_info infos[64];
            for (uint32_t k = list_partitions(instance, 0, infos); k-- > 0;)
                assert_int_equal(sim_partition_ops.destroy(instance, 0, infos[k].uuid, NULL), FACET_OK);
        }
        assert_int_equal(sim_device_info(instance, 0)->max_partitions, most);
        sim_device_ops.close(instance);
    }
}

static void media_extensions_are_in_one_partition_only(void **state)
{
    struct facet_provider_instance *instance = open_machine("a100-40gb", NULL, NULL);
    struct facet_partition_info info;

    assert_int_equal(create_partition(instance, 0, "1g.5gb+me", 2, &info, NULL), FACET_OK);
    assert_refused(create_partition(instance, 0, "1g.5gb+me", 3, &info, &error), FACET_NO_SPACE, "expected fewer");
    assert_int_equal(create_partition(instance, 0, "1g.5gb", 3, &info, NULL), FACET_OK);
    sim_device_ops.close(instance);
}

static void placement_anywhere_leaves_room_for_larger_ones(void **state)
{
    struct facet_provider_instance *instance = open_machine("a100-40gb", NULL, NULL);
    struct facet_partition_info info;

    /* A 1g placed anywhere must leave room for a 4g and a 2g. */
    assert_int_equal(create_partition(instance, 0, "1g.5gb", FACET_PLACEMENT_ANY, &info, NULL), FACET_OK);
    assert_int_equal(info.start, 6);
    assert_int_equal(create_partition(instance, 0, "2g.10gb", FACET_PLACEMENT_ANY, &info, NULL), FACET_OK);
    assert_int_equal(info.start, 4);
    assert_int_equal(create_partition(instance, 0, "4g.20gb", FACET_PLACEMENT_ANY, &info, NULL), FACET_OK);
    sim_device_ops.close(instance);
}

static void modes_exclude_each_other(void **state)
{
    struct facet_provider_instance *instance = open_machine("mi300x", NULL, NULL);
    struct facet_partition_info info;
    struct facet_partition_placement placements[8];
    uint32_t count;

    assert_int_equal(create_partition(instance, 0, "cpx-nps4", 3, &info, NULL), FACET_OK);
    assert_int_equal(info.compute_units, 38);
    assert_int_equal(info.memory_bytes, UINT64_C(24) << 30);
    assert_refused(create_partition(instance, 0, "qpx-nps4", 6, &info, &error), FACET_BAD_STATE, "mode cpx-nps4");
    assert_refused(create_partition(instance, 0, "cpx-nps1", FACET_PLACEMENT_ANY, &info, &error), FACET_BAD_STATE,
                   "mode");
    assert_int_equal(
        sim_partition_ops.placements(instance, 0, "dpx-nps2", placements, sizeof *placements, 8, &count, NULL),
        FACET_OK);
    assert_int_equal(count, 2);
    assert_int_equal(placements[0].free + placements[1].free, 0);
    assert_int_equal(create_partition(instance, 0, "cpx-nps4", 4, &info, NULL), FACET_OK);
    /* The driver allows no memory in four parts with compute in one or two. */
    assert_int_equal(create_partition(instance, 0, "spx-nps4", 0, &info, NULL), FACET_NOT_FOUND);
    assert_int_equal(create_partition(instance, 0, "dpx-nps4", 0, &info, NULL), FACET_NOT_FOUND);
    sim_device_ops.close(instance);
}

static void a_device_in_use_is_not_partitioned(void **state)
{
    struct facet_provider_instance *instance = open_machine("h100", NULL, NULL);
    struct facet_partition_placement placement[2];
    struct facet_partition_info info, infos[64];
    uint32_t count;

    engine_double.uses_device = true;
    assert_refused(create_partition(instance, 0, "3g.40gb", 0, &info, &error), FACET_BUSY, "as a whole");
    assert_int_equal(
        sim_partition_ops.placements(instance, 0, "3g.40gb", placement, sizeof *placement, 2, &count, NULL), FACET_OK);
    assert_int_equal(placement[0].free, 0);
    engine_double.uses_device = false;
    assert_int_equal(create_partition(instance, 0, "3g.40gb", 0, &info, NULL), FACET_OK);
    engine_double.uses_device = true;
    engine_double.partition = info.uuid;
    assert_refused(sim_partition_ops.destroy(instance, 0, info.uuid, &error), FACET_BUSY, info.uuid);
    assert_int_equal(list_partitions(instance, 0, infos), 1);
    assert_int_equal(infos[0].in_use, 1);
    assert_int_equal(create_partition(instance, 0, "3g.40gb", 4, &infos[1], NULL), FACET_OK); /* beside one in use */
    engine_double.partition = NULL;
    assert_int_equal(sim_partition_ops.destroy(instance, 0, info.uuid, NULL), FACET_OK);
    sim_device_ops.close(instance);
}

static void a_limited_device_is_not_partitioned(void **state)
{
    struct facet_provider_instance *instance = open_machine("h100", NULL, NULL);
    struct facet_partition_info info;

    assert_int_equal(sim_limit_ops.set_compute(instance, 0, "anna", 300, NULL), FACET_OK);
    assert_refused(create_partition(instance, 0, "1g.10gb", 0, &info, &error), FACET_BUSY, "anna");
    assert_int_equal(sim_limit_ops.clear(instance, 0, "anna", NULL), FACET_OK);
    assert_int_equal(create_partition(instance, 0, "1g.10gb", 0, &info, NULL), FACET_OK);
    sim_device_ops.close(instance);
}

static void bad_arguments_are_refused(void **state)
{
    struct facet_provider_instance *instance = open_machine("a100-40gb", NULL, NULL);
    struct facet_partition_info info = {.size = sizeof info}, untouched = {.size = sizeof info, .start = 4711};
    struct facet_partition_template template;
    uint32_t count = 4711;

    assert_refused(create_partition(instance, 1, "1g.5gb", 0, &info, &error), FACET_NOT_FOUND, "device 1");
    assert_refused(create_partition(instance, 0, "9g.99gb", 0, &info, &error), FACET_NOT_FOUND, "9g.99gb");
    assert_refused(create_partition(instance, 0, "2g.10gb", 1, &untouched, &error), FACET_OUT_OF_RANGE, "start 1");
    assert_int_equal(untouched.start, 4711);
    assert_refused(sim_partition_ops.create(instance, 0, NULL, 0, &info, &error), FACET_INVALID_ARGUMENT,
                   "template_id");
    assert_refused(sim_partition_ops.create(instance, 0, "1g.5gb", 0, NULL, &error), FACET_INVALID_ARGUMENT,
                   "ret_info");
    assert_refused(sim_partition_ops.destroy(instance, 0, NULL, &error), FACET_INVALID_ARGUMENT, "uuid");
    assert_refused(sim_partition_ops.destroy(instance, 0, "", &error), FACET_NOT_FOUND, "partition");
    assert_int_equal(sim_partition_ops.templates(instance, 0, NULL, sizeof template, 0, &count, NULL), FACET_TOO_SMALL);
    assert_int_equal(count, 7);
    info.size = 2;
    assert_int_equal(sim_partition_ops.create(instance, 0, "1g.5gb", 0, &info, NULL), FACET_INVALID_ARGUMENT);
    info.size = offsetof(struct facet_partition_info, uuid); /* an older, shorter struct */
    memset(info.uuid, 'x', sizeof info.uuid);
    assert_int_equal(sim_partition_ops.create(instance, 0, "1g.5gb", 5, &info, NULL), FACET_OK);
    assert_int_equal(info.size, offsetof(struct facet_partition_info, uuid));
    assert_int_equal(info.start, 5);
    assert_int_equal(info.uuid[0], 'x');
    sim_device_ops.close(instance);
    instance = open_machine("ascend910b", NULL, NULL);
    assert_refused(create_partition(instance, 0, "1g.5gb", 0, &untouched, &error), FACET_UNSUPPORTED, "partitioned");
    sim_device_ops.close(instance);
}

/* --- Many threads on one instance. --- */

#define THREADS 8
#define TRIES   1000000

static void *create_list_destroy(void *argument)
{
    struct facet_provider_instance *instance = argument;
    uintptr_t made = 0;

    for (unsigned i = 0; i < TRIES && made < 100; i++) {
        struct facet_partition_info info, infos[64];
        struct facet_event events[256];
        uint32_t count = 0, health;

        if (create_partition(instance, 0, i % 2 ? "1g.10gb" : "2g.20gb", FACET_PLACEMENT_ANY, &info, NULL) !=
            FACET_OK) {
            sched_yield(); /* other threads have all slices */
            continue;
        }
        made++;
        sim_partition_ops.list(instance, 0, infos, sizeof *infos, 64, &count, NULL);
        for (uint32_t j = 1; j < count; j++)
            if (infos[j - 1].start + infos[j - 1].length > infos[j].start)
                return NULL;
        sim_device_ops.events(instance, 0, events, sizeof *events, 256, &count, NULL);
        sim_device_ops.health(instance, 0, &health, NULL);
        if (sim_partition_ops.destroy(instance, 0, info.uuid, NULL) != FACET_OK)
            return NULL; /* no other thread knows this partition */
    }
    return (void *)made;
}

static void threads_do_not_break_the_rules(void **state)
{
    struct facet_provider_instance *instance = open_machine("h100", NULL, NULL);
    struct facet_partition_info infos[64];
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, create_list_destroy, instance), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *made;

        assert_int_equal(pthread_join(threads[i], &made), 0);
        assert_int_equal((uintptr_t)made, 100); /* the thread made all its partitions without an error */
    }
    assert_int_equal(list_partitions(instance, 0, infos), 0);
    sim_device_ops.close(instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_and_three_fill_the_device),
        cmocka_unit_test(every_template_reaches_its_count),
        cmocka_unit_test(media_extensions_are_in_one_partition_only),
        cmocka_unit_test(placement_anywhere_leaves_room_for_larger_ones),
        cmocka_unit_test(modes_exclude_each_other),
        cmocka_unit_test(a_device_in_use_is_not_partitioned),
        cmocka_unit_test(a_limited_device_is_not_partitioned),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(random_steps_never_violate_the_rules),
        cmocka_unit_test(threads_do_not_break_the_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
