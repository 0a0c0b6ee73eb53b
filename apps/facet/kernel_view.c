/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: remarks, tables and JSON of kernels. Never: prints a control sequence from a source. */
#include "kernel_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "kernel/cache.h"
#include "terminal.h"
#include "view.h"

enum { LINE_MOST = 400, CELL_SIZE = 512 };

/* --- remarks ---------------------------------------------------------------------------------------------------- */

static const char *severity_name(uint32_t severity)
{
    return severity == FACET_SEVERITY_ERROR ? "error" : severity == FACET_SEVERITY_WARNING ? "warning" : "note";
}

static bool paints_stderr(void)
{
    const char *refused = getenv("NO_COLOR");

    return terminal_paints(STDERR_FILENO) && !(refused && refused[0]);
}

/* The place of a line in the source, and its length; NULL past the end. */
static const char *find_line(const struct kernel_text *source, uint32_t number, size_t *ret_length)
{
    const char *line = source->bytes, *end = source->bytes + source->size;

    for (uint32_t i = 1; i < number && line; i++) {
        line = memchr(line, '\n', (size_t)(end - line));
        line = line ? line + 1 : NULL;
    }
    if (!line || line >= end)
        return NULL;
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    *ret_length = (size_t)((stop ? stop : end) - line);
    return line;
}

/* Shows one character as facet_text_show() does, and a NUL, at which that function would stop, as "<00>". */
static size_t show_character(const char *at, char *shown)
{
    size_t used = facet_text_show(at, shown);

    if (!used)
        memcpy(shown, "<00>", sizeof "<00>");
    return used ? used : 1;
}

/* Prints the line, and a caret under the column. Tabs are kept in both lines, as terminals differ in their width. */
static void print_line(const struct kernel_text *source, const struct facet_diagnostic *remark)
{
    char text[LINE_MOST * (FACET_TEXT_SHOWN_SIZE - 1) + 1], below[sizeof text], shown[FACET_TEXT_SHOWN_SIZE];
    char *to = text, *under = below;
    size_t length = 0, used;
    const char *line = find_line(source, remark->line, &length);

    if (!line || length > LINE_MOST || remark->column == 0 || remark->column > length + 1)
        return;
    for (size_t i = 0; i < length; i += used) {
        bool tab = line[i] == '\t';

        used = show_character(line + i, shown);
        if (tab)
            memcpy(shown, "\t", sizeof "\t");
        to = stpcpy(to, shown);
        for (size_t width = shown[0] == '<' ? strlen(shown) : 1; width && i + 1 < remark->column; width--)
            *under++ = tab ? '\t' : ' ';
    }
    *to = *under = '\0';
    fprintf(stderr, "%s\n%s%s^%s\n", text, below, paints_stderr() ? "\033[1;32m" : "",
            paints_stderr() ? "\033[0m" : "");
}

static void print_remark(const struct facet_diagnostic *remark)
{
    static const char *const colors[] = {"", "\033[1;36m", "\033[1;35m", "\033[1;31m"};
    bool color = paints_stderr();

    if (color)
        fputs("\033[1m", stderr);
    if (remark->line)
        fprintf(stderr, "%s:%" PRIu32 ":%" PRIu32 ": ", remark->file, remark->line, remark->column);
    fprintf(stderr, "%s%s: %s%s%s\n", color && remark->severity <= 3 ? colors[remark->severity] : "",
            severity_name(remark->severity), color ? "\033[0m\033[1m" : "", remark->text, color ? "\033[0m" : "");
}

uint32_t kernel_view_remarks(const struct facet_image *image, const char *name, const struct kernel_text *source)
{
    struct facet_diagnostic remark;
    uint32_t errors = 0;

    for (uint32_t i = 0; facet_image_diagnostic(image, i, &remark); i++) {
        print_remark(&remark);
        if (source && strcmp(remark.file, strcmp(name, "-") == 0 ? "<stdin>" : name) == 0)
            print_line(source, &remark);
        errors += remark.severity == FACET_SEVERITY_ERROR;
    }
    return errors;
}

json_t *kernel_remarks_json(const struct facet_image *image)
{
    struct facet_diagnostic remark;
    json_t *list = json_array();

    for (uint32_t i = 0; image && facet_image_diagnostic(image, i, &remark); i++) {
        json_t *item = json_pack("{s:s, s:s?, s:i, s:i, s:s?}", "severity", severity_name(remark.severity), "file",
                                 remark.line ? remark.file : NULL, "line", (int)remark.line, "column",
                                 (int)remark.column, "text", remark.text);
        json_array_append_new(list, item);
    }
    return list;
}

/* --- kernels ---------------------------------------------------------------------------------------------------- */

const char *kernel_argument_kind_name(uint32_t kind)
{
    static const char *const names[] = {"", "value", "global", "local", "image", "sampler"};

    return kind < sizeof names / sizeof names[0] ? names[kind] : "";
}

static json_t *argument_json(const struct facet_host_argument *argument)
{
    json_t *access = json_array();

    if (argument->access & FACET_ARGUMENT_READS)
        json_array_append_new(access, json_string("read"));
    if (argument->access & FACET_ARGUMENT_WRITES)
        json_array_append_new(access, json_string("write"));
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:o}", "name", argument->name, "type", argument->type, "kind",
                     kernel_argument_kind_name(argument->kind), "offset", (int)argument->offset, "bytes",
                     (int)argument->bytes, "access", access);
}

static json_t *kernel_json(const struct facet_host_kernel *kernel)
{
    json_t *arguments = json_array(), *flags = json_array();

    for (uint32_t i = 0; i < kernel->argument_count; i++)
        json_array_append_new(arguments, argument_json(&kernel->arguments[i]));
    if (kernel->flags & FACET_HOST_BARRIERS)
        json_array_append_new(flags, json_string("barriers"));
    if (kernel->flags & FACET_HOST_VECTORIZED)
        json_array_append_new(flags, json_string("vectorized"));
    if (kernel->flags & FACET_HOST_ROWS)
        json_array_append_new(flags, json_string("rows"));
    return json_pack("{s:s, s:i, s:i, s:[i,i,i], s:o, s:o}", "name", kernel->name, "argument_bytes",
                     (int)kernel->argument_bytes, "local_bytes", (int)kernel->local_bytes, "required_group_size",
                     (int)kernel->required_group_size[0], (int)kernel->required_group_size[1],
                     (int)kernel->required_group_size[2], "flags", flags, "arguments", arguments);
}

json_t *kernel_kernels_json(const struct facet_image *image)
{
    const struct facet_host_kernel *kernel;
    json_t *list = json_array();

    for (uint32_t i = 0; (kernel = facet_image_kernel(image, i)); i++)
        json_array_append_new(list, kernel_json(kernel));
    return list;
}

static bool add_argument(struct libscols_table *table, const struct facet_host_kernel *kernel, uint32_t index)
{
    const struct facet_host_argument *argument = &kernel->arguments[index];
    bool reads = argument->access & FACET_ARGUMENT_READS, writes = argument->access & FACET_ARGUMENT_WRITES;
    bool memory = argument->kind == FACET_ARGUMENT_GLOBAL || argument->kind == FACET_ARGUMENT_IMAGE;
    char number[VIEW_SIZE];

    snprintf(number, sizeof number, "%" PRIu32, index);
    return view_row(table,
                    (const char *const[]){
                        kernel->name,
                        number,
                        argument->name,
                        argument->type,
                        kernel_argument_kind_name(argument->kind),
                        memory && (reads != writes) ? (reads ? "reads" : "writes")
                        : memory                    ? "both"
                                                    : NULL,
                    },
                    6);
}

bool kernel_view_kernels(const struct facet_image *image)
{
    static const struct view_column columns[] = {
        {"KERNEL", 0}, {"ARG", SCOLS_FL_RIGHT}, {"NAME", 0}, {"TYPE", 0}, {"KIND", 0}, {"ACCESS", 0}, {NULL, 0},
    };
    VIEW_CLEANUP_TABLE struct libscols_table *table = view_table(columns);
    const struct facet_host_kernel *kernel;
    bool complete = table != NULL;

    for (uint32_t i = 0; complete && (kernel = facet_image_kernel(image, i)); i++) {
        for (uint32_t j = 0; complete && j < kernel->argument_count; j++)
            complete = add_argument(table, kernel, j);
        if (complete && kernel->argument_count == 0)
            complete = view_row(table, (const char *const[]){kernel->name, NULL, NULL, NULL, NULL, NULL}, 6);
    }
    return complete && scols_print_table(table) == 0;
}

/* --- times ------------------------------------------------------------------------------------------------------ */

char *kernel_view_time(uint64_t ns, char *buffer)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double value = (double)ns;
    size_t unit = 0;

    while (value >= 1000 && unit < 3) {
        value /= 1000;
        unit++;
    }
    snprintf(buffer, VIEW_SIZE, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
    return buffer;
}

json_t *kernel_statistics_json(const struct facet_image *image)
{
    struct facet_compile_statistics statistics = {.size = sizeof statistics};

    facet_image_statistics(image, &statistics);
    json_t *object = json_pack("{s:b, s:I, s:I, s:I}", "cache_hit", (int)statistics.cache_hit, "total_ns",
                               (json_int_t)statistics.total_ns, "load_ns", (json_int_t)statistics.load_ns,
                               "image_bytes", (json_int_t)statistics.image_bytes);

    if (object && statistics.cache_status)
        json_object_set_new(object, "uncached", json_string(image->uncached.message));
    if (object && statistics.valid & FACET_COMPILE_HAS_STAGES) {
        json_object_set_new(object, "frontend_ns", json_integer((json_int_t)statistics.frontend_ns));
        json_object_set_new(object, "library_ns", json_integer((json_int_t)statistics.library_ns));
        json_object_set_new(object, "optimize_ns", json_integer((json_int_t)statistics.optimize_ns));
        json_object_set_new(object, "generate_ns", json_integer((json_int_t)statistics.generate_ns));
        json_object_set_new(object, "link_ns", json_integer((json_int_t)statistics.link_ns));
    }
    if (object && statistics.valid & FACET_COMPILE_HAS_PEAK)
        json_object_set_new(object, "peak_bytes", json_integer((json_int_t)statistics.peak_bytes));
    return object;
}

static bool add_time(struct libscols_table *card, const char *name, uint64_t ns)
{
    char text[VIEW_SIZE];

    return view_card_add(card, name, kernel_view_time(ns, text));
}

/* How full the cache is, or why it was not used; nothing is shown when there is none. */
static bool add_cache(struct libscols_table *card, const struct facet_image *image)
{
    const struct facet_compiler_options options = {.size = sizeof options, .cache_mode = FACET_CACHE_READ_ONLY};
    struct facet_cache_usage usage;
    struct facet_cache cache;
    char text[CELL_SIZE], size[VIEW_SIZE], limit[VIEW_SIZE];

    if (image->uncached.status != FACET_OK) {
        snprintf(text, sizeof text, "not used: %s", image->uncached.message);
        return view_card_add(card, "cache", text);
    }
    if (facet_cache_open(&options, &cache, NULL) != FACET_OK)
        return true;
    bool is_measured = facet_cache_measure(&cache, &usage);
    facet_cache_close(&cache);
    if (!is_measured)
        return true;
    snprintf(text, sizeof text, "%" PRIu64 " %s, %s of %s", usage.entries, usage.entries == 1 ? "image" : "images",
             view_memory(usage.bytes, size), view_memory(cache.limit, limit));
    return view_card_add(card, "cache", text);
}

static bool add_stages(struct libscols_table *card, const struct facet_compile_statistics *statistics)
{
    return add_time(card, "  load", statistics->load_ns) && add_time(card, "  frontend", statistics->frontend_ns) &&
           add_time(card, "  library", statistics->library_ns) &&
           add_time(card, "  optimize", statistics->optimize_ns) &&
           add_time(card, "  generate", statistics->generate_ns) && add_time(card, "  link", statistics->link_ns);
}

bool kernel_view_statistics(const struct facet_image *image)
{
    VIEW_CLEANUP_TABLE struct libscols_table *card = view_card();
    struct facet_compile_statistics statistics = {.size = sizeof statistics};
    char text[VIEW_SIZE];

    facet_image_statistics(image, &statistics);
    if (!card || !view_card_add(card, "from", statistics.cache_hit ? "cache" : "compiler") ||
        !add_time(card, "total", statistics.total_ns))
        return false;
    if (statistics.valid & FACET_COMPILE_HAS_STAGES && !add_stages(card, &statistics))
        return false;
    if (statistics.valid & FACET_COMPILE_HAS_PEAK &&
        !view_card_add(card, "peak memory", view_memory(statistics.peak_bytes, text)))
        return false;
    return add_cache(card, image) && scols_print_table(card) == 0;
}
