/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks of the rules that hold for every list. Never: interprets a member of an item except `size`.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "conformance/check.h"

/* Margins before and behind the items, so that an overrun is detected and harmless. */
enum { MARGIN = 2048, CANARY = 0xc3, ATTEMPTS = 4 };

/* Room for `capacity` items of `item_size` bytes between two margins, all filled with the canary. */
struct room {
    unsigned char *bytes;
    uint32_t item_size, capacity;
};

static void room_cleanup(struct room *room)
{
    free(room->bytes);
}
#define ROOM_CLEANUP __attribute__((cleanup(room_cleanup)))

static size_t room_items_bytes(const struct room *room)
{
    return (size_t)room->item_size * room->capacity;
}

static unsigned char *room_item(const struct room *room, uint32_t index)
{
    return room->bytes + MARGIN + (size_t)index * room->item_size;
}

/* The items' member `size` is not set: the argument item_size of the call says how large each item is. */
static struct room room_create(uint32_t item_size, uint32_t capacity)
{
    struct room room = {.item_size = item_size, .capacity = capacity};

    room.bytes = malloc(room_items_bytes(&room) + 2 * MARGIN);
    if (!room.bytes)
        _exit(EXIT_FAILURE);
    memset(room.bytes, CANARY, room_items_bytes(&room) + 2 * MARGIN);
    return room;
}

static bool is_canary(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != CANARY)
            return false;
    return true;
}

static bool margins_hold(const struct room *room)
{
    return is_canary(room->bytes, MARGIN) && is_canary(room->bytes + MARGIN + room_items_bytes(room), MARGIN);
}

/* Whether the items from `first` on are as room_create() left them. */
static bool rest_untouched(const struct room *room, uint32_t first)
{
    return is_canary(room_item(room, first), room_items_bytes(room) - (size_t)first * room->item_size) &&
           margins_hold(room);
}

static enum facet_status call_with(struct facet_check *check, const struct facet_check_list *list,
                                   const struct room *room, uint32_t *ret_count)
{
    return list->call(check, list->subject, room->capacity ? room_item(room, 0) : NULL, room->item_size, room->capacity,
                      ret_count);
}

static uint32_t stated_size(const struct room *room, uint32_t index)
{
    uint32_t size;

    memcpy(&size, room_item(room, index), sizeof size);
    return size;
}

static void begin_list_rule(struct facet_check *check, const struct facet_check_list *list, const char *rule)
{
    facet_check_begin(check, "%s: %s", list->name, rule);
}

void *facet_check_fetch(struct facet_check *check, const struct facet_check_list *list, uint32_t *ret_count)
{
    uint32_t capacity = 0;

    begin_list_rule(check, list, "gives all items");
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        ROOM_CLEANUP struct room room = room_create(list->struct_size, capacity);
        uint32_t count = UINT32_MAX;
        enum facet_status status = call_with(check, list, &room, &count);

        if (status == FACET_OK && count <= capacity) {
            *ret_count = count;
            facet_check_judge(check, true, "%s", "");
            memmove(room.bytes, room.bytes + MARGIN, room_items_bytes(&room));
            return FACET_TAKE_PTR(room.bytes);
        }
        if (status != FACET_TOO_SMALL) {
            facet_check_status(check, FACET_OK, status == FACET_OK ? FACET_CORRUPT : status);
            return NULL;
        }
        if (count <= capacity || count > FACET_CHECK_ITEMS) {
            facet_check_judge(check, false,
                              "expected: a count above %" PRIu32 ", at most %u\ngot: %" PRIu32 " and too_small",
                              capacity, FACET_CHECK_ITEMS, count);
            return NULL;
        }
        capacity = count;
    }
    facet_check_judge(check, false,
                      "expected: room for the count that the call asked for to be enough\ngot: too_small again");
    return NULL;
}

/* The number of items; UINT32_MAX after a failed assertion. */
static uint32_t check_count(struct facet_check *check, const struct facet_check_list *list)
{
    uint32_t count = UINT32_MAX;

    begin_list_rule(check, list, "no room at all says how many there are");
    enum facet_status status = list->call(check, list->subject, NULL, list->struct_size, 0, &count);
    bool is_answer = (status == FACET_OK && count == 0) || (status == FACET_TOO_SMALL && count > 0);
    if (!facet_check_judge(check, is_answer && count <= FACET_CHECK_ITEMS,
                           "expected: too_small and a count of 1 to %u, or ok and 0\ngot: %s and a count of %" PRIu32,
                           FACET_CHECK_ITEMS, facet_status_name(status), count))
        return UINT32_MAX;
    return count;
}

static void check_exact(struct facet_check *check, const struct facet_check_list *list, uint32_t count)
{
    ROOM_CLEANUP struct room room = room_create(list->struct_size, count);
    uint32_t got = UINT32_MAX;

    begin_list_rule(check, list, "exact room is enough, and the count is the same");
    enum facet_status status = call_with(check, list, &room, &got);
    facet_check_judge(check, status == FACET_OK && got == count,
                      "expected: ok and a count of %" PRIu32 "\ngot: %s and a count of %" PRIu32, count,
                      facet_status_name(status), got);
    begin_list_rule(check, list, "writes nothing before or behind the room");
    facet_check_judge(check, margins_hold(&room),
                      "expected: %d bytes around the items left alone\ngot: some of these bytes were written", MARGIN);
    uint32_t wrong = 0;
    while (wrong < count && stated_size(&room, wrong) == list->struct_size)
        wrong++;
    begin_list_rule(check, list, "every item says how much of it was written");
    facet_check_judge(check, wrong == count,
                      "expected: size %" PRIu32 " in each item\ngot: size %" PRIu32 " in item %" PRIu32,
                      list->struct_size, wrong < count ? stated_size(&room, wrong) : 0, wrong);
}

static void check_too_small(struct facet_check *check, const struct facet_check_list *list, uint32_t count,
                            uint32_t capacity, const char *rule)
{
    ROOM_CLEANUP struct room room = room_create(list->struct_size, capacity);
    uint32_t got = UINT32_MAX;

    begin_list_rule(check, list, rule);
    enum facet_status status = call_with(check, list, &room, &got);
    bool untouched = rest_untouched(&room, 0);
    facet_check_judge(check, status == FACET_TOO_SMALL && got == count && untouched,
                      "expected: too_small, a count of %" PRIu32 ", and nothing written\ngot: %s, a count of %" PRIu32
                      ", and %s",
                      count, facet_status_name(status), got, untouched ? "nothing written" : "items written to");
}

static void check_ample(struct facet_check *check, const struct facet_check_list *list, uint32_t count)
{
    ROOM_CLEANUP struct room room = room_create(list->struct_size, count + 3);
    uint32_t got = UINT32_MAX;

    begin_list_rule(check, list, "more room than needed is left alone");
    enum facet_status status = call_with(check, list, &room, &got);
    bool untouched = got <= room.capacity && rest_untouched(&room, got);
    facet_check_judge(check, status == FACET_OK && got == count && untouched,
                      "expected: ok, a count of %" PRIu32 ", and the rest untouched\ngot: %s, a count of %" PRIu32
                      ", and a rest %s",
                      count, facet_status_name(status), got, untouched ? "untouched" : "written to");
}

/* Whether item `index` of `room` is the beginning of the item of `full`, states its own size, and has nothing written
 * behind it. A text that the room cuts may be terminated in its last byte. */
static bool is_part(const struct room *room, const struct room *full, uint32_t index, uint32_t size, bool changes)
{
    const unsigned char *item = room_item(room, index);
    uint32_t compared = size < full->item_size ? size : full->item_size;

    if (stated_size(room, index) != compared || !is_canary(item + compared, room->item_size - compared))
        return false;
    const unsigned char *whole = room_item(full, index);
    bool ends = item[compared - 1] == whole[compared - 1] || (compared < full->item_size && item[compared - 1] == 0);
    return changes || (ends && memcmp(item + sizeof size, whole + sizeof size, compared - sizeof size - 1) == 0);
}

/* A host of another minor version has structs of another size, which is also the stride of its arrays. */
static void check_item_size(struct facet_check *check, const struct facet_check_list *list, uint32_t count,
                            uint32_t item_size, const char *rule)
{
    ROOM_CLEANUP struct room full = room_create(list->struct_size, count);
    ROOM_CLEANUP struct room room = room_create(item_size, count);
    uint32_t got = UINT32_MAX, first_wrong = 0;

    begin_list_rule(check, list, rule);
    enum facet_status status = call_with(check, list, &full, &got);
    if (status == FACET_OK)
        status = call_with(check, list, &room, &got);
    while (first_wrong < count && is_part(&room, &full, first_wrong, item_size, list->changes))
        first_wrong++;
    facet_check_judge(check, status == FACET_OK && got == count && first_wrong == count && margins_hold(&room),
                      "expected: ok, %" PRIu32 " items %" PRIu32
                      " bytes apart, each as far as it fits, its size set, the bytes beyond untouched\n"
                      "got: %s, a count of %" PRIu32 ", margins %s, the first wrong item is %" PRIu32,
                      count, item_size, facet_status_name(status), got, margins_hold(&room) ? "whole" : "written to",
                      first_wrong);
}

static void check_order(struct facet_check *check, const struct facet_check_list *list, uint32_t count)
{
    ROOM_CLEANUP struct room first = room_create(list->struct_size, count);
    ROOM_CLEANUP struct room second = room_create(list->struct_size, count);
    uint32_t got = 0;

    begin_list_rule(check, list, "the same again, in the same order");
    enum facet_status status = call_with(check, list, &first, &got);
    if (status == FACET_OK)
        status = call_with(check, list, &second, &got);
    bool same = memcmp(room_item(&first, 0), room_item(&second, 0), room_items_bytes(&first)) == 0;
    facet_check_judge(check, status == FACET_OK && same, "expected: ok and the same items\ngot: %s and %s",
                      facet_status_name(status), same ? "the same" : "other items, or another order");
}

static void check_nulls(struct facet_check *check, const struct facet_check_list *list, uint32_t count)
{
    ROOM_CLEANUP struct room room = room_create(list->struct_size, count + 1);
    uint32_t got = UINT32_MAX;

    begin_list_rule(check, list, "no place for the count is an invalid argument, and nothing is written");
    enum facet_status status = call_with(check, list, &room, NULL);
    if (rest_untouched(&room, 0))
        facet_check_status(check, FACET_INVALID_ARGUMENT, status);
    else
        facet_check_judge(check, false, "expected: nothing written to the items\ngot: items that were written to");
    begin_list_rule(check, list, "items of size 0 are an invalid argument");
    status = list->call(check, list->subject, room_item(&room, 0), 0, room.capacity, &got);
    facet_check_judge(check, status == FACET_INVALID_ARGUMENT && got == UINT32_MAX && rest_untouched(&room, 0),
                      "expected: invalid_argument, and nothing written\ngot: %s, and a count of %" PRIu32,
                      facet_status_name(status), got);
    if (count == 0)
        return;
    begin_list_rule(check, list, "NULL items with room for some are an invalid argument");
    status = list->call(check, list->subject, NULL, list->struct_size, count, &got);
    facet_check_judge(check, status == FACET_INVALID_ARGUMENT && got == UINT32_MAX,
                      "expected: invalid_argument, and the count untouched\ngot: %s, and a count of %" PRIu32,
                      facet_status_name(status), got);
}

void facet_check_list_rules(struct facet_check *check, const struct facet_check_list *list)
{
    uint32_t count = check_count(check, list);

    if (count == UINT32_MAX)
        return;
    check_exact(check, list, count);
    check_ample(check, list, count);
    check_nulls(check, list, count);
    if (count == 0)
        return;
    check_too_small(check, list, count, count - 1, "room for one too few is too small, and nothing is written");
    if (count > 2)
        check_too_small(check, list, count, 1, "room for one is too small, and nothing is written");
    check_item_size(check, list, count, list->struct_size / 2 / 8 * 8, "an older host's smaller struct is not overrun");
    check_item_size(check, list, count, list->struct_size + 24, "a newer host's larger struct keeps its stride");
    if (!list->changes)
        check_order(check, list, count);
}
