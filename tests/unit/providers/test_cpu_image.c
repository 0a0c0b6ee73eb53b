/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of loading images on the cpu provider: valid ones, images with one wrong byte, and images cut short. */
#include <elf.h>

#include "../../effort.h"
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

/* Only the bytes behind the image's last part may be missing: they are sections, which the provider does not read. */
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
    assert_true(refused > 4096); /* the longest image that was refused has code and data */
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

/* The tables that relocations fill and change, by their headers. */
struct dynamic_table {
    uint64_t address, bytes;
    Elf64_Rela *relocations;
    size_t count;
};

static struct dynamic_table dynamic_table_of(unsigned char *image)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(image + header->e_phoff);
    struct dynamic_table table = {0};

    for (size_t i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type != PT_DYNAMIC)
            continue;
        table.address = segments[i].p_vaddr;
        table.bytes = segments[i].p_memsz;
        for (const Elf64_Dyn *entry = (const Elf64_Dyn *)(image + segments[i].p_offset); entry->d_tag; entry++) {
            if (entry->d_tag == DT_RELA) /* in the first part, whose addresses are offsets */
                table.relocations = (Elf64_Rela *)(image + entry->d_un.d_ptr);
            if (entry->d_tag == DT_RELASZ)
                table.count = entry->d_un.d_val / sizeof(Elf64_Rela);
        }
    }
    assert_true(table.bytes > 0 && table.count > 0);
    return table;
}

/* The loader reads the table again after it applied relocations: to find strings and symbols, for example. */
static void a_relocation_of_the_dynamic_table_is_refused(void **state)
{
    size_t size = 0;
    unsigned char *image = world_file("test-cpu-kernels.so", &size);
    struct dynamic_table table = dynamic_table_of(image);
    uint64_t module = 0;
    (void)state;

    for (uint64_t at = table.address - 7; at + sizeof(uint64_t) <= table.address + table.bytes; at++) {
        Elf64_Rela *relocation = &table.relocations[at % table.count];
        Elf64_Addr before = relocation->r_offset;

        relocation->r_offset = at;
        assert_int_equal(load_image(image, size, &module), FACET_CORRUPT);
        assert_non_null(strstr(world.error.message, "a relocation of its dynamic table"));
        relocation->r_offset = before;
    }
    OK(&world, load_image(image, size, &module));
    unload_module(module);
    free(image);
}

/* The index of a random word that is not 0. */
static size_t random_word(uint32_t *random, const uint64_t *words, size_t count)
{
    for (;;) {
        *random = *random * 1664525u + 1013904223u;
        size_t index = (*random >> 8) % count;

        if (words[index])
            return index;
    }
}

/*
 * A word of the image replaces another word. Most words are addresses and sizes that are valid elsewhere in the image,
 * so such an image passes the first checks more often than an image with a wrong byte.
 */
static void a_misplaced_word_never_crashes(void **state)
{
    size_t size = 0, loaded = 0;
    unsigned char *image = world_file("test-cpu-kernels.so", &size);
    uint64_t *words = (uint64_t *)image;
    uint32_t random = effort_seed(1), steps = effort(20000, 2000);
    (void)state;

    print_message("# seed %u\n", random);
    for (uint32_t i = 0; i < steps; i++) {
        uint64_t module = 0;
        size_t to = random_word(&random, words, size / sizeof *words);
        uint64_t before = words[to];

        words[to] = words[random_word(&random, words, size / sizeof *words)] + i % 2 * sizeof *words;
        enum facet_status status = load_image(image, size, &module);
        words[to] = before;
        if (status == FACET_OK)
            unload_module(module);
        else
            assert_int_equal(status, FACET_CORRUPT);
        loaded += status == FACET_OK;
    }
    assert_true(loaded > 0 && loaded < steps);
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
        cmocka_unit_test_setup_teardown(a_relocation_of_the_dynamic_table_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_misplaced_word_never_crashes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(images_with_parts_that_no_kernel_uses_are_refused, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
