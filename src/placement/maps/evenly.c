/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the strategy `evenly`, which spreads whole units, fits a part on one device, or splits it with least
 * difference.
 * Never: gives a place more units than it has.
 */
#include "placement/maps/maps.h"

/* --- discrete: each round divides the units that are left among the places that have some free --- */

/* Divides `left` units once over all candidates; returns the units that are left. */
static int64_t spread_round(struct facet_maps *maps, const struct maps_item *item, int64_t left, int64_t *granted)
{
    struct maps_scratch *scratch = &maps->scratch;
    int64_t sharers = 0, base, extra, rank = 0;

    for (uint32_t i = 0; i < item->candidates; i++)
        sharers += scratch->units[i] > granted[i];
    if (sharers == 0)
        return 0; /* does not happen: the caller has checked that there is room */
    base = left / sharers;
    extra = left % sharers;
    for (uint32_t i = 0; i < item->candidates; i++) {
        int64_t room = scratch->units[i] - granted[i], share;

        if (room <= 0)
            continue;
        share = base + (rank++ < extra);
        share = share < room ? share : room;
        granted[i] += share;
        left -= share;
    }
    return left;
}

enum facet_status maps_spread(struct facet_maps *maps, struct maps_item *item)
{
    struct maps_scratch *scratch = &maps->scratch;
    int64_t total = 0, left = item->units, *granted = scratch->sums;

    if (item->units <= item->candidates) { /* one unit of each of the first candidates: each has at least one */
        for (int64_t i = 0; i < item->units; i++)
            maps_add_part(maps, scratch->cells[i], item->unit);
        return FACET_OK;
    }
    for (uint32_t i = 0; i < item->candidates; i++) {
        total += scratch->units[i];
        granted[i] = 0;
    }
    if (total < item->units)
        return maps_refuse_short(item, total * item->unit);
    while (left > 0) /* each round places all units or fills a place */
        left = spread_round(maps, item, left, granted);
    for (uint32_t i = 0; i < item->candidates; i++)
        if (granted[i] > 0)
            maps_add_part(maps, scratch->cells[i], granted[i] * item->unit);
    return FACET_OK;
}

/* --- fraction --- */

int64_t maps_min_amount(const struct maps_item *item)
{
    return item->request->least ? item->request->least : MAPS_GRID;
}

/* Fraction maps skip places that are nearly full. */
static void drop_small_candidates(struct facet_maps *maps, struct maps_item *item)
{
    struct maps_scratch *scratch = &maps->scratch;
    int64_t min = maps_min_amount(item);
    uint32_t kept = 0, near = 0;

    for (uint32_t i = 0; i < item->candidates; i++) {
        if (maps_free(&maps->cells[scratch->cells[i]]) < min)
            continue;
        near += i < item->hinted_candidates;
        scratch->cells[kept] = scratch->cells[i];
        scratch->units[kept++] = scratch->units[i];
    }
    item->too_small = item->candidates - kept;
    item->candidates = kept;
    item->hinted_candidates = near;
}

/*
 * Returns the fullest of the candidates from `first` on, before `end`, that has room; the last of equally full
 * ones.
 * MAPS_NONE: none has room. Backend.AI's rules take the last candidate that has room, which is another one
 * only where
 * affinity made the order.
 */
static uint32_t fit_among(const struct facet_maps *maps, const struct maps_item *item, uint32_t first, uint32_t end)
{
    const int64_t *units = maps->scratch.units;
    uint32_t best = MAPS_NONE;

    for (uint32_t i = end; i-- > first;) {
        if (units[i] < item->units)
            continue;
        if (item->request->rules == FACET_MAPS_ROUND_DOWN)
            return i;
        if (best == MAPS_NONE || units[i] < units[best])
            best = i;
    }
    return best;
}

/* The fullest candidate that all units fit, if possible among the hinted ones, near the earlier grants. */
static uint32_t best_fit(const struct facet_maps *maps, const struct maps_item *item)
{
    uint32_t best = MAPS_NONE;

    if (item->request->rules == FACET_MAPS_EXACT)
        best = fit_among(maps, item, 0, item->hinted_candidates);
    return best == MAPS_NONE ? fit_among(maps, item, 0, item->candidates) : best;
}

static bool is_descending(const struct maps_scratch *scratch, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        if (scratch->units[i] > scratch->units[i - 1])
            return false;
    return true;
}

/*
 * Affinity prefers places in another order than by their free units. Keeps as many of the first candidates as are
 * needed, and sorts them by free units; the insertion sort keeps the order among equals.
 */
static void narrow_candidates(struct facet_maps *maps, struct maps_item *item)
{
    struct maps_scratch *scratch = &maps->scratch;
    int64_t total = 0;
    uint32_t count = 0;

    while (count < item->candidates && total < item->units)
        total += scratch->units[count++];
    item->candidates = count;
    for (uint32_t i = 1; i < count; i++) {
        int64_t units = scratch->units[i];
        uint32_t cell = scratch->cells[i], k = i;

        for (; k > 0 && scratch->units[k - 1] < units; k--) {
            scratch->units[k] = scratch->units[k - 1];
            scratch->cells[k] = scratch->cells[k - 1];
        }
        scratch->units[k] = units;
        scratch->cells[k] = cell;
    }
}

/*
 * A window over the candidates, which are sorted by free units. The last `whole` candidates of the window give all
 * their free units, the other candidates `share` each.
 */
struct window {
    uint32_t first, count, whole; /* index of the first candidate; number of candidates */
    int64_t share, extra;         /* the first `extra` candidates give one unit more than `share` */
    int64_t difference;           /* between the largest part and the smallest */
};

/* Divides `units` over `count` candidates from `first` on: candidates with too few units for an even share give all. */
static struct window divide_over_window(const struct maps_scratch *scratch, uint32_t first, uint32_t count,
                                        int64_t units)
{
    struct window window = {.first = first, .count = count};
    uint32_t sharers = count;

    while (sharers > 0 && (__int128)scratch->units[first + sharers - 1] * sharers < units)
        units -= scratch->units[first + --sharers];
    window.whole = count - sharers;
    window.share = sharers ? units / sharers : 0;
    window.extra = sharers ? units % sharers : 0;
    window.difference =
        window.share + (window.extra > 0) - (window.whole ? scratch->units[first + count - 1] : window.share);
    return window;
}

/* Moves a window of `count` places from the first on, as long as it has enough units and is as even as at the start. */
static struct window slide_window(const struct maps_scratch *scratch, const struct maps_item *item, uint32_t count)
{
    struct window best = divide_over_window(scratch, 0, count, item->units);
    int64_t bound = best.difference;

    for (uint32_t first = 1; first + count <= item->candidates; first++) {
        struct window window;

        if (scratch->sums[first + count] - scratch->sums[first] < item->units)
            break;
        window = divide_over_window(scratch, first, count, item->units);
        if (window.difference > bound)
            break;
        best = window;
    }
    return best;
}

static struct window best_window(const struct maps_scratch *scratch, const struct maps_item *item)
{
    struct window best = {0};
    uint32_t count = 1;

    while (scratch->sums[count] < item->units)
        count++;
    best = slide_window(scratch, item, count++);
    /* Of equally even windows the one with fewer devices wins. Each device must get at least one unit. */
    for (; count <= item->candidates && count <= item->units && best.difference > 0; count++) {
        struct window window;

        if (best.difference == 1 && item->units % count != 0)
            continue;
        window = slide_window(scratch, item, count);
        if (window.difference < best.difference)
            best = window;
    }
    return best;
}

static void add_window(struct facet_maps *maps, const struct maps_item *item, const struct window *window)
{
    struct maps_scratch *scratch = &maps->scratch;
    uint32_t sharers = window->count - window->whole;

    for (uint32_t i = 0; i < window->count; i++) {
        uint32_t place = window->first + i;
        int64_t units = i < sharers ? window->share + (i < window->extra) : scratch->units[place];

        if (units > 0)
            maps_add_part(maps, scratch->cells[place], units * item->unit);
    }
}

enum facet_status maps_split(struct facet_maps *maps, struct maps_item *item)
{
    struct maps_scratch *scratch = &maps->scratch;
    uint32_t fitting;

    drop_small_candidates(maps, item);
    scratch->sums[0] = 0;
    for (uint32_t i = 0; i < item->candidates; i++)
        scratch->sums[i + 1] = scratch->sums[i] + scratch->units[i];
    if (scratch->sums[item->candidates] < item->units)
        return maps_refuse_short(item, scratch->sums[item->candidates] * item->unit);
    if (item->units == 0)
        return FACET_OK;
    fitting = best_fit(maps, item);
    if (fitting != MAPS_NONE) {
        maps_add_part(maps, scratch->cells[fitting], item->units * item->unit);
        return FACET_OK;
    }
    if (!is_descending(scratch, item->candidates)) {
        narrow_candidates(maps, item);
        for (uint32_t i = 0; i < item->candidates; i++)
            scratch->sums[i + 1] = scratch->sums[i] + scratch->units[i];
    }
    struct window window = best_window(scratch, item);
    add_window(maps, item, &window);
    return FACET_OK;
}
