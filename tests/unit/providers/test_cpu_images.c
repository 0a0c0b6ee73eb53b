/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tests of which OpenCL images a launch on the cpu provider accepts. Never: checks a pixel's color. */
#include "test_cpu_world.h"

#define MEMORY   (world.provider->memory)
#define INSTANCE world.instance

enum { PAGE = 4096, ORDER_R = 0x10b0, ORDER_RGB = 0x10b4, ORDER_RGBA = 0x10b5, ORDER_RGBX = 0x10bc };
enum { SNORM_INT8 = 0x10d0, UNORM_INT8 = 0x10d2, PACKED_565 = 0x10d4, PACKED_555, PACKED_101010, FLOAT = 0x10de };

static struct world world;
static char last_message[sizeof world.error.message]; /* the message of the last launch */
static uint64_t read_back, sound;                     /* memory that kernels write; a valid image */

struct picture {
    uint64_t image, more, read_back;
};

static int tear_down(void **state)
{
    (void)state;
    world_end(&world);
    return 0;
}

/* A plane of 32 rows of 32 pixels of 4 bytes, which fill a page. */
static struct facet_host_image_object plane_at(uint64_t pixels)
{
    return (struct facet_host_image_object){.pixels = pixels,
                                            .width = 32,
                                            .height = 32,
                                            .depth = 1,
                                            .array_size = 1,
                                            .row_bytes = 128,
                                            .slice_bytes = PAGE,
                                            .channel_order = ORDER_RGBA,
                                            .channel_type = UNORM_INT8};
}

/* Writes an image's description into the context's memory. */
static uint64_t describe_image(const struct facet_host_image_object *image)
{
    uint64_t address = world_alloc(&world, world.context, sizeof *image);

    OK(&world, MEMORY->write(INSTANCE, world.context, address, image, sizeof *image, &world.error));
    return address;
}

static int set_up(void **state)
{
    (void)state;
    world_begin(&world);
    world_load(&world, "test-cpu-kernels.so");
    const struct facet_host_image_object image = plane_at(world_alloc(&world, world.context, PAGE));
    read_back = world_alloc(&world, world.context, 8);
    sound = describe_image(&image);
    return 0;
}

static enum facet_status launch_with(uint64_t image, uint64_t more)
{
    const struct picture arguments = {image, more, read_back};
    const struct facet_launch launch = world_launch(&world, "picture", sizeof arguments, 1, 1);

    world.error.message[0] = '\0';
    enum facet_status status = world_run(&world, &launch, &arguments);
    memcpy(last_message, world.error.message, sizeof last_message);
    OK(&world, world_wait(&world));
    return status;
}

static void expect_accepted(const struct facet_host_image_object *image)
{
    uint64_t address = describe_image(image);

    if (launch_with(address, address) != FACET_OK)
        fail_msg("%s", last_message);
}

static void expect_refused(uint64_t address, const char *text)
{
    char second[64];

    assert_int_equal(launch_with(address, sound), FACET_OUT_OF_RANGE);
    if (!strstr(last_message, text) || !strstr(last_message, "argument 0 (image)"))
        fail_msg("'%s' does not say '%s'", last_message, text);
    snprintf(second, sizeof second, "argument 1 (more) of kernel picture is %#llx", (unsigned long long)address);
    assert_int_equal(launch_with(sound, address), FACET_OUT_OF_RANGE);
    assert_non_null(strstr(last_message, second));
}

static void expect_image_refused(const struct facet_host_image_object *image, const char *text)
{
    expect_refused(describe_image(image), text);
}

static void sound_images_are_accepted(void **state)
{
    struct facet_host_image_object image = plane_at(world_alloc(&world, world.context, PAGE));
    (void)state;

    expect_accepted(&image);
    image.height = image.depth = image.array_size = 0; /* a line, whose other sizes some programs leave 0 */
    image.width = PAGE / 4;
    image.row_bytes = image.slice_bytes = 0;
    expect_accepted(&image);
    image.width = 0;
    expect_accepted(&image);
}

static void memory_that_holds_no_image_is_refused(void **state)
{
    static const char no_image[] = "expected an image in memory of this context";
    struct facet_host_image_object image = plane_at(world_alloc(&world, world.context, PAGE));
    uint64_t address = describe_image(&image), numbers = world_alloc(&world, world.context, PAGE);
    (void)state;

    expect_refused(0, no_image);
    expect_refused(address + 4, no_image);
    expect_refused((uint64_t)&image, no_image);
    expect_refused(UINT64_MAX & ~UINT64_C(7), no_image);
    OK(&world,
       MEMORY->write(INSTANCE, world.context, numbers, "not an image, but text of some length ..", 41, &world.error));
    expect_refused(numbers, "channel order and type");
}

static void formats_without_a_number_in_opencl_are_refused(void **state)
{
    struct facet_host_image_object image = plane_at(world_alloc(&world, world.context, PAGE));
    static const uint32_t orders[] = {0, ORDER_R - 1, 0x10c4, UINT32_MAX},
                          types[] = {0, SNORM_INT8 - 1, 0x10df, UINT32_MAX};
    (void)state;

    for (int i = 0; i < 4; i++) {
        image.channel_order = orders[i];
        expect_image_refused(&image, "channel order and type");
        image.channel_order = ORDER_RGBA;
        image.channel_type = types[i];
        expect_image_refused(&image, "channel order and type");
        image.channel_type = UNORM_INT8;
    }
}

static void freed_and_others_memory_is_refused(void **state)
{
    uint64_t other = world_context(&world, "other"), theirs = world_alloc(&world, other, PAGE);
    uint64_t pixels = world_alloc(&world, world.context, PAGE);
    struct facet_host_image_object image = plane_at(theirs);
    (void)state;

    expect_image_refused(&image, "all of its pixels in memory of this context");
    image.pixels = pixels;
    OK(&world, MEMORY->write(INSTANCE, other, theirs, &image, sizeof image, &world.error));
    expect_refused(theirs, "expected an image in memory of this context"); /* another context's description */
    uint64_t address = describe_image(&image);
    OK(&world, MEMORY->free(INSTANCE, world.context, pixels, &world.error));
    expect_refused(address, "all of its pixels in memory of this context");
    OK(&world, MEMORY->free(INSTANCE, world.context, address, &world.error));
    expect_refused(address, "expected an image in memory of this context");
}

static void memory_that_is_too_small_is_refused(void **state)
{
    static const char pixels[] = "all of its pixels in memory of this context", overlap[] = "do not overlap";
    struct facet_host_image_object image = plane_at(world_alloc(&world, world.context, PAGE)), right = image;
    (void)state;

    image.height++;
    expect_image_refused(&image, pixels);
    image = right;
    image.pixels += 1;
    expect_image_refused(&image, pixels);
    image = right;
    image.channel_type = FLOAT;
    expect_image_refused(&image, overlap);
    image.row_bytes = 512;
    expect_image_refused(&image, pixels);
    image = right;
    image.row_bytes = 127;
    expect_image_refused(&image, overlap);
    image = right;
    image.depth = 2;
    expect_image_refused(&image, pixels);
    image.slice_bytes = PAGE - 1;
    expect_image_refused(&image, overlap);
    image = right;
    image.array_size = UINT32_MAX;
    expect_image_refused(&image, pixels);
    image.width = image.height = image.row_bytes = image.slice_bytes = UINT32_MAX;
    expect_image_refused(&image, overlap);
    image.height = image.array_size = image.depth = 1;
    expect_image_refused(&image, pixels);
}

/* A packed pixel is one number of 2 or 4 bytes: exactly a page is enough, and a byte less is not. */
static void packed_formats_have_their_exact_size(void **state)
{
    static const struct {
        uint32_t type, bytes;
    } formats[] = {{PACKED_565, 2}, {PACKED_555, 2}, {PACKED_101010, 4}};
    static const uint32_t orders[] = {ORDER_RGB, ORDER_RGBX};
    uint64_t pixels = world_alloc(&world, world.context, PAGE);
    (void)state;

    for (int i = 0; i < 6; i++) {
        struct facet_host_image_object image = plane_at(pixels);

        image.channel_order = orders[i % 2];
        image.channel_type = formats[i / 2].type;
        image.width = PAGE / 32 / formats[i / 2].bytes;
        expect_accepted(&image);
        image.width++;
        expect_image_refused(&image, "do not overlap");
        image.height = 1;
        image.width = PAGE / formats[i / 2].bytes;
        expect_accepted(&image);
        image.width++;
        expect_image_refused(&image, "all of its pixels");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sound_images_are_accepted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_that_holds_no_image_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(formats_without_a_number_in_opencl_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(freed_and_others_memory_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_that_is_too_small_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(packed_formats_have_their_exact_size, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
