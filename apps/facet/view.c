/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: amounts and tables as people read them. Never: fetches anything. */
#include "view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <facet/limits.h>

#include "base/clock.h"
#include "terminal.h"

struct libscols_table *view_table(const struct view_column *columns)
{
    struct libscols_table *table = scols_new_table();

    if (!table)
        return NULL;
    /* Outside a terminal each column gets its full width, whatever COLUMNS says. */
    if (!isatty(STDOUT_FILENO))
        scols_table_set_termforce(table, SCOLS_TERMFORCE_NEVER);
    scols_table_enable_colors(table, view_color());
    for (; columns->title; columns++) {
        if (scols_table_new_column(table, columns->title, 0, columns->flags))
            continue;
        scols_unref_table(table);
        return NULL;
    }
    return table;
}

struct libscols_table *view_card(void)
{
    static const struct view_column columns[] = {{"NAME", 0}, {"VALUE", 0}, {NULL, 0}};
    struct libscols_table *card = view_table(columns);

    if (card)
        scols_table_enable_noheadings(card, 1);
    return card;
}

bool view_row(struct libscols_table *table, const char *const *cells, size_t count)
{
    struct libscols_line *line = scols_table_new_line(table, NULL);

    for (size_t i = 0; line && i < count; i++)
        if (scols_line_set_data(line, i, cells[i] && cells[i][0] ? cells[i] : "-") != 0)
            return false;
    return line != NULL;
}

bool view_card_add(struct libscols_table *card, const char *name, const char *value)
{
    return view_row(card, (const char *const[]){name, value}, 2);
}

bool view_color(void)
{
    const char *no_color = getenv("NO_COLOR");

    return terminal_paints(STDOUT_FILENO) && !(no_color && no_color[0]);
}

char *view_memory(uint64_t bytes, char *buffer)
{
    char text[VIEW_SIZE], unit = 'B';
    char number[VIEW_SIZE];

    facet_format_size(bytes, text, sizeof text);
    if (sscanf(text, "%39s %c", number, &unit) < 1)
        number[0] = '\0';
    snprintf(buffer, VIEW_SIZE, "%.30s%c", number, unit);
    return buffer;
}

/* A half-made vGPU has no memory limit yet. A vGPU that the daemon does not serve has a limit, but no measured use. */
char *view_vgpu_memory(const json_t *vgpu, char *buffer)
{
    char used_text[VIEW_SIZE] = "-", limit_text[VIEW_SIZE];

    if (!view_has(vgpu, "memory_limit_bytes")) {
        snprintf(buffer, VIEW_SIZE, "-");
        return buffer;
    }
    if (view_has(vgpu, "memory_used_bytes"))
        view_memory(view_number(vgpu, "memory_used_bytes"), used_text);
    snprintf(buffer, VIEW_SIZE, "%.18s/%.18s", used_text,
             view_memory(view_number(vgpu, "memory_limit_bytes"), limit_text));
    return buffer;
}

static char *print_percent(uint64_t milli, const char *suffix, char *buffer)
{
    if (milli % 10)
        snprintf(buffer, VIEW_SIZE, "%" PRIu64 ".%u%s", milli / 10, (unsigned)(milli % 10), suffix);
    else
        snprintf(buffer, VIEW_SIZE, "%" PRIu64 "%s", milli / 10, suffix);
    return buffer;
}

char *view_milli(uint64_t milli, char *buffer)
{
    return print_percent(milli, "%", buffer);
}

char *view_compute(uint64_t request, uint64_t limit, char *buffer)
{
    char request_text[VIEW_SIZE], limit_text[VIEW_SIZE];
    bool capped = limit < FACET_MILLI_WHOLE;

    if (!capped)
        snprintf(buffer, VIEW_SIZE, "%s", request ? print_percent(request, "%", request_text) : "-");
    else
        snprintf(buffer, VIEW_SIZE, "%.18s:%.18s", request ? print_percent(request, "", request_text) : "-",
                 print_percent(limit, "%", limit_text));
    return buffer;
}

char *view_seconds(uint64_t ns, char *buffer)
{
    snprintf(buffer, VIEW_SIZE, "%" PRIu64 ".%03u s", ns / FACET_NS_PER_S,
             (unsigned)(ns % FACET_NS_PER_S / FACET_NS_PER_MS));
    return buffer;
}

const char *view_text(const json_t *object, const char *member)
{
    const char *text = json_string_value(json_object_get(object, member));

    return text ? text : "";
}

uint64_t view_number(const json_t *object, const char *member)
{
    json_int_t number = json_integer_value(json_object_get(object, member));

    return number > 0 ? (uint64_t)number : 0;
}

bool view_has(const json_t *object, const char *member)
{
    const json_t *value = json_object_get(object, member);

    return value && !json_is_null(value) && !(json_is_integer(value) && json_integer_value(value) < 0);
}
