/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: assertions, and sending their results to the watcher. Never: decides what happens after a failed assertion. */
#include "conformance/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conformance/wire.h"

enum { POISON = 0xa5 };

/* Ends this process when the write fails: then the watcher has ended, and no other process receives messages. */
static void send_message(const struct facet_check *check, const struct facet_check_message *message)
{
    ssize_t written;

    do
        written = write(check->report_fd, message, sizeof *message);
    while (written < 0 && errno == EINTR);
    if (written != sizeof *message)
        _exit(FACET_CHECK_EXIT_UNHEARD);
}

static void send_result(const struct facet_check *check, enum facet_conformance_outcome outcome, const char *text,
                        const char *diagnostic)
{
    struct facet_check_message message = {.kind = FACET_CHECK_RESULT, .result.outcome = outcome};

    snprintf(message.result.group, sizeof message.result.group, "%s", check->group);
    snprintf(message.result.text, sizeof message.result.text, "%s", text);
    snprintf(message.result.diagnostic, sizeof message.result.diagnostic, "%s", diagnostic);
    send_message(check, &message);
}

void facet_check_begin(struct facet_check *check, const char *format, ...)
{
    struct facet_check_message message = {.kind = FACET_CHECK_BEGUN};
    va_list arguments;

    check->error = (struct facet_error){0};
    va_start(arguments, format);
    int length = vsnprintf(check->text, sizeof check->text, format, arguments);
    va_end(arguments);
    if (check->several_kinds && length > 0 && (size_t)length < sizeof check->text)
        snprintf(check->text + length, sizeof check->text - (size_t)length, " (device %" PRIu32 ")", check->device);
    snprintf(message.result.group, sizeof message.result.group, "%s", check->group);
    snprintf(message.result.text, sizeof message.result.text, "%s", check->text);
    send_message(check, &message);
}

bool facet_check_judge(struct facet_check *check, bool passed, const char *format, ...)
{
    char diagnostic[sizeof((struct facet_conformance_result *)NULL)->diagnostic];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(diagnostic, sizeof diagnostic, format, arguments);
    va_end(arguments);
    if (passed && check->quiet)
        return true;
    send_result(check, passed ? FACET_CONFORMANCE_PASSED : FACET_CONFORMANCE_FAILED, check->text,
                passed ? "" : diagnostic);
    return passed;
}

/* The provider's message about the call, made printable. */
static const char *printable_diagnostic(struct facet_check *check)
{
    char *message = check->error.message;

    message[sizeof check->error.message - 1] = '\0';
    for (char *at = message; *at; at++)
        if (*at < 0x20 || *at > 0x7e)
            *at = '?';
    return message[0] ? message : "(no message)";
}

bool facet_check_status(struct facet_check *check, enum facet_status expected, enum facet_status got)
{
    return facet_check_judge(check, got == expected, "expected: %s (%d)\ngot: %s (%d)\nmessage: %s",
                             facet_status_name(expected), expected, facet_status_name(got), got,
                             printable_diagnostic(check));
}

bool facet_check_number(struct facet_check *check, uint64_t expected, uint64_t got)
{
    return facet_check_judge(check, got == expected, "expected: %" PRIu64 "\ngot: %" PRIu64, expected, got);
}

void facet_check_poison(void *out, size_t bytes)
{
    uint32_t size = (uint32_t)bytes;

    if (!out)
        return;
    memset(out, POISON, bytes);
    memcpy(out, &size, sizeof size);
}

bool facet_check_untouched(const void *out, size_t bytes)
{
    const unsigned char *at = out;
    uint32_t size = (uint32_t)bytes;

    if (!out)
        return true;
    if (memcmp(at, &size, sizeof size) != 0)
        return false;
    for (size_t i = sizeof size; i < bytes; i++)
        if (at[i] != POISON)
            return false;
    return true;
}

bool facet_check_refused(struct facet_check *check, enum facet_status expected, enum facet_status got, const void *out,
                         size_t bytes)
{
    if (got != expected || facet_check_untouched(out, bytes))
        return facet_check_status(check, expected, got);
    return facet_check_judge(check, false,
                             "expected: %s and an output that is left alone\ngot: an output that was written to",
                             facet_status_name(expected));
}

void facet_check_tally_miss(struct facet_check_tally *tally, const char *format, ...)
{
    va_list arguments;

    if (tally->failed)
        return;
    tally->failed = true;
    va_start(arguments, format);
    vsnprintf(tally->first_miss, sizeof tally->first_miss, format, arguments);
    va_end(arguments);
}

void facet_check_report_tallies(struct facet_check *check, const struct facet_check_tally *tallies, size_t count)
{
    for (size_t i = 0; i < count; i++)
        EXPECT_TRUE(check, tallies[i].text, !tallies[i].failed, "%s", tallies[i].first_miss);
}

/* Calls with a struct whose `size` is `stated`, in a larger buffer. True: nothing beyond `stated` bytes was written. */
static bool fill_stated(struct facet_check *check, uint32_t stated, size_t room, facet_check_fill_func call,
                        const void *subject, unsigned char *bytes, enum facet_status *ret_status)
{
    memset(bytes, POISON, room);
    memcpy(bytes, &stated, sizeof stated);
    *ret_status = call(check, subject, bytes);
    for (size_t i = stated > sizeof stated ? stated : sizeof stated; i < room; i++)
        if (bytes[i] != POISON)
            return false;
    return true;
}

void facet_check_struct_rules(struct facet_check *check, const char *operation, uint32_t struct_size,
                              facet_check_fill_func call, const void *subject)
{
    unsigned char bytes[1024];
    const uint32_t smaller = struct_size / 2 / 8 * 8, larger = struct_size + 24;
    enum facet_status status;
    uint32_t size;

    facet_check_begin(check, "%s: an older host's smaller struct is not overrun", operation);
    bool kept = fill_stated(check, smaller, sizeof bytes, call, subject, bytes, &status);
    memcpy(&size, bytes, sizeof size);
    facet_check_judge(check, status == FACET_OK && kept && size == smaller,
                      "expected: ok, size %" PRIu32 ", nothing beyond\ngot: %s, size %" PRIu32 ", %s", smaller,
                      facet_status_name(status), size, kept ? "nothing beyond" : "bytes beyond written to");
    facet_check_begin(check, "%s: a newer host's larger struct keeps what is beyond", operation);
    kept = fill_stated(check, larger, sizeof bytes, call, subject, bytes, &status);
    memcpy(&size, bytes, sizeof size);
    for (uint32_t i = struct_size; i < larger; i++)
        kept = kept && bytes[i] == POISON;
    facet_check_judge(check, status == FACET_OK && kept && size == struct_size,
                      "expected: ok, size %" PRIu32 ", nothing beyond\ngot: %s, size %" PRIu32 ", %s", struct_size,
                      facet_status_name(status), size, kept ? "nothing beyond" : "bytes beyond written to");
    facet_check_begin(check, "%s: a struct of size 0 is an invalid argument", operation);
    kept = fill_stated(check, 0, sizeof bytes, call, subject, bytes, &status);
    memcpy(&size, bytes, sizeof size);
    facet_check_judge(check, status == FACET_INVALID_ARGUMENT && kept && size == 0,
                      "expected: invalid_argument, nothing written\ngot: %s, %s", facet_status_name(status),
                      kept && size == 0 ? "nothing written" : "bytes written to");
}

void facet_check_skip(struct facet_check *check, const char *text, const char *format, ...)
{
    char reason[sizeof((struct facet_conformance_result *)NULL)->diagnostic];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    send_result(check, FACET_CONFORMANCE_SKIPPED, text, reason);
}

void facet_check_note(struct facet_check *check, const char *format, ...)
{
    char text[sizeof((struct facet_conformance_result *)NULL)->text];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    send_result(check, FACET_CONFORMANCE_NOTE, text, "");
}
