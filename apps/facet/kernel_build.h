/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that `facet compile` and `facet kernel run` share: a source, the options to compile it with, the image.
 *
 * Owns: the compiler's options on the command line, reading and writing whole files.
 * Never: prints the compiler's remarks (kernel_view.h).
 */
#ifndef FACET_KERNEL_BUILD_H
#define FACET_KERNEL_BUILD_H

#include <stddef.h>

#include <facet/kernel.h>

#include "command.h"

/* The letters and words of the options that kernel_build_option() takes. */
#define KERNEL_BUILD_LETTERS "O:D:I:"
#define KERNEL_BUILD_WORDS                                                                                             \
    {"target", required_argument, NULL, OPTION_TARGET}, {"std", required_argument, NULL, OPTION_STD},                  \
        {"check", no_argument, NULL, OPTION_CHECK},                                                                    \
    {                                                                                                                  \
        "no-cache", no_argument, NULL, OPTION_NO_CACHE                                                                 \
    }

/* The options of KERNEL_BUILD_LETTERS that may be given several times. */
#define KERNEL_BUILD_REPEATS "-D", "-I"

struct kernel_text {
    char *bytes; /* with a NUL behind them */
    size_t size;
};

struct kernel_build {
    const char *target; /* NULL: the default */
    uint32_t optimize;
    bool check, no_cache;
    const char *compile_option; /* the first given option that only matters for a source; NULL: none */
    char **arguments;           /* NULL-terminated */
    size_t argument_count;
};

/* Takes one option. False: it is not an option of the compiler. *ret_wrong: its value was refused. */
bool kernel_build_option(const struct command *self, struct kernel_build *build, int option, bool *ret_wrong);

/* Cuts the words behind "--" off the command line and takes them as the compiler's arguments. False: out of memory. */
bool kernel_build_take_rest(struct kernel_build *build, int *argc, char **argv);
void kernel_build_clear(struct kernel_build *build);
#define KERNEL_BUILD_CLEANUP __attribute__((cleanup(kernel_build_clear)))

/* A whole regular file; "-" is standard input. FACET_IO, FACET_NOT_FOUND, ... */
enum facet_status kernel_text_read(const char *path, struct kernel_text *ret_text, struct facet_error *error);
/* Replaces the file as a whole: after a failure its earlier content is still there. */
enum facet_status kernel_text_write(const char *path, const void *bytes, size_t size, struct facet_error *error);
/* Whether writing `output` would overwrite the source: by name, by a link, or through standard input. */
bool kernel_text_is_same(const char *source, const char *output);
static inline void kernel_text_clear(struct kernel_text *text)
{
    free(text->bytes);
}
#define KERNEL_TEXT_CLEANUP __attribute__((cleanup(kernel_text_clear)))

/* Compiles. After FACET_CORRUPT, an image may hold the compiler's remarks. */
enum facet_status kernel_build_compile(const struct kernel_build *build, const char *name,
                                       const struct kernel_text *source, struct facet_image **ret_image,
                                       struct facet_error *error);

/*
 * Refuses options of the compiler that were given with an image, which they cannot affect. FACET_INVALID_ARGUMENT names
 * the option.
 */
enum facet_status kernel_build_refuse_options(const struct kernel_build *build, const char *image,
                                              struct facet_error *error);

/* Replaces the library's name of the argument at fault by the user's: `source`, or an option. */
void kernel_build_blame(const char *source, struct facet_error *error);

static inline void kernel_image_cleanup(struct facet_image **image)
{
    facet_image_destroy(*image);
}
#define KERNEL_IMAGE_CLEANUP __attribute__((cleanup(kernel_image_cleanup)))

#endif
