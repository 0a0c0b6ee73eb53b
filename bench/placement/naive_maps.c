/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the original's default strategy, `evenly`; see naive_maps.h. Never: uses Facet's implementation. */
#include <stdlib.h>
#include <string.h>

#include "naive_maps.h"

/* --- decimals: digits and an exponent, as the original counts --- */

struct decimal {
    __int128 digits;
    int exponent;
};

static void align_digits(struct decimal *left, struct decimal *right)
{
    for (; left->exponent > right->exponent; left->exponent--)
        left->digits *= 10;
    for (; right->exponent > left->exponent; right->exponent--)
        right->digits *= 10;
}

static struct decimal add_decimals(struct decimal left, struct decimal right, int sign)
{
    align_digits(&left, &right);
    return (struct decimal){left.digits + sign * right.digits, left.exponent};
}

static int compare_decimals(struct decimal left, struct decimal right)
{
    align_digits(&left, &right);
    return (left.digits > right.digits) - (left.digits < right.digits);
}

/* Rounds down to two digits. */
static struct decimal quantize(struct decimal value)
{
    for (; value.exponent > -2; value.exponent--)
        value.digits *= 10;
    for (; value.exponent < -2; value.exponent++)
        value.digits /= 10;
    return value;
}

static struct decimal divide_decimal(struct decimal value, int64_t by)
{
    return (struct decimal){value.digits * 1000000000000 / by, value.exponent - 12};
}

static struct decimal decimal_of(int64_t amount)
{
    struct decimal value = {amount, -6};

    for (; value.digits && value.exponent < 0 && value.digits % 10 == 0; value.exponent++)
        value.digits /= 10;
    return value;
}

/* --- a dictionary from names to decimals: a hash table of chains --- */

#define BUCKETS 256u

struct pair {
    char *key;
    struct decimal value;
    struct pair *chain, *next_inserted; /* in the order of insertion */
};

struct dictionary {
    struct pair *buckets[BUCKETS], *first, *last;
    uint32_t count;
};

static uint32_t hash_key(const char *key)
{
    uint32_t value = 2166136261u;

    for (; *key; key++)
        value = (value ^ (unsigned char)*key) * 16777619u;
    return value % BUCKETS;
}

static struct pair *lookup(const struct dictionary *dictionary, const char *key)
{
    struct pair *pair = dictionary->buckets[hash_key(key)];

    while (pair && strcmp(pair->key, key) != 0)
        pair = pair->chain;
    return pair;
}

static void store_value(struct dictionary *dictionary, const char *key, struct decimal value)
{
    struct pair *pair = lookup(dictionary, key);

    if (pair) {
        pair->value = value;
        return;
    }
    pair = calloc(1, sizeof *pair);
    if (!pair || !(pair->key = strdup(key)))
        abort();
    pair->value = value;
    pair->chain = dictionary->buckets[hash_key(key)];
    dictionary->buckets[hash_key(key)] = pair;
    if (dictionary->last)
        dictionary->last->next_inserted = pair;
    else
        dictionary->first = pair;
    dictionary->last = pair;
    dictionary->count++;
}

static void clear_dictionary(struct dictionary *dictionary)
{
    for (struct pair *pair = dictionary->first, *next; pair; pair = next) {
        next = pair->next_inserted;
        free(pair->key);
        free(pair);
    }
    memset(dictionary, 0, sizeof *dictionary);
}

static void copy_dictionary(struct dictionary *to, const struct dictionary *from)
{
    memset(to, 0, sizeof *to);
    for (const struct pair *pair = from->first; pair; pair = pair->next_inserted)
        store_value(to, pair->key, pair->value);
}

/* --- a node: one slot to a map --- */

struct naive_map {
    const char *slot;
    bool fraction;
    struct dictionary capacities, used;
};

struct naive_node {
    struct naive_map *maps;
    const struct facet_map_device *devices;
    uint32_t map_count, device_count;
    uint8_t *weights; /* of the graph: all pairs of devices */
};

struct naive_grant {
    struct dictionary parts[4]; /* by map */
};

struct naive_node *naive_open(const struct facet_map_config *maps, uint32_t map_count,
                              const struct facet_map_device *devices, uint32_t device_count)
{
    struct naive_node *node = calloc(1, sizeof *node);

    if (!node || !(node->maps = calloc(map_count, sizeof *node->maps)) ||
        !(node->weights = calloc(device_count, device_count)))
        abort();
    node->devices = devices;
    node->map_count = map_count;
    node->device_count = device_count;
    for (uint32_t i = 0; i < device_count; i++) {
        struct naive_map *map = &node->maps[devices[i].map];

        map->slot = devices[i].slot;
        map->fraction = maps[devices[i].map].kind == FACET_MAP_FRACTION;
        store_value(&map->capacities, devices[i].id, decimal_of(devices[i].capacity));
        store_value(&map->used, devices[i].id, decimal_of(0));
        for (uint32_t k = 0; k < device_count; k++)
            node->weights[i * device_count + k] = devices[i].numa_node != devices[k].numa_node;
    }
    return node;
}

void naive_close(struct naive_node *node)
{
    for (uint32_t i = 0; i < node->map_count; i++) {
        clear_dictionary(&node->maps[i].capacities);
        clear_dictionary(&node->maps[i].used);
    }
    free(node->maps);
    free(node->weights);
    free(node);
}

/* --- order --- */

struct entry {
    const char *id;
    struct decimal free, used;
    uint32_t rank;
};

static int most_free_first(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    int order = compare_decimals(b->free, a->free);

    return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

/* The map's devices of a group (NULL: all), sorted. */
static uint32_t sort_group(const struct naive_map *map, const struct dictionary *group, struct entry *entries)
{
    uint32_t count = 0;

    for (const struct pair *pair = map->used.first; pair; pair = pair->next_inserted) {
        if (group && !lookup(group, pair->key))
            continue;
        entries[count] = (struct entry){
            pair->key, add_decimals(lookup(&map->capacities, pair->key)->value, pair->value, -1), pair->value, count};
        count++;
    }
    qsort(entries, count, sizeof *entries, most_free_first);
    return count;
}

/* Searches the graph for the map's devices that edges of weight 0 connect to `from`. */
static void connect_devices(const struct naive_node *node, uint32_t map, uint32_t from, bool *seen,
                            struct dictionary *group)
{
    uint32_t queue[4096], head = 0, tail = 0;

    queue[tail++] = from;
    seen[from] = true;
    while (head < tail) {
        uint32_t device = queue[head++];

        store_value(group, node->devices[device].id, (struct decimal){0});
        for (uint32_t i = 0; i < node->device_count; i++) {
            if (node->devices[i].map != map || node->weights[device * node->device_count + i] || seen[i])
                continue;
            seen[i] = true;
            queue[tail++] = i;
        }
    }
}

/* The order for the first slot: the groups one after the other, the least used first. */
static uint32_t order_first(const struct naive_node *node, uint32_t map, struct entry *entries)
{
    struct dictionary groups[16] = {0};
    struct decimal used[16];
    bool seen[4096] = {false};
    uint32_t group_count = 0, count = 0;

    for (uint32_t i = 0; i < node->device_count; i++)
        if (node->devices[i].map == map && !seen[i] && group_count < 16)
            connect_devices(node, map, i, seen, &groups[group_count++]);
    for (uint32_t i = 0; i < group_count; i++) {
        used[i] = (struct decimal){0};
        for (const struct pair *pair = groups[i].first; pair; pair = pair->next_inserted)
            used[i] = add_decimals(used[i], lookup(&node->maps[map].used, pair->key)->value, 1);
    }
    for (uint32_t done = 0; done < group_count; done++) {
        uint32_t best = group_count;

        for (uint32_t i = 0; i < group_count; i++)
            if (groups[i].count && (best == group_count || compare_decimals(used[i], used[best]) < 0))
                best = i;
        if (best == group_count)
            break;
        count += sort_group(&node->maps[map], &groups[best], entries + count);
        clear_dictionary(&groups[best]);
    }
    return count;
}

/* The order for later slots: devices near those of the previous slot, then the others. */
static uint32_t order_later(const struct naive_node *node, uint32_t map, const bool *nodes, struct entry *entries)
{
    struct dictionary near = {0}, far = {0};
    uint32_t count;

    for (uint32_t i = 0; i < node->device_count; i++)
        if (node->devices[i].map == map)
            store_value(nodes[node->devices[i].numa_node] ? &near : &far, node->devices[i].id, (struct decimal){0});
    count = sort_group(&node->maps[map], &near, entries);
    count += sort_group(&node->maps[map], &far, entries + count);
    clear_dictionary(&near);
    clear_dictionary(&far);
    return count;
}

/* --- evenly --- */

static bool spread_amount(struct naive_map *map, struct decimal asked, const struct entry *entries, uint32_t count,
                          struct dictionary *parts)
{
    struct decimal left = asked;

    while (left.digits > 0) {
        struct decimal total = {0};
        int64_t sharers = 0, rank = 0;

        for (uint32_t i = 0; i < count; i++) {
            const struct pair *part = lookup(parts, entries[i].id);
            struct decimal free = part ? add_decimals(entries[i].free, part->value, -1) : entries[i].free;

            total = add_decimals(total, free, 1);
            sharers += free.digits > 0;
        }
        if (compare_decimals(total, left) < 0 || sharers == 0)
            return false;
        for (; left.exponent > 0; left.exponent--)
            left.digits *= 10;

        __int128 base = left.digits / sharers, extra = left.digits % sharers;
        for (uint32_t i = 0; i < count && left.digits > 0; i++) {
            const struct pair *part = lookup(parts, entries[i].id);
            struct decimal had = part ? part->value : (struct decimal){0};
            struct decimal free = add_decimals(entries[i].free, had, -1), share;

            if (free.digits <= 0)
                continue;
            share = (struct decimal){base + (rank++ < extra), 0};
            if (compare_decimals(free, share) < 0)
                share = free;
            store_value(parts, entries[i].id, add_decimals(had, share, 1));
            left = add_decimals(left, share, -1);
        }
    }
    return true;
}

static void spread_across_window(struct decimal asked, const struct entry *window, uint32_t count,
                                 struct dictionary *parts)
{
    uint32_t sharers = count;
    struct decimal share, left;

    while (sharers > 0 && compare_decimals(window[sharers - 1].free, divide_decimal(asked, sharers)) < 0) {
        sharers--;
        store_value(parts, window[sharers].id, window[sharers].free);
        asked = add_decimals(asked, window[sharers].free, -1);
    }
    if (sharers == 0)
        return;
    share = quantize(divide_decimal(asked, sharers));
    left = quantize(add_decimals(asked, (struct decimal){share.digits * sharers, share.exponent}, -1));
    for (uint32_t i = 0; i < sharers; i++)
        store_value(parts, window[i].id, i < left.digits ? add_decimals(share, (struct decimal){1, -2}, 1) : share);
}

static int by_value(const void *left, const void *right)
{
    return compare_decimals(*(const struct decimal *)left, *(const struct decimal *)right);
}

static struct decimal evenness(const struct dictionary *parts)
{
    struct decimal *sorted = calloc(parts->count + 1, sizeof *sorted), score = {0};
    uint32_t count = 0;

    if (!sorted)
        abort();
    for (const struct pair *pair = parts->first; pair; pair = pair->next_inserted)
        sorted[count++] = pair->value;
    qsort(sorted, count, sizeof *sorted, by_value);
    for (uint32_t i = 1; i < count; i++)
        score = add_decimals(score, add_decimals(sorted[i], sorted[i - 1], -1), -1);
    free(sorted);
    return score;
}

/* Tries every number of devices and every window, with a dictionary for each. */
static bool split_evenly(struct decimal asked, const struct entry *entries, uint32_t count, struct dictionary *parts)
{
    struct dictionary best = {0};
    struct decimal best_score = {0};

    for (uint32_t i = count; i-- > 0;)
        if (compare_decimals(asked, entries[i].free) <= 0) {
            store_value(parts, entries[i].id, quantize(asked));
            return true;
        }
    for (uint32_t devices = 1; devices <= count; devices++) {
        struct decimal bound = {0};

        for (uint32_t first = 0; first + devices <= count; first++) {
            struct decimal total = {0}, score;
            struct dictionary candidate = {0};

            for (uint32_t i = 0; i < devices; i++)
                total = add_decimals(total, entries[first + i].free, 1);
            if (compare_decimals(total, asked) < 0)
                break;
            spread_across_window(asked, entries + first, devices, &candidate);
            score = evenness(&candidate);
            if (first == 0)
                bound = score;
            if (compare_decimals(score, bound) < 0) {
                clear_dictionary(&candidate);
                break;
            }
            if (best.count == 0 || compare_decimals(score, best_score) > 0 || best.count == devices) {
                clear_dictionary(&best);
                best = candidate;
                best_score = score;
            } else {
                clear_dictionary(&candidate);
            }
        }
    }
    *parts = best;
    return best.count > 0;
}

/* --- requests --- */

static bool allocate_slot(struct naive_node *node, uint32_t map, int64_t amount, uint32_t affinity, bool *nodes,
                          bool *hinted, struct dictionary *parts)
{
    struct naive_map *chosen = &node->maps[map];
    struct entry *entries = calloc(node->device_count, sizeof *entries);
    struct decimal asked = decimal_of(amount);
    uint32_t count;
    bool done;

    if (!entries)
        abort();
    if (affinity == FACET_AFFINITY_NONE)
        count = sort_group(chosen, NULL, entries);
    else
        count = *hinted ? order_later(node, map, nodes, entries) : order_first(node, map, entries);
    done = chosen->fraction ? split_evenly(asked, entries, count, parts)
                            : spread_amount(chosen, asked, entries, count, parts);
    free(entries);
    memset(nodes, 0, 16);
    for (const struct pair *pair = done ? parts->first : NULL; pair; pair = pair->next_inserted) {
        struct pair *used = lookup(&chosen->used, pair->key);

        used->value = add_decimals(used->value, pair->value, 1);
        for (uint32_t i = 0; i < node->device_count; i++)
            if (node->devices[i].map == map && strcmp(node->devices[i].id, pair->key) == 0)
                nodes[node->devices[i].numa_node] = true;
    }
    *hinted = true;
    return done;
}

struct naive_grant *naive_allocate(struct naive_node *node, const struct facet_maps_item *items, uint32_t count,
                                   uint32_t affinity)
{
    struct naive_grant *grant = calloc(1, sizeof *grant);
    struct dictionary *saved = calloc(node->map_count, sizeof *saved);
    bool nodes[16] = {false}, hinted = false, done = true;

    if (!grant || !saved)
        abort();
    for (uint32_t map = 0; map < node->map_count; map++)
        copy_dictionary(&saved[map], &node->maps[map].used);
    for (uint32_t map = 0; done && map < node->map_count; map++)
        for (uint32_t i = 0; done && i < count; i++)
            if (strcmp(items[i].slot, node->maps[map].slot) == 0)
                done = allocate_slot(node, map, items[i].amount, affinity, nodes, &hinted, &grant->parts[map]);
    for (uint32_t map = 0; map < node->map_count; map++) {
        if (!done) {
            clear_dictionary(&node->maps[map].used);
            copy_dictionary(&node->maps[map].used, &saved[map]);
        }
        clear_dictionary(&saved[map]);
    }
    free(saved);
    if (done)
        return grant;
    for (uint32_t map = 0; map < node->map_count; map++)
        clear_dictionary(&grant->parts[map]);
    free(grant);
    return NULL;
}

void naive_release(struct naive_node *node, struct naive_grant *grant)
{
    for (uint32_t map = 0; grant && map < node->map_count; map++) {
        for (const struct pair *pair = grant->parts[map].first; pair; pair = pair->next_inserted) {
            struct pair *used = lookup(&node->maps[map].used, pair->key);

            used->value = add_decimals(used->value, pair->value, -1);
        }
        clear_dictionary(&grant->parts[map]);
    }
    free(grant);
}
