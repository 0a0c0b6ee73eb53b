/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the table of settings and its parsers.
 * Never: keeps state, or takes a setting from the environment of a setuid program (secure_getenv()).
 */
#include "base/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/limits.h>

#include "base/log.h"

static enum facet_status parse_number(const struct facet_setting *setting, const char *text, uint64_t *ret_value,
                                      struct facet_error *error)
{
    char *end;

    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    /* strtoull accepts blanks and signs, even "-1"; a setting is digits only. */
    if (text[0] < '0' || text[0] > '9' || *end)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, setting->variable,
                                    "%s '%.64s': expected a whole number from %" PRIu64 " to %" PRIu64,
                                    setting->variable, text, setting->min, setting->max);
    if (errno == ERANGE || value < setting->min || value > setting->max)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, setting->variable,
                                    "%s '%.64s': expected %" PRIu64 " to %" PRIu64, setting->variable, text,
                                    setting->min, setting->max);
    *ret_value = value;
    return FACET_OK;
}

/* The number of bytes in a form that a user may type: "64K", "1024T". */
static const char *bytes_as_typed(uint64_t bytes, char *text, size_t size)
{
    static const char units[] = "KMGT";
    uint32_t unit = 0;

    for (bytes /= 1024; units[unit + 1] && bytes % 1024 == 0; unit++)
        bytes /= 1024;
    snprintf(text, size, "%" PRIu64 "%c", bytes, units[unit]);
    return text;
}

/* A size outside the setting's range and one that fits no integer give the same message, which names the range. */
static enum facet_status parse_size(const struct facet_setting *setting, const char *text, uint64_t *ret_value,
                                    struct facet_error *error)
{
    char min[32], max[32];
    uint64_t value = 0;
    enum facet_status status = facet_parse_size(text, setting->variable, 0, &value, error);

    if (status != FACET_OK && status != FACET_OUT_OF_RANGE)
        return status;
    if (status != FACET_OK || value < setting->min || value > setting->max)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, setting->variable, "%s '%.64s': expected %s to %s",
                                    setting->variable, text, bytes_as_typed(setting->min, min, sizeof min),
                                    bytes_as_typed(setting->max, max, sizeof max));
    *ret_value = value;
    return FACET_OK;
}

static enum facet_status parse_level(const struct facet_setting *setting, const char *text, uint64_t *ret_value,
                                     struct facet_error *error)
{
    for (int level = 0; level < FACET_LOG_LEVELS; level++) {
        if (strcmp(text, facet_log_level_name((enum facet_log_level)level)) == 0) {
            *ret_value = (uint64_t)level;
            return FACET_OK;
        }
    }
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, setting->variable,
                                "%s '%.64s': expected error, warning, info or debug", setting->variable, text);
}

/* A folder must not depend on the current folder, because the daemon's is not that of the command. */
static enum facet_status parse_folder(const struct facet_setting *setting, const char *text, uint64_t *ret_value,
                                      struct facet_error *error)
{
    if (text[0] != '/')
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, setting->variable,
                                    "%s '%.200s': expected an absolute path", setting->variable, text);
    *ret_value = 0;
    return FACET_OK;
}

/* Names of variables. A name with '*' at its end means all names that begin so. */
static enum facet_status parse_names(const struct facet_setting *setting, const char *text, uint64_t *ret_value,
                                     struct facet_error *error)
{
    for (const char *at = text; *at; at++) {
        bool is_first = at == text || at[-1] == ',', is_last = !at[1] || at[1] == ',';
        bool is_letter = (*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z') || *at == '_';

        if (!is_letter && *at != ',' && !(*at >= '0' && *at <= '9' && !is_first) && !(*at == '*' && is_last))
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, setting->variable,
                                        "%s '%.200s': expected names of variables such as LD_LIBRARY_PATH,OCL_ICD_*",
                                        setting->variable, text);
    }
    *ret_value = 0;
    return FACET_OK;
}

static const struct facet_setting settings[FACET_SETTING_COUNT] = {
    [FACET_SETTING_RUNTIME_DIR] = {.name = "runtime_dir",
                                   .variable = "FACET_RUNTIME_DIR",
                                   .help = "folder of the daemon's socket and the shared segments; default /run/facet "
                                           "for root, else $XDG_RUNTIME_DIR/facet, else /tmp/facet-UID",
                                   .parse = parse_folder},
    [FACET_SETTING_STATE_DIR] = {.name = "state_dir",
                                 .variable = "FACET_STATE_DIR",
                                 .help = "folder of the daemon's database; default /var/lib/facet for root, else "
                                         "$XDG_STATE_HOME/facet, else ~/.local/state/facet",
                                 .parse = parse_folder},
    [FACET_SETTING_LIB_DIR] = {.name = "lib_dir",
                               .variable = "FACET_LIB_DIR",
                               .help = "folder of the daemon, layers and providers; default the program's own folder "
                                       "when it holds them, else the installed one",
                               .parse = parse_folder},
    [FACET_SETTING_PROVIDER_PATH] = {.name = "provider_path",
                                     .variable = "FACET_PROVIDER_PATH",
                                     .help = "providers to load: files and folders, separated by colons; default "
                                             "those that ship with Facet"},
    [FACET_SETTING_CACHE_DIR] = {.name = "cache_dir",
                                 .variable = "FACET_CACHE_DIR",
                                 .help = "folder of compiled kernels; default $XDG_CACHE_HOME/facet, else "
                                         "~/.cache/facet",
                                 .parse = parse_folder},
    [FACET_SETTING_CACHE_SIZE] = {.name = "cache_size",
                                  .variable = "FACET_CACHE_SIZE",
                                  .fallback = "1G",
                                  .help = "the most that compiled kernels may take there; the least recently used go",
                                  .parse = parse_size,
                                  .min = 65536,
                                  .max = UINT64_C(1) << 50},
    [FACET_SETTING_CHECK] = {.name = "check",
                             .variable = "FACET_CHECK",
                             .fallback = "0",
                             .help = "1: kernels for the host are compiled so that a run finds accesses out of bounds "
                                     "and races",
                             .parse = parse_number,
                             .max = 1},
    [FACET_SETTING_LOG] = {.name = "log",
                           .variable = "FACET_LOG",
                           .fallback = "info",
                           .help = "how much the programs write to stderr: error, warning, info or debug",
                           .parse = parse_level},
    [FACET_SETTING_SLICE_US] =
        {.name = "slice_us",
         .variable = "FACET_SLICE_US",
         .fallback = "0",
         .help = "microseconds of device time per turn while others wait; 0: the scheduler's default",
         .parse = parse_number,
         .max = 1000000},
    [FACET_SETTING_PARALLEL] = {.name = "parallel",
                                .variable = "FACET_PARALLEL",
                                .fallback = "0",
                                .help = "how many vGPUs may use a device at a time; 0: the scheduler's default",
                                .parse = parse_number,
                                .max = 128},
    [FACET_SETTING_SWAP_FACTOR] = {.name = "swap_factor",
                                   .variable = "FACET_SWAP_FACTOR",
                                   .fallback = "20",
                                   .help =
                                       "how long an oversubscribed vGPU keeps its memory on the device, in multiples "
                                       "of the time that moving it there took; 0: until others need the room",
                                   .parse = parse_number,
                                   .max = 10000},
    [FACET_SETTING_SWAP_PATIENCE_S] = {.name = "swap_patience_s",
                                       .variable = "FACET_SWAP_PATIENCE_S",
                                       .fallback = "30",
                                       .help = "seconds that an oversubscribed vGPU may take to begin giving memory "
                                               "back before the others stop waiting; 0: they wait forever",
                                       .parse = parse_number,
                                       .max = 86400},
    [FACET_SETTING_IDLE_EXIT_S] = {.name = "idle_exit_s",
                                   .variable = "FACET_IDLE_EXIT_S",
                                   .fallback = "30",
                                   .help = "seconds without a caller, an ephemeral vGPU or a vGPU in use after which a "
                                           "private daemon exits",
                                   .parse = parse_number,
                                   .max = 86400},
    [FACET_SETTING_KEEP_ENV] = {.name = "keep_env",
                                .variable = "FACET_KEEP_ENV",
                                .help = "further variables that a private daemon and the commands that list devices "
                                        "give to drivers; names separated by commas: LD_LIBRARY_PATH,OCL_ICD_*",
                                .parse = parse_names},
};

const struct facet_setting *facet_config_setting(uint32_t id)
{
    return id < FACET_SETTING_COUNT ? &settings[id] : NULL;
}

const char *facet_config_text(enum facet_setting_id id)
{
    const char *text = secure_getenv(settings[id].variable);

    return text && *text ? text : settings[id].fallback;
}

enum facet_status facet_config_u64(enum facet_setting_id id, uint64_t *ret_value, struct facet_error *error)
{
    const struct facet_setting *setting = &settings[id];
    const char *text = facet_config_text(id);

    if (!setting->parse || !text)
        return facet_error_argument(error, FACET_INTERNAL, setting->variable, "%s is not a number", setting->variable);
    return setting->parse(setting, text, ret_value, error);
}

enum facet_status facet_config_check(struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t id = 0; id < FACET_SETTING_COUNT && status == FACET_OK; id++) {
        const char *text = facet_config_text(id);
        uint64_t value;

        if (text && settings[id].parse)
            status = settings[id].parse(&settings[id], text, &value, error);
    }
    return status;
}
