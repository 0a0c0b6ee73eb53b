/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: fuzzing the two sources of reservations. After an even first byte the input is the body of a request; after an
 * odd first byte it is the text of a row, which is tried as it is, and with the right checksum, which no mutation
 * finds.
 */
#include <inttypes.h>

#include <facet/allocation.h>
#include <xxhash.h>

#include "fuzz.h"
#include "request_reservation.h"

static void check_wanted(const struct reservation *wanted)
{
    FUZZ_ASSERT(wanted->item_count > 0 && wanted->item_count <= RESERVATION_ITEMS_MOST);
    FUZZ_ASSERT(wanted->part_count == 0);
    FUZZ_ASSERT(facet_map_strategy_name(wanted->strategy) && affinity_name(wanted->affinity));
    FUZZ_ASSERT(!wanted->name[0] || facet_check_name(wanted->name, "name", NULL) == FACET_OK);
    for (uint32_t i = 0; i < wanted->item_count; i++)
        FUZZ_ASSERT(wanted->items[i].amount > 0 && wanted->items[i].slot[0]);
}

/* An accepted reservation can be written and read again. */
static void check_again(const struct reservation *reservation)
{
    CLEANUP_RESERVATION struct reservation again = {0};
    struct reservation_row row = {0};

    FUZZ_ASSERT(reservation_to_row(reservation, &row, NULL) == FACET_OK);
    FUZZ_ASSERT(reservation_from_row(&row, &again, NULL) == FACET_OK);
    FUZZ_ASSERT(again.item_count == reservation->item_count && again.part_count == reservation->part_count);
    for (uint32_t i = 0; i < again.part_count; i++)
        FUZZ_ASSERT(again.parts[i].amount == reservation->parts[i].amount &&
                    strcmp(again.parts[i].device, reservation->parts[i].device) == 0);
    free(row.text);
}

static void fuzz_body(const char *text, size_t size)
{
    CLEANUP_RESERVATION struct reservation wanted = {0};
    struct facet_error error = {0};
    bool dry_run = false;

    enum facet_status status = request_parse_reservation(text, size, &wanted, &dry_run, &error);
    if (status == FACET_OK) {
        check_wanted(&wanted);
        return;
    }
    FUZZ_ASSERT(status == FACET_INVALID_ARGUMENT || status == FACET_OUT_OF_RANGE);
    FUZZ_ASSERT(error.status == status && error.argument[0] && error.message[0]);
    FUZZ_ASSERT(!wanted.items && !wanted.parts);
}

static void fuzz_row(const char *text, size_t size)
{
    CLEANUP_RESERVATION struct reservation reservation = {0};
    struct reservation_row row = {.id = "00000000000000aa", .name = "a", .text_size = size};
    struct facet_error error = {0};

    row.text = malloc(size + 1);
    FUZZ_ASSERT(row.text);
    memcpy(row.text, text, size);
    enum facet_status status = reservation_from_row(&row, &reservation, &error);
    FUZZ_ASSERT(status == FACET_OK || status == FACET_CORRUPT || status == FACET_UNSUPPORTED);
    if (status == FACET_OK)
        check_again(&reservation);
    else
        FUZZ_ASSERT(strstr(error.message, "reservation"));
    free(row.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t length = size - 1;
    char *text = malloc(length + 96);

    FUZZ_ASSERT(text);
    memcpy(text, data + 1, length);
    if (data[0] % 2 == 0) {
        fuzz_body(text, length);
    } else {
        fuzz_row(text, length);
        XXH128_hash_t hash = XXH3_128bits(text, length);
        length += (size_t)snprintf(text + length, 96, "end %u %016" PRIx64 "%016" PRIx64 "\n", data[0] / 2u,
                                   (uint64_t)hash.high64, (uint64_t)hash.low64);
        fuzz_row(text, length);
    }
    free(text);
    return 0;
}
