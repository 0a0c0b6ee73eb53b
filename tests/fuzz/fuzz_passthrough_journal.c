/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: fuzzing journal_parse() and rule_parse(): an accepted journal has only names that are safe in paths, and an
 * accepted journal or rule is the same after it was written and read again.
 *
 * An input is tried as it is, and with a first line that has the right checksum, which no mutation finds.
 */
#include <inttypes.h>

#include <xxhash.h>

#include "passthrough/bind/journal.h"
#include "passthrough/persist/rule.h"

#include "fuzz.h"

static void check_place(const struct journal_binding *place)
{
    const char *const texts[] = {place->driver, place->override, place->power};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        FUZZ_ASSERT(journal_is_name(texts[i]));
        FUZZ_ASSERT(!strchr(texts[i], '/') && !strchr(texts[i], '\n') && texts[i][0] != '.');
    }
    FUZZ_ASSERT(strspn(place->rights, "0123456789:") == strlen(place->rights));
}

static void check_journal(const struct journal *journal)
{
    char name[JOURNAL_NAME_SIZE];

    FUZZ_ASSERT(journal->count > 0 && journal->count <= JOURNAL_FUNCTIONS_MAX && journal->phase <= JOURNAL_RETURNING);
    for (size_t i = 0; i < journal->count; i++) {
        FUZZ_ASSERT(journal->functions[i].identity.group >= 0);
        check_place(&journal->functions[i].old);
        check_place(&journal->functions[i].bound);
    }
    journal_name(journal, name);
    FUZZ_ASSERT(memchr(name, '\0', sizeof name) && strncmp(name, "group-", 6) == 0);
}

static void try_journal(const char *bytes, size_t size)
{
    struct journal journal = {.count = 77}, again; /* 77: a refusal must not change it */
    struct facet_error error = {.status = FACET_OK};

    if (journal_parse(bytes, size, &journal, &error) != FACET_OK) {
        FUZZ_ASSERT(error.status == FACET_CORRUPT && error.message[0] && journal.count == 77);
        return;
    }
    check_journal(&journal);
    char *text = journal_text(&journal);
    FUZZ_ASSERT(text && journal_parse(text, strlen(text), &again, NULL) == FACET_OK);
    FUZZ_ASSERT(again.count == journal.count && again.phase == journal.phase && strcmp(again.boot, journal.boot) == 0);
    FUZZ_ASSERT(memcmp(again.functions, journal.functions, journal.count * sizeof *journal.functions) == 0);
    free(text);
    journal_clear(&journal);
    journal_clear(&again);
}

/* Tries the input behind a first line with the right checksum. */
static void try_with_checksum(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 64);

    FUZZ_ASSERT(text);
    int head = snprintf(text, 64, "facet-passthrough-journal 1 %016" PRIx64 "\n", (uint64_t)XXH64(data, size, 0));
    memcpy(text + head, data, size);
    text[(size_t)head + size] = '\n';
    try_journal(text, (size_t)head + size + 1);
    free(text);
}

static void try_rule(const char *bytes, size_t size)
{
    struct facet_passthrough_rule rule = {.function_count = 77}, again;
    struct facet_error error = {.status = FACET_OK};

    if (rule_parse(bytes, size, &rule, &error) != FACET_OK) {
        FUZZ_ASSERT(error.status == FACET_CORRUPT && error.message[0] && rule.function_count == 77);
        return;
    }
    FUZZ_ASSERT(rule.function_count > 0 && journal_is_name(rule.driver));
    char *text = rule_text(&rule);
    FUZZ_ASSERT(text && rule_parse(text, strlen(text), &again, NULL) == FACET_OK);
    FUZZ_ASSERT(again.function_count == rule.function_count && again.flags == rule.flags &&
                again.wish_flags == rule.wish_flags && again.has_owner == rule.has_owner && again.uid == rule.uid &&
                again.gid == rule.gid && strcmp(again.driver, rule.driver) == 0);
    FUZZ_ASSERT(memcmp(again.functions, rule.functions, rule.function_count * sizeof *rule.functions) == 0);
    free(text);
    free(rule.functions);
    free(again.functions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);

    try_journal(text, size);
    try_with_checksum(data, size);
    try_rule(text, size);
    free(text);
    return 0;
}
