/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of loading images on the cpu provider: valid ones, images with one wrong byte, and images cut short. */
#include "test_cpu_world.h"

static struct world world;

static int set_up(void **state)
{
    (void)state;
    world_begin(&world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_end(&world);
    return 0;
}

static enum facet_status load_image(const void *image, size_t size, uint64_t *ret_module)
{
    return world.provider->execution->load(world.instance, world.context, image, size, ret_module, &world.error);
}

static void unload_module(uint64_t module)
{
    OK(&world, world.provider->execution->unload(world.instance, world.context, module, &world.error));
}

static void each_loaded_image_is_an_object_of_its_own(void **state)
{
    uint64_t modules[20];
    (void)state;

    for (int i = 0; i < 20; i++) {
        OK(&world, world_try_load(&world, i % 2 ? "test-cpu-kernels.so" : "test-cpu-checked.so", &modules[i]));
        world.module = modules[i];
        struct facet_launch launch = world_launch(&world, i % 2 ? "store" : "saxpy", 0, 1, 1);
        assert_int_equal(world_run(&world, &launch, NULL), FACET_NOT_FOUND); /* the other module has that kernel */
    }
    for (int i = 0; i < 20; i++)
        unload_module(modules[i]);
}

/* Only bytes behind the image's last part may be missing: sections, which the provider does not read. */
static void a_cut_image_is_corrupt(void **state)
{
    size_t size = 0, refused = 0;
    unsigned char *image = world_file("test-cpu-kernels.so", &size);
    (void)state;

    for (size_t length = 0; length < size; length += length < 1024 ? 1 : 61) {
        uint64_t module = 0;
        unsigned char *cut = malloc(length ? length : 1);

        assert_non_null(cut);
        memcpy(cut, image, length);
        enum facet_status status = load_image(cut, length, &module);
        free(cut);
        if (status == FACET_OK)
            unload_module(module);
        else
            assert_int_equal(status, FACET_CORRUPT);
        refused = status == FACET_OK ? refused : length;
    }
    assert_true(refused > 4096); /* code and data */
    free(image);
}

/* Loading runs no code of an image: a wrong byte is refused, or has no effect before a launch. */
static void a_broken_byte_never_crashes(void **state)
{
    static const unsigned char masks[] = {0xff, 0x01, 0x80};
    size_t size = 0, refused = 0;
    unsigned char *image = world_file("test-cpu-kernels.so", &size);
    (void)state;

    for (size_t i = 0; i < size; i++) {
        uint64_t module = 0;
        unsigned char before = image[i];

        image[i] ^= masks[i % sizeof masks];
        enum facet_status status = load_image(image, size, &module);
        image[i] = before;
        if (status == FACET_OK)
            unload_module(module);
        else
            assert_int_equal(status, FACET_CORRUPT);
        refused += status != FACET_OK;
    }
    assert_true(refused > 200);
    free(image);
}

static void images_with_parts_that_no_kernel_uses_are_refused(void **state)
{
    uint64_t module = 1;
    (void)state;

    assert_int_equal(world_try_load(&world, "test-cpu-library.so", &module), FACET_CORRUPT);
    assert_int_equal(world_try_load(&world, "test-cpu-constructor.so", &module), FACET_CORRUPT);
    assert_int_equal(world_try_load(&world, "test-cpu-features.so", &module), FACET_CORRUPT);
    assert_non_null(strstr(world.error.message, "no_such_feature"));
    assert_int_equal(world_try_load(&world, "test-cpu-rows.so", &module), FACET_CORRUPT);
    assert_non_null(strstr(world.error.message, "rows"));
    assert_int_equal(module, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_loaded_image_is_an_object_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cut_image_is_corrupt, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_broken_byte_never_crashes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(images_with_parts_that_no_kernel_uses_are_refused, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
