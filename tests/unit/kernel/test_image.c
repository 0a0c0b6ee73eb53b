/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of reading images from bytes: of their formats and descriptions, and of what is refused. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/image.h"

#define KERNELS                                                                                                        \
    "{\"target\": \"host:znver5\", \"features\": \"avx2,fma\", \"kernels\": [{\"name\": \"scan\", "                    \
    "\"argument_bytes\": 32, \"local_bytes\": 256, \"scratch_fixed_bytes\": 64, \"scratch_item_bytes\": 16, "          \
    "\"required_group_size\": [64, 1, 1], \"flags\": [\"barriers\", \"unheard_of\"], \"arguments\": ["                 \
    "{\"name\": \"n\", \"type\": \"int\", \"kind\": \"value\", \"offset\": 0, \"bytes\": 4, \"access\": []}, "         \
    "{\"name\": \"x\", \"type\": \"float*\", \"kind\": \"global\", \"offset\": 8, \"bytes\": 8, \"access\": "          \
    "[\"read\", \"write\"]}, "                                                                                         \
    "{\"name\": \"t\", \"type\": \"float*\", \"kind\": \"local\", \"offset\": 16, \"bytes\": 4}, "                     \
    "{\"name\": \"s\", \"type\": \"sampler_t\", \"kind\": \"sampler\", \"offset\": 20, \"bytes\": 4}, "                \
    "{\"name\": \"i\", \"type\": \"image2d_t\", \"kind\": \"image\", \"offset\": 24, \"bytes\": 8, \"access\": "       \
    "[\"write\"]}]}, {\"name\": \"nothing\", \"argument_bytes\": 0, \"arguments\": []}]}"

/* An ELF object: the section table comes first, the sections' names are behind it, and the description is last. */
struct object {
    Elf64_Ehdr header;
    Elf64_Shdr sections[3];
    char names[32];
    char text[4096];
};

static size_t make_object(const char *description, struct object *object)
{
    static const char names[] = "\0.names\0" FACET_HOST_IMAGE_SECTION;
    size_t length = strlen(description);

    *object = (struct object){.header = {.e_shoff = offsetof(struct object, sections),
                                         .e_shentsize = sizeof(Elf64_Shdr),
                                         .e_shnum = 3,
                                         .e_shstrndx = 1}};
    memcpy(object->header.e_ident, ELFMAG, SELFMAG);
    object->header.e_ident[EI_CLASS] = ELFCLASS64;
    object->header.e_ident[EI_DATA] = ELFDATA2LSB;
    memcpy(object->names, names, sizeof names);
    memcpy(object->text, description, length);
    object->sections[1] = (Elf64_Shdr){
        .sh_name = 1, .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct object, names), .sh_size = sizeof names};
    object->sections[2] = (Elf64_Shdr){
        .sh_name = 8, .sh_type = SHT_PROGBITS, .sh_offset = offsetof(struct object, text), .sh_size = length};
    return offsetof(struct object, text) + length;
}

static void check_scan(const struct facet_image *image)
{
    const struct facet_host_kernel *kernel = facet_image_find(image, "scan");

    assert_non_null(kernel);
    assert_ptr_equal(kernel, facet_image_kernel(image, 0));
    assert_string_equal(facet_image_kernel(image, 1)->name, "nothing");
    assert_null(facet_image_kernel(image, 2));
    assert_null(facet_image_find(image, "sca"));
    assert_null(kernel->run);
    assert_int_equal(kernel->argument_count, 5);
    assert_int_equal(kernel->argument_bytes, 32);
    assert_int_equal(kernel->local_bytes, 256);
    assert_int_equal(kernel->scratch_fixed_bytes, 64);
    assert_int_equal(kernel->scratch_item_bytes, 16);
    assert_int_equal(kernel->required_group_size[0], 64);
    assert_int_equal(kernel->flags, FACET_HOST_BARRIERS);
    assert_string_equal(kernel->arguments[1].name, "x");
    assert_string_equal(kernel->arguments[1].type, "float*");
    assert_int_equal(kernel->arguments[1].offset, 8);
    assert_int_equal(kernel->arguments[1].access, FACET_ARGUMENT_READS | FACET_ARGUMENT_WRITES);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(kernel->arguments[i].kind,
                         ((const uint32_t[]){FACET_ARGUMENT_VALUE, FACET_ARGUMENT_GLOBAL, FACET_ARGUMENT_LOCAL,
                                             FACET_ARGUMENT_SAMPLER, FACET_ARGUMENT_IMAGE})[i]);
    assert_int_equal(kernel->arguments[4].access, FACET_ARGUMENT_WRITES);
}

static void an_object_lists_its_kernels(void **state)
{
    struct facet_image *image = NULL;
    struct object object;
    size_t size = make_object(KERNELS, &object), kept = 0;

    assert_int_equal(facet_image_parse(&object, size, &image, NULL), FACET_OK);
    assert_string_equal(facet_image_target(image), "host:znver5");
    assert_memory_equal(facet_image_bytes(image, &kept), &object, size);
    assert_int_equal(kept, size);
    check_scan(image);
    facet_image_destroy(image);
    facet_image_destroy(NULL);
}

static void ptx_has_its_description_in_the_last_lines(void **state)
{
    static const char *const good[] = {
        "// made\n.version 8.0\n.target sm_90\n// facet: " KERNELS "\n",
        "\n.version 8.0\n// facet: " KERNELS "\n\n",
        ".version 8.0\n// facet: {\"target\":\n// facet: \"sm_90\", \"kernels\": []}",
    };

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct facet_image *image = NULL;

        assert_int_equal(facet_image_parse(good[i], strlen(good[i]), &image, NULL), FACET_OK);
        if (i < 2)
            check_scan(image);
        else
            assert_string_equal(facet_image_target(image), "ptx:sm_90");
        facet_image_destroy(image);
    }
}

static void spirv_is_known_without_a_description(void **state)
{
    const uint32_t module[6] = {0x07230203, 0x00010100, 0, 8, 0, 0};
    struct facet_image *image = NULL;

    assert_int_equal(facet_image_parse(module, sizeof module, &image, NULL), FACET_OK);
    assert_string_equal(facet_image_target(image), "spirv:1.1");
    assert_null(facet_image_kernel(image, 0));
    facet_image_destroy(image);
    assert_int_equal(facet_image_parse(module, 18, &image, NULL), FACET_CORRUPT);
    assert_int_equal(facet_image_parse(module, 16, &image, NULL), FACET_CORRUPT);
}

static void expect_corrupt(const void *bytes, size_t size, const char *fragment)
{
    struct facet_image *image = NULL;
    struct facet_error error = {0};

    assert_int_equal(facet_image_parse(bytes, size, &image, &error), FACET_CORRUPT);
    assert_null(image);
    assert_string_equal(error.argument, "image");
    if (!strstr(error.message, fragment))
        fail_msg("'%s' does not say '%s'", error.message, fragment);
}

static void damaged_objects_are_refused(void **state)
{
    struct object object;
    size_t size = make_object(KERNELS, &object);

    expect_corrupt(&object, 40, "header");
    expect_corrupt(&object, size - 1, "section that is not inside");
    expect_corrupt(&object, sizeof object.header + 10, "section table is not inside");
    object.header.e_ident[EI_CLASS] = ELFCLASS32;
    expect_corrupt(&object, size, "64-bit");
    make_object(KERNELS, &object);
    object.header.e_shstrndx = 3;
    expect_corrupt(&object, size, "table of section names");
    make_object(KERNELS, &object);
    object.header.e_shoff = UINT64_MAX - 8;
    expect_corrupt(&object, size, "section table");
    make_object(KERNELS, &object);
    object.sections[2].sh_offset = UINT64_MAX;
    expect_corrupt(&object, size, "section that is not inside");
    make_object(KERNELS, &object);
    object.sections[2].sh_name = UINT32_MAX;
    expect_corrupt(&object, size, "without the section");
    make_object(KERNELS, &object);
    object.names[8] = 'x';
    expect_corrupt(&object, size, FACET_HOST_IMAGE_SECTION);
    object.header.e_shnum = 0;
    expect_corrupt(&object, size, "section names");
}

static void other_files_are_refused(void **state)
{
    expect_corrupt("", 0, "neither");
    expect_corrupt("kernel void k() {}", 18, "neither");
    expect_corrupt(".version 8.0\n.target sm_90\n", 27, "// facet:");
    expect_corrupt("\x07\x23\x02\x03................", 20, "big-endian");
}

/* The description holds each `from` once; the test replaces it with `to`. */
static void wrong_descriptions_are_refused(void **state)
{
    static const struct {
        const char *from, *to, *fragment;
    } bad[] = {
        {"{\"target\"", "[\"target\"", "not JSON"},
        {"host:znver5", "sparc", "target 'sparc'"},
        {"\"kernels\": [", "\"kernel\": [", "kernels: expected a list"},
        {"\"name\": \"scan\"", "\"name\": \"nothing\"", "name: expected a name that no other kernel has"},
        {"\"name\": \"scan\"", "\"name\": \"\"", "name: expected a text"},
        {"\"name\": \"scan\"", "\"name\": 5", "name: expected a text"},
        {"\"name\": \"n\"", "\"name\": \"a\\u001b\"", "name: expected a text without control"},
        {"\"argument_bytes\": 32", "\"argument_bytes\": 31", "offset: expected arguments one after"},
        {"\"argument_bytes\": 32", "\"argument_bytes\": -1", "argument_bytes: expected a whole number"},
        {"\"argument_bytes\": 32", "\"argument_bytes\": 65537",
         "argument_bytes: expected a whole number from 0 to 65536"},
        {"\"argument_bytes\": 32", "\"argument_bytes\": 32.5", "argument_bytes: expected a whole number"},
        {"\"argument_bytes\": 32, ", "", "argument_bytes: expected a whole number"},
        {"\"local_bytes\": 256", "\"local_bytes\": 2147483648",
         "local_bytes: expected a whole number from 0 to 2147483647"},
        {"[64, 1, 1]", "[64, 1]", "required_group_size: expected three"},
        {"[64, 1, 1]", "[64, 0, 1]", "required_group_size: expected three numbers that are all"},
        {"[64, 1, 1]", "[4097, 1, 1]", "required_group_size: expected three"},
        {"[\"barriers\", \"unheard_of\"]", "[1]", "flags: expected"},
        {"\"kind\": \"value\"", "\"kind\": \"magic\"", "kind: expected value, global"},
        {"\"offset\": 8, \"bytes\": 8", "\"offset\": 8, \"bytes\": 4", "bytes: expected 8 for memory"},
        {"\"offset\": 8", "\"offset\": 3", "offset: expected"},
        {"\"offset\": 24", "\"offset\": 4294967295", "offset: expected"},
        {"\"arguments\": []", "\"arguments\": {}", "arguments: expected a list"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *at = strstr(KERNELS, bad[i].from);
        char text[4096];

        assert_non_null(at);
        snprintf(text, sizeof text, ".version 8.0\n// facet: %.*s%s%s", (int)(at - KERNELS), KERNELS, bad[i].to,
                 at + strlen(bad[i].from));
        expect_corrupt(text, strlen(text), bad[i].fragment);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_lists_its_kernels),
        cmocka_unit_test(ptx_has_its_description_in_the_last_lines),
        cmocka_unit_test(spirv_is_known_without_a_description),
        cmocka_unit_test(damaged_objects_are_refused),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(wrong_descriptions_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
