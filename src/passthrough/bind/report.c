/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: opening and closing a manager; the notes and the progress that it passes to its caller. Never: prints. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sized.h"
#include "base/text.h"
#include "passthrough/bind/manager.h"
#include "passthrough/stuck.h"

enum { LOCK_SECONDS = 5 };

enum facet_status bind_open(const struct facet_passthrough_config *config, const struct bind_host_ops *ops,
                            void *context, struct facet_passthrough **ret_manager, struct facet_error *error)
{
    if (!config || !ret_manager)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, config ? "ret_manager" : "config",
                                    "must not be NULL");
    if (config->size < sizeof *config)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config->size", "is %u, at least %zu was expected",
                                    config->size, sizeof *config);
    FACET_NEED_KNOWN("config", config, error);
    if (config->root < 0)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config->root",
                                    "is %d, an open directory was expected", config->root);

    struct facet_passthrough *manager = calloc(1, sizeof *manager);
    if (!manager)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a manager");
    FACET_SIZED_TAKE(&manager->config, config);
    if (!manager->config.lock_deadline_ns)
        manager->config.lock_deadline_ns = LOCK_SECONDS * FACET_NS_PER_S;
    manager->host = (struct bind_host){.ops = ops, .root = config->root, .state = config->state, .context = context};
    *ret_manager = manager;
    return FACET_OK;
}

enum facet_status facet_passthrough_open(const struct facet_passthrough_config *config,
                                         struct facet_passthrough **ret_manager, struct facet_error *error)
{
    return bind_open(config, &bind_host_real, NULL, ret_manager, error);
}

void facet_passthrough_close(struct facet_passthrough *manager)
{
    free(manager);
}

void bind_progress(const struct facet_passthrough *manager, const char *format, ...)
{
    char text[240];
    va_list arguments;

    if (!manager->config.progress)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    facet_text_make_line(text);
    manager->config.progress(manager->config.user, text);
}

void bind_report_begin(struct facet_passthrough_report *report)
{
    if (!report)
        return;
    report->outcome = FACET_PASSTHROUGH_UNTOUCHED;
    report->note_count = 0;
    report->notes_lost = 0;
}

/*
 * Finds room for a note. A full report first gives up notes about functions that are as they should be (ADOPTED). NULL:
 * there is no such note, and the new note is dropped.
 */
static struct facet_passthrough_note *find_room(struct facet_passthrough_report *report,
                                                enum facet_passthrough_note_kind kind)
{
    if (report->note_count < FACET_PASSTHROUGH_NOTES)
        return &report->notes[report->note_count++];
    report->notes_lost++;
    for (uint32_t i = report->note_count; kind != FACET_PASSTHROUGH_NOTE_ADOPTED && i-- > 0;)
        if (report->notes[i].kind == FACET_PASSTHROUGH_NOTE_ADOPTED)
            return &report->notes[i];
    return NULL;
}

void bind_note(struct facet_passthrough_report *report, enum facet_passthrough_note_kind kind,
               const struct facet_pci_address *address, const char *format, ...)
{
    va_list arguments;

    if (!report)
        return;
    struct facet_passthrough_note *note = find_room(report, kind);
    if (!note)
        return;
    *note = (struct facet_passthrough_note){.kind = kind};
    if (address)
        note->address = *address;
    va_start(arguments, format);
    vsnprintf(note->text, sizeof note->text, format, arguments);
    va_end(arguments);
    facet_text_make_line(note->text);
}

void bind_note_stuck(struct facet_passthrough_report *report, const struct facet_pci_function *function)
{
    char text[200];

    stuck_print(function, text, sizeof text);
    bind_note(report, FACET_PASSTHROUGH_NOTE_STUCK, &function->address, "%s", text);
}
