/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: rates, bars and the table of `facet top`. Never: clears the screen: each frame is written over the last one. */
#include "top_view.h"

#include <inttypes.h>
#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "view.h"

enum { BAR_CELLS = 8, COLUMN_SHARE = 4 };

/* Counters of the same vGPU one interval ago; NULL when it is new. */
static const json_t *find_earlier(const struct top_sample *before, const json_t *vgpu)
{
    const json_t *candidate;
    size_t index;

    json_array_foreach (json_object_get(before->answer, "vgpus"), index, candidate)
        if (strcmp(view_text(candidate, "id"), view_text(vgpu, "id")) == 0)
            return candidate;
    return NULL;
}

/* How much a counter grew, per `unit` nanoseconds of the interval; "" when that is not known. */
static char *print_rate(const json_t *earlier, const json_t *vgpu, const char *member, uint64_t interval_ns,
                        uint64_t unit, const char *sign, char *buffer)
{
    buffer[0] = '\0';
    if (!earlier || !interval_ns || !view_has(vgpu, member) || !view_has(earlier, member) ||
        view_number(vgpu, member) < view_number(earlier, member))
        return buffer;
    unsigned __int128 grown = view_number(vgpu, member) - view_number(earlier, member);
    snprintf(buffer, VIEW_SIZE, "%" PRIu64 "%s", (uint64_t)(grown * unit / interval_ns), sign);
    return buffer;
}

static void append_text(char *buffer, size_t size, const char *text)
{
    size_t used = strlen(buffer);

    snprintf(buffer + used, size - used, "%s", text);
}

static char *draw_bar(uint64_t milli, char *buffer, size_t size)
{
    bool is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    uint64_t filled = (milli * BAR_CELLS + 500) / 1000;

    buffer[0] = '\0';
    for (uint64_t cell = 0; cell < BAR_CELLS; cell++)
        append_text(buffer, size, cell < filled ? (is_utf8 ? "\u2588" : "#") : (is_utf8 ? "\u2591" : "."));
    return buffer;
}

/* Whether launches waited in the interval; earlier waits are in the counter, too. */
static bool launches_waited(const json_t *earlier, const json_t *vgpu)
{
    return earlier && view_number(vgpu, "throttled_ns") > view_number(earlier, "throttled_ns");
}

static const char *share_color(const json_t *vgpu, const json_t *earlier)
{
    uint64_t share = view_number(vgpu, "share_milli"), guarantee = view_number(vgpu, "compute_request_milli");

    if (strcmp(view_text(vgpu, "state"), "frozen") == 0)
        return "blue";
    /* Yellow: the vGPU gets less than its guarantee, by more than 2 % of the device, while launches wait. */
    return share + 20 < guarantee && launches_waited(earlier, vgpu) ? "yellow" : "green";
}

static bool add_line(struct libscols_table *table, const json_t *vgpu, const json_t *earlier, uint64_t interval_ns)
{
    char graph[BAR_CELLS * 4], share[VIEW_SIZE], request_text[VIEW_SIZE], cap[VIEW_SIZE], memory[VIEW_SIZE];
    char waited[VIEW_SIZE], launches[VIEW_SIZE], processes[VIEW_SIZE], denied[VIEW_SIZE];
    uint64_t request = view_number(vgpu, "compute_request_milli"), limit = view_number(vgpu, "compute_limit_milli");
    bool measured = view_has(vgpu, "share_milli");

    snprintf(processes, sizeof processes, "%" PRIu64, view_number(vgpu, "processes"));
    snprintf(denied, sizeof denied, "%" PRIu64, view_number(vgpu, "denied_allocations"));
    const char *const cells[] = {
        view_text(vgpu, "name"),
        view_text(vgpu, "device"),
        view_text(vgpu, "state"),
        measured ? view_milli(view_number(vgpu, "share_milli"), share) : NULL,
        measured ? draw_bar(view_number(vgpu, "share_milli"), graph, sizeof graph) : NULL,
        request ? view_milli(request, request_text) : NULL,
        limit < 1000 ? view_milli(limit, cap) : NULL,
        view_vgpu_memory(vgpu, memory),
        print_rate(earlier, vgpu, "throttled_ns", interval_ns, 100, "%", waited),
        print_rate(earlier, vgpu, "launches", interval_ns, FACET_NS_PER_S, "", launches),
        view_has(vgpu, "processes") ? processes : NULL,
        view_has(vgpu, "denied_allocations") ? denied : NULL,
    };
    if (!view_row(table, cells, sizeof cells / sizeof cells[0]))
        return false;
    struct libscols_line *line = scols_table_get_line(table, scols_table_get_nlines(table) - 1);
    return !measured || scols_cell_set_color(scols_line_get_cell(line, COLUMN_SHARE), share_color(vgpu, earlier)) == 0;
}

static struct libscols_table *build_table(const struct top_sample *before, const struct top_sample *now)
{
    static const struct view_column columns[] = {
        {"NAME", SCOLS_FL_TRUNC},
        {"DEVICE", 0},
        {"STATE", 0},
        {"SHARE", SCOLS_FL_RIGHT},
        {"", 0},
        {"ASK", SCOLS_FL_RIGHT},
        {"CAP", SCOLS_FL_RIGHT},
        {"MEMORY", SCOLS_FL_RIGHT},
        {"THR", SCOLS_FL_RIGHT},
        {"L/S", SCOLS_FL_RIGHT},
        {"PROC", SCOLS_FL_RIGHT},
        {"DENY", SCOLS_FL_RIGHT},
        {NULL, 0},
    };
    struct libscols_table *table = view_table(columns);
    bool complete = table != NULL;
    const json_t *vgpu;
    size_t index;

    json_array_foreach (json_object_get(now->answer, "vgpus"), index, vgpu)
        complete = complete && add_line(table, vgpu, find_earlier(before, vgpu), now->at_ns - before->at_ns);
    if (complete)
        return table;
    scols_unref_table(table);
    return NULL;
}

/* Moves the cursor to the top, and erases each line's end and the rest of the screen, so that nothing flickers. */
static void paint_screen(const char *text)
{
    fputs("\033[H", stdout);
    for (const char *line = text; *line;) {
        int length = (int)strcspn(line, "\n");
        printf("%.*s\033[K\n", length, line);
        line += length + (line[length] == '\n');
    }
    fputs("\033[J", stdout);
}

bool top_view_print(const struct top_sample *before, const struct top_sample *now, bool redraw, const char *trouble)
{
    VIEW_CLEANUP_TABLE struct libscols_table *table = build_table(before, now);
    FACET_CLEANUP_FREE char *text = NULL;
    bool empty = table && scols_table_get_nlines(table) == 0;

    if (!table || scols_print_table_to_string(table, &text) != 0)
        return false;
    const char *none = now->answer ? "no virtual GPUs; 'facet run' makes one" : "";
    const char *note = empty ? none : text;
    if (redraw)
        paint_screen(note);
    else
        puts(note);
    if (trouble)
        printf("%s; waiting for it\n", trouble);
    fflush(stdout);
    return true;
}
