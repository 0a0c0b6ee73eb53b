/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: which of clang's and clBuildProgram's options are accepted, and the arguments that clang gets in addition.
 * Never: passes an unknown option on: clang's front end has thousands of options, some of which write files.
 */
#include <stdlib.h>
#include <string.h>

#include "kernel/compile/compile.h"

enum { OWN_ARGUMENTS = 64 };

/* Options without a value. OpenCL's options that only allow things that are done anyway are accepted and dropped. */
static const struct {
    const char *text;
    bool is_dropped;
} flags[] = {
    {"-w", false},
    {"-cl-single-precision-constant", false},
    {"-cl-denorms-are-zero", true},
    {"-cl-mad-enable", false},
    {"-cl-no-signed-zeros", false},
    {"-cl-unsafe-math-optimizations", false},
    {"-cl-finite-math-only", false},
    {"-cl-fast-relaxed-math", false},
    {"-cl-fp32-correctly-rounded-divide-sqrt", false},
    {"-cl-kernel-arg-info", true},
    {"-cl-strict-aliasing", true},
    {"-cl-uniform-work-group-size", true},
    {"-cl-no-subgroup-ifp", true},
};

/* Options whose value is the next word; the first three may have it in the same word, too. */
static const char *const separable[] = {"-D", "-U", "-I", "-include"};

static bool begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void add_argument(struct facet_compilation *compilation, const char *argument)
{
    compilation->arguments[compilation->argument_count++] = argument;
}

static enum facet_status refuse_argument(const char *argument, const char *expected, struct facet_error *error)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "arguments", "argument '%.80s': expected %s", argument,
                                expected);
}

static bool take_flag(struct facet_compilation *compilation, const char *argument)
{
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (strcmp(argument, flags[i].text) != 0)
            continue;
        if (!flags[i].is_dropped)
            add_argument(compilation, argument);
        return true;
    }
    /* -Wl, -Wp and -Wa pass words on to other programs. */
    if (!begins_with(argument, "-W") || (argument[2] && argument[3] == ','))
        return false;
    add_argument(compilation, argument);
    return true;
}

/* Of several -O the last counts, unless the request gives a level, which counts more. */
static bool take_level(struct facet_compilation *compilation, const char *argument)
{
    uint32_t level;

    if (strcmp(argument, "-cl-opt-disable") == 0)
        level = 0;
    else if (strcmp(argument, "-O") == 0)
        level = 1;
    else if (begins_with(argument, "-O") && argument[2] >= '0' && argument[2] <= '3' && !argument[3])
        level = (uint32_t)(argument[2] - '0');
    else
        return false;
    if (compilation->request->optimize == FACET_OPTIMIZE_DEFAULT)
        compilation->optimize = level;
    return true;
}

static bool take_standard(struct facet_compilation *compilation, const char *argument, bool *known)
{
    static const char *const standards[] = {"CL", "CL1.0", "CL1.1", "CL1.2", "CL3.0"};
    const char *value = strchr(argument, '=');

    if (!begins_with(argument, "-cl-std="))
        return false;
    *known = false;
    for (size_t i = 0; i < sizeof standards / sizeof standards[0]; i++)
        *known |= strcasecmp(value + 1, standards[i]) == 0;
    if (*known)
        add_argument(compilation, argument);
    return true;
}

/* How many words the option and its value are; 0: the argument is another option. */
static uint32_t take_separable(struct facet_compilation *compilation, const char *const *arguments)
{
    for (size_t i = 0; i < sizeof separable / sizeof separable[0]; i++) {
        if (!begins_with(arguments[0], separable[i]))
            continue;
        bool joined = arguments[0][strlen(separable[i])] != '\0';
        if (joined && strcmp(separable[i], "-include") == 0)
            return 0;
        if (!joined && !arguments[1])
            return 0;
        add_argument(compilation, arguments[0]);
        if (!joined)
            add_argument(compilation, arguments[1]);
        return joined ? 1 : 2;
    }
    return 0;
}

/* *ret_words: how many words of the list were used. */
static enum facet_status take_arguments(struct facet_compilation *compilation, const char *const *arguments,
                                        uint32_t *ret_words, struct facet_error *error)
{
    bool known = true;

    *ret_words = 1;
    if (take_flag(compilation, arguments[0]) || take_level(compilation, arguments[0]))
        return FACET_OK;
    if (take_standard(compilation, arguments[0], &known))
        return known ? FACET_OK : refuse_argument(arguments[0], "CL1.0, CL1.1, CL1.2 or CL3.0", error);
    *ret_words = take_separable(compilation, arguments);
    return *ret_words
               ? FACET_OK
               : refuse_argument(arguments[0],
                                 "an option of clBuildProgram, or -D, -U, -I, -include, -O0 to -O3, -W, -w", error);
}

static void add_fixed_arguments(struct facet_compilation *compilation)
{
    static const char *const always[] = {
        "-emit-llvm-only",
        "-disable-llvm-passes",
        "-disable-llvm-verifier", /* source.c runs the verifier itself and reports its message */
        "-disable-O0-optnone",
        "-discard-value-names",
        "-fdeclare-opencl-builtins",
        "-cl-kernel-arg-info",
        "-ffp-contract=on",
        "-fno-threadsafe-statics",
        "-ferror-limit",
        "100",
        "-nostdsysteminc",
        "-cl-std=CL1.2"};
    const struct facet_compile_flavour *flavour = compilation->flavour;

    add_argument(compilation, "-triple");
    add_argument(compilation, flavour->source_triple);
    if (compilation->family == FACET_COMPILE_AMDGCN) {
        add_argument(compilation, "-target-cpu");
        add_argument(compilation, compilation->processor);
    }
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        add_argument(compilation, always[i]);
    for (size_t i = 0; flavour->arguments[i]; i++)
        add_argument(compilation, flavour->arguments[i]);
}

static void add_level(struct facet_compilation *compilation)
{
    static const char *const levels[] = {"-O0", "-O1", "-O2", "-O3"};

    add_argument(compilation, levels[compilation->optimize]);
    if (compilation->request->check)
        add_argument(compilation, "-debug-info-kind=line-tables-only");
}

enum facet_status facet_compile_arguments(struct facet_compilation *compilation, struct facet_error *error)
{
    const char *const *given = compilation->request->arguments;
    uint32_t asked = compilation->request->optimize, count = 0, words = 0;

    while (given && given[count])
        count++;
    compilation->arguments = calloc(count + OWN_ARGUMENTS, sizeof *compilation->arguments);
    if (!compilation->arguments)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %u arguments", count);
    compilation->optimize = asked == FACET_OPTIMIZE_DEFAULT ? 3 : asked - 1;
    add_fixed_arguments(compilation);
    for (uint32_t i = 0; i < count; i += words) {
        enum facet_status status = take_arguments(compilation, given + i, &words, error);
        if (status != FACET_OK)
            return status;
    }
    add_level(compilation);
    return FACET_OK;
}
