/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: rewriting a module's text in one pass. Never: writes more bytes than it has allocated. */
#include "kernel/compile/remap.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The text grows at most by this factor: no replacement is twice as long as the word that it replaces. */
enum { GROWTH_FACTOR = 2 };

struct walk {
    const char *input, *input_start;
    char *output;
    const struct facet_remap *remap;
};

static bool is_word(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_' || letter == '.' || letter == '$' || letter == '@' ||
           letter == '%' || letter == '-';
}

static bool at_word(const struct walk *walk, const char *word)
{
    size_t length = strlen(word);

    return strncmp(walk->input, word, length) == 0 && !is_word(walk->input[length]) &&
           (walk->input == walk->input_start || !is_word(walk->input[-1]));
}

static void put_text(struct walk *walk, const char *text)
{
    size_t length = strlen(text);

    memcpy(walk->output, text, length);
    walk->output += length;
}

static void copy_text(struct walk *walk, size_t length)
{
    memcpy(walk->output, walk->input, length);
    walk->output += length;
    walk->input += length;
}

static void put_number(struct walk *walk, unsigned number)
{
    if (number >= 10)
        put_number(walk, number / 10);
    *walk->output++ = (char)('0' + number % 10);
}

static unsigned new_space(const struct walk *walk, unsigned long space)
{
    return space < FACET_REMAP_SPACES ? walk->remap->spaces[space] : (unsigned)space;
}

/* Rewrites an address space, such as " addrspace(3)"; address space 0 is not written. */
static bool take_space(struct walk *walk)
{
    char *end;

    if (strncmp(walk->input, " addrspace(", 11) != 0)
        return false;
    unsigned space = new_space(walk, strtoul(walk->input + 11, &end, 10));
    if (*end != ')')
        return false;
    if (space) {
        put_text(walk, " addrspace(");
        put_number(walk, space);
        put_text(walk, ")");
    }
    walk->input = end + 1;
    return true;
}

/* The end of a target("spirv.Image", ...). */
static const char *closing_parenthesis(const char *text)
{
    while (*text && *text != ')' && *text != '\n')
        text++;
    return *text == ')' ? text + 1 : NULL;
}

static bool take_type(struct walk *walk)
{
    const struct {
        const char *begins, *becomes;
    } types[] = {
        {"target(\"spirv.Image\"", walk->remap->image},
        {"target(\"spirv.Sampler\"", walk->remap->sampler},
        {"target(\"spirv.Event\"", walk->remap->event},
    };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const char *end = closing_parenthesis(walk->input);
        if (!types[i].becomes || !end || strncmp(walk->input, types[i].begins, strlen(types[i].begins)) != 0)
            continue;
        put_text(walk, types[i].becomes);
        walk->input = end;
        return true;
    }
    return false;
}

/* The new address space of the first pointer type from here on. */
static unsigned space_from(const struct walk *walk, const char *text)
{
    while (*text && *text != '\n' && strncmp(text, "ptr", 3) != 0)
        text++;
    return new_space(walk, strncmp(text, "ptr addrspace(", 14) == 0 ? strtoul(text + 14, NULL, 10) : 0);
}

/* The " to TYPE" of a cast, inside which there may be other casts; NULL: there is none. */
static const char *cast_to(const char *text)
{
    int depth = *text == '(' ? -1 : 0;

    for (; *text && *text != '\n'; text++) {
        depth += (*text == '(') - (*text == ')');
        if (depth == 0 && strncmp(text, " to ", 4) == 0)
            return text;
    }
    return NULL;
}

/* A cast between address spaces that have become the same does nothing, and LLVM allows it as `bitcast` only. */
static bool take_cast(struct walk *walk)
{
    static const char word[] = "addrspacecast";

    if (!at_word(walk, word))
        return false;
    const char *operand = walk->input + strlen(word) + 1, *to = cast_to(operand);
    bool same = to && space_from(walk, operand) == space_from(walk, to);
    put_text(walk, same ? "bitcast" : word);
    walk->input += strlen(word);
    return true;
}

static bool take_convention(struct walk *walk)
{
    static const char *const kernels[] = {"spir_kernel", "ptx_kernel", "amdgpu_kernel"};

    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (!at_word(walk, kernels[i]))
            continue;
        put_text(walk, walk->remap->kernel);
        walk->input += strlen(kernels[i]) + !walk->remap->kernel[0];
        return true;
    }
    if (!at_word(walk, "spir_func"))
        return false;
    walk->input += strlen("spir_func ");
    return true;
}

/* Rewrites an address space in a mangled name, such as "U3AS4". */
static bool take_mangled(struct walk *walk)
{
    char *end;

    if (strncmp(walk->input, "U3AS", 4) != 0 || !isdigit((unsigned char)walk->input[4]) ||
        isdigit((unsigned char)walk->input[5]))
        return false;
    unsigned space = new_space(walk, strtoul(walk->input + 4, &end, 10));
    if (space) {
        put_text(walk, "U3AS");
        put_number(walk, space);
    }
    walk->input = end;
    return true;
}

/* Copies a name, and rewrites the address spaces in it: "@_Z5fractfPU3AS4f", "@llvm.memcpy.p4.p1.i64". */
static void take_name(struct walk *walk)
{
    bool mangled = strncmp(walk->input, "@_Z", 3) == 0, intrinsic = strncmp(walk->input, "@llvm.", 6) == 0;

    copy_text(walk, 1);
    while (is_word(*walk->input) && *walk->input != '@' && *walk->input != '%') {
        if (mangled && walk->remap->names && take_mangled(walk))
            continue;
        if (intrinsic && walk->input[0] == '.' && walk->input[1] == 'p' && isdigit((unsigned char)walk->input[2])) {
            copy_text(walk, 2);
            put_number(walk, new_space(walk, strtoul(walk->input, (char **)&walk->input, 10)));
            continue;
        }
        copy_text(walk, 1);
    }
}

static void take_quoted(struct walk *walk)
{
    const char *end = strchr(walk->input + 1, '"');

    copy_text(walk, end ? (size_t)(end - walk->input) + 1 : strlen(walk->input));
}

/* Skips the lines of target and data layout: the caller sets both anew. */
static bool skip_line(struct walk *walk)
{
    if (walk->input != walk->input_start && walk->input[-1] != '\n')
        return false;
    if (strncmp(walk->input, "target datalayout", 17) != 0 && strncmp(walk->input, "target triple", 13) != 0)
        return false;
    walk->input += strcspn(walk->input, "\n");
    return true;
}

static void remap_step(struct walk *walk)
{
    switch (*walk->input) {
    case ' ':
        if (!take_space(walk))
            copy_text(walk, 1);
        return;
    case '"':
        take_quoted(walk);
        return;
    case '@':
        take_name(walk);
        return;
    case 't':
        if (skip_line(walk) || take_type(walk))
            return;
        break;
    case 'a':
        if (take_cast(walk) || take_convention(walk))
            return;
        break;
    case 's':
    case 'p':
        if (take_convention(walk))
            return;
        break;
    }
    copy_text(walk, 1);
}

/* Declared names, up to their parentheses: a hash table with open addressing, twice as large as needed. */
struct names {
    const char **names;
    size_t capacity;
};

static size_t count_declared(const char *text)
{
    size_t count = 0;

    for (const char *line = text; (line = strstr(line, "declare ")); line++)
        count++;
    return count;
}

/* Enters a name; returns whether it is new. */
static bool enter_name(struct names *names, const char *name, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    for (size_t at = hash % names->capacity;; at = (at + 1) % names->capacity) {
        if (!names->names[at]) {
            names->names[at] = name;
            return true;
        }
        if (strncmp(names->names[at], name, length) == 0)
            return false;
    }
}

/* Intrinsics that differed in address spaces only now have the same name: drops all declarations but the first. */
static bool drop_doubles(char *text)
{
    struct names names = {.capacity = count_declared(text) * 2 + 1};
    char *line = text, *to = text;

    names.names = calloc(names.capacity, sizeof *names.names);
    if (!names.names)
        return false;
    while (*line) {
        size_t length = strcspn(line, "\n") + 1;
        const char *name = strncmp(line, "declare ", 8) == 0 ? memchr(line, '@', length) : NULL;
        const char *end = name ? memchr(name, '(', length - (size_t)(name - line)) : NULL;
        size_t before = name ? (size_t)(name - line) : 0;

        length -= line[length - 1] == '\0';
        memmove(to, line, length); /* a name is entered where it stays */
        if (!end || enter_name(&names, to + before, (size_t)(end - name) + 1))
            to += length;
        line += length;
    }
    *to = '\0';
    free(names.names);
    return true;
}

char *facet_remap_text(const char *text, const struct facet_remap *remap)
{
    char *made = malloc(strlen(text) * GROWTH_FACTOR + 64);
    struct walk walk = {.input = text, .input_start = text, .output = made, .remap = remap};

    if (!made)
        return NULL;
    while (*walk.input)
        remap_step(&walk);
    *walk.output = '\0';
    if (drop_doubles(made))
        return made;
    free(made);
    return NULL;
}
