/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: writing and reading a rule as JSON. Never: accepts a member that it does not know. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "passthrough/bind/journal.h"
#include "passthrough/persist/rule.h"

enum { VERSION = 1 };

static void cleanup_json(json_t **json)
{
    json_decref(*json);
}
#define CLEANUP_JSON __attribute__((cleanup(cleanup_json)))

/* ---- writing ---- */

static json_t *function_json(const struct facet_passthrough_identity *identity)
{
    char address[FACET_PCI_ADDRESS_SIZE], model[IDENTITY_MODEL_SIZE];

    facet_pci_address_print(&identity->address, address);
    identity_print_model(identity, model);
    json_t *object = json_pack("{s:s, s:s}", "address", address, "model", model);
    if (object && identity->serial[0] && json_object_set_new(object, "serial", json_string(identity->serial)) < 0)
        return NULL;
    if (object && identity->slot[0] && json_object_set_new(object, "slot", json_string(identity->slot)) < 0)
        return NULL;
    return object;
}

static json_t *functions_json(const struct facet_passthrough_rule *rule)
{
    json_t *array = json_array();

    for (size_t i = 0; array && i < rule->function_count; i++)
        if (json_array_append_new(array, function_json(&rule->functions[i])) < 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

char *rule_text(const struct facet_passthrough_rule *rule)
{
    CLEANUP_JSON json_t *all = json_pack(
        "{s:i, s:o, s:b, s:b, s:b}", "version", VERSION, "functions", functions_json(rule), "whole_group",
        (int)(rule->wish_flags & FACET_PASSTHROUGH_WHOLE_GROUP), "headless",
        (int)(rule->wish_flags & FACET_PASSTHROUGH_HEADLESS), "reset", (int)(rule->flags & FACET_PASSTHROUGH_RESET));
    char owner[32];

    if (all && rule->driver[0] && json_object_set_new(all, "driver", json_string(rule->driver)) < 0)
        return NULL;
    snprintf(owner, sizeof owner, "%u:%u", rule->uid, rule->gid);
    if (all && rule->has_owner && json_object_set_new(all, "owner", json_string(owner)) < 0)
        return NULL;
    return all ? json_dumps(all, JSON_INDENT(2)) : NULL;
}

/* ---- reading ---- */

static enum facet_status report_damage(struct facet_error *error, const char *argument, const char *what)
{
    return facet_error_argument(error, FACET_CORRUPT, argument, "%s: %s", argument, what);
}

/* Copies the member's text. True when the member is absent, or its text fits. */
static bool take_text(const json_t *object, const char *key, char *text, size_t size)
{
    const json_t *value = json_object_get(object, key);
    const char *given = json_string_value(value);

    if (!value)
        return true;
    if (!given || !given[0] || strlen(given) != json_string_length(value) || strlen(given) >= size)
        return false;
    memcpy(text, given, strlen(given) + 1);
    return true;
}

static bool take_function(const json_t *object, struct facet_passthrough_identity *identity)
{
    const char *address = json_string_value(json_object_get(object, "address"));
    const char *model = json_string_value(json_object_get(object, "model"));

    identity->group = -1;
    return address && model && facet_pci_address_parse(address, &identity->address, NULL) == FACET_OK &&
           identity_parse_model(model, identity) &&
           take_text(object, "serial", identity->serial, sizeof identity->serial) &&
           take_text(object, "slot", identity->slot, sizeof identity->slot);
}

static enum facet_status take_functions(const json_t *array, struct facet_passthrough_rule *rule,
                                        struct facet_error *error)
{
    size_t count = json_array_size(array);

    if (count == 0 || count > JOURNAL_FUNCTIONS_MAX)
        return report_damage(error, "functions", "a list of 1 to 256 was expected");
    rule->functions = calloc(count, sizeof *rule->functions);
    if (!rule->functions)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %zu functions", count);
    for (; rule->function_count < count; rule->function_count++) {
        struct facet_passthrough_identity *identity = &rule->functions[rule->function_count];

        if (!take_function(json_array_get(array, rule->function_count), identity))
            return report_damage(error, "functions",
                                 "each was expected to have an address and a model (four numbers), and may have a "
                                 "serial and a slot");
        if (rule->function_count > 0 && facet_pci_address_compare(&identity[-1].address, &identity->address) >= 0)
            return report_damage(error, "functions", "the order of their addresses was expected");
    }
    return FACET_OK;
}

static bool take_flag(const json_t *object, const char *key, uint32_t flag, uint32_t *flags)
{
    const json_t *value = json_object_get(object, key);

    if (json_is_true(value))
        *flags |= flag;
    return !value || json_is_boolean(value);
}

static bool take_owner(const json_t *object, struct facet_passthrough_rule *rule)
{
    char text[32] = "", again[32];

    if (!take_text(object, "owner", text, sizeof text))
        return false;
    if (!text[0])
        return true;
    rule->has_owner = 1;
    if (sscanf(text, "%10u:%10u", &rule->uid, &rule->gid) != 2)
        return false;
    snprintf(again, sizeof again, "%u:%u", rule->uid, rule->gid);
    return strcmp(text, again) == 0;
}

/* An unknown member may change the meaning of a rule, so it is refused. */
static enum facet_status refuse_unknown(json_t *all, struct facet_error *error)
{
    static const char *const known[] = {"version", "functions", "whole_group", "headless", "reset", "driver", "owner"};
    const char *key;
    json_t *value;

    json_object_foreach (all, key, value) {
        bool is_known = false;

        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            is_known = is_known || strcmp(key, known[i]) == 0;
        if (!is_known)
            return facet_error_set(error, FACET_CORRUPT, "its member \"%.40s\" is not known", key);
    }
    return FACET_OK;
}

static enum facet_status take_all(json_t *all, struct facet_passthrough_rule *rule, struct facet_error *error)
{
    if (!json_is_object(all))
        return facet_error_set(error, FACET_CORRUPT, "is no JSON object");
    if (json_integer_value(json_object_get(all, "version")) != VERSION)
        return report_damage(error, "version", "1 was expected");
    if (!take_flag(all, "whole_group", FACET_PASSTHROUGH_WHOLE_GROUP, &rule->wish_flags) ||
        !take_flag(all, "headless", FACET_PASSTHROUGH_HEADLESS, &rule->wish_flags) ||
        !take_flag(all, "reset", FACET_PASSTHROUGH_RESET, &rule->flags))
        return facet_error_set(error, FACET_CORRUPT, "whole_group, headless and reset are true or false");
    if (!take_text(all, "driver", rule->driver, sizeof rule->driver) || !journal_is_name(rule->driver))
        return report_damage(error, "driver", "a name like vfio-pci was expected");
    if (!take_owner(all, rule))
        return report_damage(error, "owner", "two numbers like 1000:78 were expected");
    enum facet_status status = refuse_unknown(all, error);
    return status ? status : take_functions(json_object_get(all, "functions"), rule, error);
}

enum facet_status rule_parse(const char *bytes, size_t size, struct facet_passthrough_rule *ret_rule,
                             struct facet_error *error)
{
    struct facet_passthrough_rule rule = {.size = sizeof rule};
    CLEANUP_JSON json_t *all = size > RULE_BYTES_MAX ? NULL : json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL);
    enum facet_status status = take_all(all, &rule, error);

    if (status) {
        free(rule.functions);
        return status;
    }
    *ret_rule = rule;
    return FACET_OK;
}
