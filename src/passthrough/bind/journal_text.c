/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: a journal as text: a line with its version and checksum, then JSON; its name. Never: opens a file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "passthrough/bind/journal.h"

#define HEAD        "facet-passthrough-journal 1 "
#define HEAD_LENGTH (sizeof HEAD - 1)
#define HASH_LENGTH 16u

static const char *const phases[] = {"preparing", "bound", "returning"};

static void cleanup_json(json_t **json)
{
    json_decref(*json);
}
#define CLEANUP_JSON __attribute__((cleanup(cleanup_json)))

void journal_clear(struct journal *journal)
{
    free(journal->functions);
    *journal = (struct journal){.count = 0};
}

void journal_name(const struct journal *journal, char name[JOURNAL_NAME_SIZE])
{
    int32_t lowest = INT32_MAX;

    for (size_t i = 0; i < journal->count; i++)
        if (journal->functions[i].identity.group < lowest)
            lowest = journal->functions[i].identity.group;
    snprintf(name, JOURNAL_NAME_SIZE, "group-%d.journal", lowest);
}

/* ---- writing ---- */

static json_t *place_json(const struct journal_binding *place)
{
    return json_pack("{s:s, s:s, s:s, s:s}", "driver", place->driver, "override", place->override, "power",
                     place->power, "rights", place->rights);
}

void identity_print_model(const struct facet_passthrough_identity *identity, char text[IDENTITY_MODEL_SIZE])
{
    snprintf(text, IDENTITY_MODEL_SIZE, "%04x:%04x:%04x:%04x", identity->vendor, identity->device,
             identity->subsystem_vendor, identity->subsystem_device);
}

static json_t *function_json(const struct journal_function *function)
{
    const struct facet_passthrough_identity *identity = &function->identity;
    char address[FACET_PCI_ADDRESS_SIZE], model[IDENTITY_MODEL_SIZE];

    facet_pci_address_print(&identity->address, address);
    identity_print_model(identity, model);
    return json_pack("{s:s, s:s, s:i, s:o, s:o, s:I, s:I}", "address", address, "model", model, "group",
                     (int)identity->group, "old", place_json(&function->old), "bound", place_json(&function->bound),
                     "stuck_pid", (json_int_t)function->stuck.pid, "stuck_start", (json_int_t)function->stuck.start);
}

static char *body_text(const struct journal *journal)
{
    CLEANUP_JSON json_t *functions = json_array();
    bool complete = functions != NULL;

    for (size_t i = 0; complete && i < journal->count; i++)
        complete = json_array_append_new(functions, function_json(&journal->functions[i])) == 0;
    CLEANUP_JSON json_t *all = complete ? json_pack("{s:s, s:s, s:O}", "phase", phases[journal->phase], "boot",
                                                    journal->boot, "functions", functions)
                                        : NULL;
    return all ? json_dumps(all, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
}

char *journal_text(const struct journal *journal)
{
    FACET_CLEANUP_FREE char *body = body_text(journal);
    char *text = NULL;

    if (!body || asprintf(&text, HEAD "%016" PRIx64 "\n%s\n", (uint64_t)XXH64(body, strlen(body), 0), body) < 0)
        return NULL;
    return text;
}

/* ---- reading ---- */

bool journal_is_name(const char *text)
{
    if (text[0] == '.')
        return false;
    for (; *text; text++)
        if (!((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || (*text >= '0' && *text <= '9') ||
              strchr("_-.+", *text)))
            return false;
    return true;
}

static enum facet_status refuse_text(struct facet_error *error, const char *what)
{
    return facet_error_set(error, FACET_CORRUPT, "%s", what);
}

/* Reads a text that fits, and that may be a part of a path or a line of sysfs. */
static bool take_name(const json_t *object, const char *key, char *text, size_t size)
{
    const json_t *value = json_object_get(object, key);
    const char *given = json_string_value(value);

    if (!given || json_string_length(value) != strlen(given) || strlen(given) >= size || !journal_is_name(given))
        return false;
    memcpy(text, given, strlen(given) + 1);
    return true;
}

/* Reads an owner such as "0:0", or an empty text. */
static bool take_rights(const json_t *object, char *text, size_t size)
{
    const json_t *value = json_object_get(object, "rights");
    const char *given = json_string_value(value);
    unsigned uid, gid;
    char again[24];

    if (!given || strlen(given) >= size || strlen(given) >= sizeof again)
        return false;
    if (*given) {
        if (sscanf(given, "%10u:%10u", &uid, &gid) != 2)
            return false;
        snprintf(again, sizeof again, "%u:%u", uid, gid);
        if (strcmp(given, again) != 0)
            return false;
    }
    memcpy(text, given, strlen(given) + 1);
    return true;
}

static bool take_place(const json_t *object, const char *key, struct journal_binding *place)
{
    const json_t *value = json_object_get(object, key);

    return take_name(value, "driver", place->driver, sizeof place->driver) &&
           take_name(value, "override", place->override, sizeof place->override) &&
           take_name(value, "power", place->power, sizeof place->power) &&
           take_rights(value, place->rights, sizeof place->rights);
}

bool identity_parse_model(const char *text, struct facet_passthrough_identity *identity)
{
    char again[IDENTITY_MODEL_SIZE];
    unsigned parts[4];

    if (strlen(text) != 19 || sscanf(text, "%4x:%4x:%4x:%4x", &parts[0], &parts[1], &parts[2], &parts[3]) != 4)
        return false;
    identity->vendor = (uint16_t)parts[0];
    identity->device = (uint16_t)parts[1];
    identity->subsystem_vendor = (uint16_t)parts[2];
    identity->subsystem_device = (uint16_t)parts[3];
    identity_print_model(identity, again);
    return strcmp(text, again) == 0;
}

static bool take_number(const json_t *object, const char *key, json_int_t max, json_int_t *ret_value)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > max)
        return false;
    *ret_value = json_integer_value(value);
    return true;
}

static bool take_function(const json_t *object, struct journal_function *function)
{
    const char *address = json_string_value(json_object_get(object, "address"));
    const char *model = json_string_value(json_object_get(object, "model"));
    json_int_t group, pid, start;

    if (!address || facet_pci_address_parse(address, &function->identity.address, NULL) != FACET_OK || !model ||
        !identity_parse_model(model, &function->identity) || !take_number(object, "group", INT32_MAX, &group) ||
        !take_number(object, "stuck_pid", INT32_MAX, &pid) || !take_number(object, "stuck_start", INT64_MAX, &start) ||
        !take_place(object, "old", &function->old) || !take_place(object, "bound", &function->bound))
        return false;
    function->identity.group = (int32_t)group;
    function->stuck = (struct bind_stuck){.pid = pid, .start = (uint64_t)start};
    return true;
}

/* Reads the functions, which must be in the order of their addresses, each once. */
static enum facet_status take_functions(const json_t *array, struct journal *journal, struct facet_error *error)
{
    size_t count = json_array_size(array);

    if (count == 0 || count > JOURNAL_FUNCTIONS_MAX)
        return refuse_text(error, "its list of functions is missing, empty or too long");
    journal->functions = calloc(count, sizeof *journal->functions);
    if (!journal->functions)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %zu functions", count);
    for (; journal->count < count; journal->count++) {
        struct journal_function *function = &journal->functions[journal->count];

        if (!take_function(json_array_get(array, journal->count), function))
            return facet_error_set(error, FACET_CORRUPT, "its function %zu is malformed", journal->count);
        if (journal->count > 0 &&
            facet_pci_address_compare(&function[-1].identity.address, &function->identity.address) >= 0)
            return refuse_text(error, "its functions are not in the order of their addresses");
    }
    return FACET_OK;
}

static enum facet_status take_body(const char *body, size_t size, struct journal *journal, struct facet_error *error)
{
    CLEANUP_JSON json_t *all = json_loadb(body, size, JSON_REJECT_DUPLICATES, NULL);
    const char *phase = json_string_value(json_object_get(all, "phase"));
    uint32_t number = 0;

    if (!all)
        return refuse_text(error, "is no JSON behind its first line");
    while (phase && number < sizeof phases / sizeof phases[0] && strcmp(phase, phases[number]) != 0)
        number++;
    if (!phase || number == sizeof phases / sizeof phases[0] ||
        !take_name(all, "boot", journal->boot, sizeof journal->boot))
        return refuse_text(error, "has no known phase, or no boot id");
    journal->phase = number;
    return take_functions(json_object_get(all, "functions"), journal, error);
}

/* The body begins behind the first line, and must match the checksum there. */
static enum facet_status find_body(const char *bytes, size_t size, const char **ret_body, size_t *ret_size,
                                   struct facet_error *error)
{
    const size_t begin = HEAD_LENGTH + HASH_LENGTH + 1;
    char hash[HASH_LENGTH + 1];

    if (size > JOURNAL_BYTES_MAX)
        return refuse_text(error, "is larger than a journal can be");
    if (size < begin + 1 || memcmp(bytes, HEAD, HEAD_LENGTH) != 0 || bytes[begin - 1] != '\n' ||
        bytes[size - 1] != '\n')
        return refuse_text(error, "is no journal of this version, or a part of one");
    snprintf(hash, sizeof hash, "%016" PRIx64, (uint64_t)XXH64(bytes + begin, size - begin - 1, 0));
    if (memcmp(hash, bytes + HEAD_LENGTH, HASH_LENGTH) != 0)
        return refuse_text(error, "was changed or damaged: its checksum is not that of its first line");
    *ret_body = bytes + begin;
    *ret_size = size - begin - 1;
    return FACET_OK;
}

enum facet_status journal_parse(const char *bytes, size_t size, struct journal *ret_journal, struct facet_error *error)
{
    struct journal journal = {.count = 0};
    const char *body = NULL;
    size_t length = 0;
    enum facet_status status = find_body(bytes, size, &body, &length, error);

    if (!status)
        status = take_body(body, length, &journal, error);
    if (status) {
        journal_clear(&journal);
        return status;
    }
    *ret_journal = journal;
    return FACET_OK;
}
