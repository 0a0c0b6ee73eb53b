/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: `facet place replay`: runs the vectors of a file and prints TAP or JSON. Never: decides a grant. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "place.h"
#include "placement/maps/replay.h"

/* The results so far. */
struct replay_report {
    uint32_t number;
    json_t *results; /* NULL: print TAP */
};

static void print_lines(const char *prefix, const char *lines)
{
    while (*lines) {
        int length = (int)strcspn(lines, "\n");

        printf("%s%.*s\n", prefix, length, lines);
        lines += length + (lines[length] == '\n');
    }
}

/* Replaces `#`, which begins a directive in TAP, and control bytes, which could begin a line. */
static void print_id(const char *id)
{
    for (; *id; id++)
        putchar((unsigned char)*id < 0x20 || *id == 0x7f || *id == '#' ? '?' : *id);
}

static void print_tap(struct replay_report *report, const struct facet_replay_result *result)
{
    printf("%s %" PRIu32 " - ", result->fault[0] ? "not ok" : "ok", ++report->number);
    print_id(result->id);
    putchar('\n');
    print_lines("# ", result->notes);
    if (!result->fault[0])
        return;
    printf("  ---\n");
    print_lines("  ", result->fault);
    printf("  ...\n");
}

static void take_result(void *user, const struct facet_replay_result *result)
{
    struct replay_report *report = user;

    report->number += report->results != NULL;
    if (report->results)
        json_array_append_new(report->results, json_pack("{s:i, s:s, s:b, s:s, s:s}", "number", (int)report->number,
                                                         "id", result->id, "passed", result->fault[0] == '\0', "notes",
                                                         result->notes, "fault", result->fault));
    else
        print_tap(report, result);
}

char *place_read_file(const char *path, size_t most, size_t *ret_size)
{
    FACET_CLEANUP_FILE FILE *file = fopen(path, "rbe");
    FACET_CLEANUP_FREE char *bytes = NULL;
    size_t size = 0, capacity = 0;

    while (file && size <= most) {
        size_t bytes_read;

        if (size == capacity) {
            char *larger = realloc(bytes, capacity = capacity ? 2 * capacity : (size_t)1 << 16);

            if (!larger)
                return NULL;
            bytes = larger;
        }
        bytes_read = fread(bytes + size, 1, capacity - size, file);
        size += bytes_read;
        if (bytes_read == 0)
            break;
    }
    if (!file || ferror(file))
        return NULL;
    *ret_size = size;
    return FACET_TAKE_PTR(bytes);
}

static int print_json(const struct facet_replay_summary *summary, json_t *results)
{
    json_t *all = json_pack("{s:i, s:i, s:i, s:o}", "passed", (int)summary->passed, "failed", (int)summary->failed,
                            "defects", (int)summary->defects, "results", results);
    int status = all ? command_print_json(all) : EXIT_REFUSED;

    json_decref(all);
    return status;
}

static int replay_bytes(const struct command *self, bool json, const char *path, const char *bytes, size_t size)
{
    struct replay_report report = {.results = json ? json_array() : NULL};
    struct facet_replay_summary summary = {0};
    struct facet_error error = {0};

    if (facet_replay_run(bytes, size, take_result, &report, &summary, &error) != FACET_OK) {
        json_decref(report.results);
        error.argument[0] = '\0';
        facet_error_prefix(&error, "%s", path);
        return command_refuse(self, json, &error, NULL);
    }
    if (json)
        print_json(&summary, report.results);
    else
        printf("1..%" PRIu32 "\n# %" PRIu32 " passed, %" PRIu32 " failed; %" PRIu32
               " recorded a defect of the original\n",
               report.number, summary.passed, summary.failed, summary.defects);
    return summary.failed ? EXIT_REFUSED : EXIT_DONE;
}

static int run_replay(const struct command *self, int argc, char **argv)
{
    bool json = false;
    int status = EXIT_DONE;
    size_t size = 0;

    if (!command_options_plain(self, argc, argv, &json, &status))
        return status;
    if (!command_operands(self, argc, argv, 1, 1, "FILE"))
        return EXIT_USAGE;
    errno = 0;
    FACET_CLEANUP_FREE char *bytes = place_read_file(argv[optind], FACET_REPLAY_BYTES_MAX, &size);
    if (!bytes)
        return command_usage(self, "%s: cannot read it: %s", argv[optind], strerror(errno ? errno : EIO));
    if (!json)
        printf("TAP version 13\n");
    fflush(stdout);
    return replay_bytes(self, json, argv[optind], bytes, size);
}

const struct command place_replay = {
    .name = "place replay",
    .help = "usage: facet place replay [--json] FILE\n"
            "\n"
            "Runs the test vectors of a file against the allocation maps and prints TAP, one\n"
            "line for each vector. Exit status 0 when all passed, 1 when one did not, 2 when\n"
            "the file is not a file of vectors.\n"
            "\n"
            "A vector must give exactly the recorded outcome. Only a vector of origin\n"
            "`executed_probe` may have recorded a defect of the original: an outcome that\n"
            "breaks a rule, such as a grant that is not what was asked for. It then passes\n"
            "when our outcome keeps the rules; lines with `#` say what differs and why.\n"
            "\n"
            "  --json          print the results as JSON\n"
            "\n"
            "docs/allocation.md lists the rules, the defects and the format of the file.\n",
    .run = run_replay,
};
