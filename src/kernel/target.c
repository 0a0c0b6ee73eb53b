/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table of targets. Never: accepts a processor that is not in the table, for which LLVM would silently
 * compile for another processor. */
#include "kernel/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { WORD_MAX = 40, NEAR_DISTANCE = 3 };

static const char *const families[] = {
    [FACET_TARGET_HOST] = "host",   [FACET_TARGET_PTX] = "ptx", [FACET_TARGET_AMDGCN] = "amdgcn",
    [FACET_TARGET_SPIRV] = "spirv", [FACET_TARGET_NPU] = "npu",
};

static const struct {
    enum facet_target_family family;
    const char *name, *about;
} targets[] = {
    {FACET_TARGET_HOST, "host", "this machine's own processor"},
    {FACET_TARGET_HOST, "host:x86-64-v2", "SSE4.2"},
    {FACET_TARGET_HOST, "host:x86-64-v3", "AVX2, FMA"},
    {FACET_TARGET_HOST, "host:x86-64-v4", "AVX-512"},
    {FACET_TARGET_PTX, "ptx:sm_75", "Turing: T4, RTX 20"},
    {FACET_TARGET_PTX, "ptx:sm_80", "Ampere: A100, A30"},
    {FACET_TARGET_PTX, "ptx:sm_86", "Ampere: A10, A40, RTX 30"},
    {FACET_TARGET_PTX, "ptx:sm_87", "Ampere: Jetson Orin"},
    {FACET_TARGET_PTX, "ptx:sm_89", "Ada: L4, L40, RTX 40"},
    {FACET_TARGET_PTX, "ptx:sm_90", "Hopper: H100, H200"},
    {FACET_TARGET_PTX, "ptx:sm_90a", "Hopper, only this generation"},
    {FACET_TARGET_PTX, "ptx:sm_100", "Blackwell: B200, GB200"},
    {FACET_TARGET_PTX, "ptx:sm_100a", "Blackwell, only this generation"},
    {FACET_TARGET_PTX, "ptx:sm_103", "Blackwell Ultra: B300, GB300"},
    {FACET_TARGET_PTX, "ptx:sm_120", "Blackwell: RTX 50, RTX PRO"},
    {FACET_TARGET_PTX, "ptx:sm_121", "Blackwell: GB10, DGX Spark"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx900", "Vega 10: MI25, RX Vega"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx902", "Vega, Raven Ridge APU"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx904", "Vega 12"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx906", "Vega 20: MI50, MI60"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx908", "CDNA: MI100"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx909", "Vega, Raven 2 APU"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx90a", "CDNA 2: MI210, MI250"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx90c", "Vega, Renoir APU"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx942", "CDNA 3: MI300, MI325"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx950", "CDNA 4: MI350, MI355"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1010", "RDNA: RX 5700"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1011", "RDNA: Pro V520"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1012", "RDNA: RX 5500"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1013", "RDNA, APU"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1030", "RDNA 2: RX 6800, RX 6900, Pro V620"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1031", "RDNA 2: RX 6700"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1032", "RDNA 2: RX 6600"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1033", "RDNA 2, Van Gogh APU"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1034", "RDNA 2: RX 6500"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1035", "RDNA 2, Rembrandt APU"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1036", "RDNA 2, Raphael APU"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1100", "RDNA 3: RX 7900, Pro W7900"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1101", "RDNA 3: RX 7700, RX 7800"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1102", "RDNA 3: RX 7600"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1103", "RDNA 3, Phoenix APU"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1150", "RDNA 3.5, Strix Point APU"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1151", "RDNA 3.5, Strix Halo APU"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1152", "RDNA 3.5, Krackan APU"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1153", "RDNA 3.5, APU"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1200", "RDNA 4: RX 9060"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1201", "RDNA 4: RX 9070"},
    {FACET_TARGET_AMDGCN, "amdgcn:gfx1250", "CDNA next"},
    {FACET_TARGET_SPIRV, "spirv:1.2", "OpenCL 2.2 and later"},
    {FACET_TARGET_SPIRV, "spirv:1.1", "OpenCL 2.2 and later"},
    {FACET_TARGET_SPIRV, "spirv:1.0", "any device that takes SPIR-V"},
};
enum { TARGET_COUNT = sizeof targets / sizeof targets[0] };

const char *facet_target_name(uint32_t index)
{
    return index < TARGET_COUNT ? targets[index].name : NULL;
}

const char *facet_target_about(uint32_t index)
{
    return index < TARGET_COUNT ? targets[index].about : NULL;
}

const char *facet_target_family_name(enum facet_target_family family)
{
    return families[family];
}

/* The part behind the colon; "" when there is none. */
static const char *processor_of(const char *name)
{
    const char *colon = strchr(name, ':');

    return colon ? colon + 1 : "";
}

static unsigned min_unsigned(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* How many letters must be inserted, dropped or replaced to turn one word into the other. */
static unsigned edit_distance(const char *from, const char *to)
{
    size_t height = strlen(from), width = strlen(to);
    unsigned row[WORD_MAX + 1];

    if (height > WORD_MAX || width > WORD_MAX)
        return WORD_MAX;
    for (unsigned i = 0; i <= width; i++)
        row[i] = i;
    for (size_t line = 1; line <= height; line++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)line;
        for (size_t i = 1; i <= width; i++) {
            unsigned above = row[i];
            row[i] = min_unsigned(diagonal + (from[line - 1] != to[i - 1]), min_unsigned(above, row[i - 1]) + 1);
            diagonal = above;
        }
    }
    return row[width];
}

/* The version in "ptx:sm_121", "sm_121" or "spirv:1.2", in thousandths; 0 when `text` is of another family or has no
 * version. */
static uint64_t version_of(const char *text, enum facet_target_family family)
{
    const char *at = processor_of(text)[0] ? processor_of(text) : text;
    size_t length = strlen(families[family]);
    char *end;

    if (at != text && (strncmp(text, families[family], length) != 0 || text[length] != ':'))
        return 0;
    if (family == FACET_TARGET_PTX && strncmp(at, "sm_", 3) == 0)
        at += 3;
    else if (family != FACET_TARGET_SPIRV || at == text)
        return 0;
    if (*at < '0' || *at > '9')
        return 0;
    uint64_t major = strtoull(at, &end, 10), minor = *end == '.' ? strtoull(end + 1, NULL, 10) : 0;
    return (major < 1000000 ? major : 1000000) * 1000 + (minor < 1000 ? minor : 999);
}

/* The highest target of the family of `text`, if the version of `text` is above it; else NULL. */
static const char *highest_below(const char *text)
{
    static const enum facet_target_family numbered[] = {FACET_TARGET_PTX, FACET_TARGET_SPIRV};

    for (size_t i = 0; i < sizeof numbered / sizeof numbered[0]; i++) {
        const char *name = NULL;
        uint64_t max = 0;

        for (uint32_t j = 0; j < TARGET_COUNT; j++) {
            uint64_t version = targets[j].family == numbered[i] ? version_of(targets[j].name, numbered[i]) : 0;
            if (version <= max)
                continue;
            max = version;
            name = targets[j].name;
        }
        if (version_of(text, numbered[i]) > max)
            return name;
    }
    return NULL;
}

/* The target whose name, or whose processor's name, is nearest to `text`; NULL when none is near. */
static const char *nearest_name(const char *text)
{
    const char *name = NULL;
    unsigned best = NEAR_DISTANCE;

    for (uint32_t i = 0; i < TARGET_COUNT; i++) {
        unsigned distance =
            min_unsigned(edit_distance(text, targets[i].name), edit_distance(text, processor_of(targets[i].name)));
        if (distance >= best)
            continue;
        best = distance;
        name = targets[i].name;
    }
    return name;
}

static enum facet_status refuse_unknown(const char *text, const char *shown, struct facet_error *error)
{
    const char *highest = highest_below(text), *near = highest ? highest : nearest_name(text);

    if (near)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "target",
                                    "target '%s' is not known; did you mean '%s'?", shown, near);
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "target",
                                "target '%s' is not known; expected host, ptx:sm_NN, amdgcn:gfxNNN or spirv", shown);
}

static enum facet_status refuse_npu(const char *shown, struct facet_error *error)
{
    return facet_error_argument(error, FACET_UNSUPPORTED, "target",
                                "target '%s' is not supported yet: a code generator for an NPU's vector cores is "
                                "missing; vendors' compilers take graphs of operations, not kernels",
                                shown);
}

static void accept_target(enum facet_target_family family, const char *name, struct facet_target *ret_target)
{
    ret_target->family = family;
    snprintf(ret_target->name, sizeof ret_target->name, "%s", name);
    ret_target->processor = processor_of(ret_target->name);
}

/* Whether `text` may be a host processor. These are not in the table, since there are too many: the compiler checks
 * them. */
static bool is_host_processor(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.+";
    const char *name = strncmp(text, "host:", 5) == 0 ? text + 5 : "";

    return name[0] && strlen(text) < FACET_TARGET_SIZE && strspn(name, letters) == strlen(name);
}

/* Says why `text` is no target. */
static enum facet_status refuse_target(const char *text, struct facet_error *error)
{
    char shown[FACET_TARGET_SIZE];

    snprintf(shown, sizeof shown, "%s", text);
    facet_text_make_line(shown);
    return strcmp(text, "npu") == 0 || strncmp(text, "npu:", 4) == 0 ? refuse_npu(shown, error)
                                                                     : refuse_unknown(text, shown, error);
}

enum facet_status facet_target_read(const char *text, struct facet_target *ret_target, struct facet_error *error)
{
    if (!text)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "target", "target is NULL; expected a name");
    for (uint32_t i = 0; i < TARGET_COUNT; i++) {
        /* The processor's name alone is enough: it is in one family only. A version of SPIR-V alone is not. */
        bool alone = targets[i].family == FACET_TARGET_PTX || targets[i].family == FACET_TARGET_AMDGCN;
        if (strcmp(text, targets[i].name) != 0 && !(alone && strcmp(text, processor_of(targets[i].name)) == 0))
            continue;
        accept_target(targets[i].family, targets[i].name, ret_target);
        return FACET_OK;
    }
    if (strcmp(text, "spirv") == 0)
        return facet_target_read("spirv:1.2", ret_target, error);
    if (is_host_processor(text)) {
        accept_target(FACET_TARGET_HOST, text, ret_target);
        return FACET_OK;
    }
    return refuse_target(text, error);
}

enum facet_status facet_target_parse(const char *text, char *ret_name, size_t size, struct facet_error *error)
{
    struct facet_target target;
    enum facet_status status = facet_target_read(text, &target, error);

    if (status != FACET_OK)
        return status;
    if (strlen(target.name) >= size)
        return facet_error_argument(error, FACET_TOO_SMALL, "size", "size %zu: expected at least %zu for '%s'", size,
                                    strlen(target.name) + 1, target.name);
    memcpy(ret_name, target.name, strlen(target.name) + 1);
    return FACET_OK;
}
