/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the kernel's small text files line by line without allocating memory. Numbers are read exactly or refused.
 *
 * Owns: the line buffer, and the conversion of a failure into the reason that a measurement carries.
 * Never: follows a link out of its directory, blocks on anything but a regular file, or guesses a number.
 */
#ifndef FACET_MONITOR_GATHER_READ_H
#define FACET_MONITOR_GATHER_READ_H

#include <facet/measurement.h>

#include "monitor/gather/meter.h"

#define GATHER_LINE_MAX 4096u               /* a longer line is malformed */
#define GATHER_FILE_MAX (UINT32_C(1) << 22) /* a longer file is malformed */

/* Takes one line, without its newline, NUL-terminated. Returns whether the next line is wanted. */
typedef bool (*gather_line_func)(void *context, char *line);

/* Calls `take` for each line of a text, or of a file below a directory. A zero byte is malformed. */
enum facet_unmeasured gather_text(const char *text, size_t length, gather_line_func take, void *context);
enum facet_unmeasured gather_file(int directory, const char *path, gather_line_func take, void *context);

/* gather_file() for files of which only short lines matter: longer ones (interrupts, groups) are cut off. */
enum facet_unmeasured gather_file_cut(int directory, const char *path, gather_line_func take, void *context);

/* gather_file() for a file of one line in which a name may contain newlines, which are replaced by blanks. */
enum facet_unmeasured gather_file_whole(int directory, const char *path, gather_line_func take, void *context);

/* Reads decimal digits at *text that a blank or the end follows, and advances *text behind them. */
enum facet_unmeasured gather_number(char **text, int64_t *ret_value);

/* Whether *text begins with the word `name` and a blank or the end; *text is then advanced behind them. */
bool gather_skip_word(char **text, const char *name);

/* Cuts off the next word and returns it; NULL when there is none. */
char *gather_next_word(char **text);

enum facet_unmeasured gather_add(int64_t value, int64_t *sum);
enum facet_unmeasured gather_multiply(int64_t factor, int64_t *value);

/* ---- readings ---- */

struct gather_value {
    enum facet_unmeasured reason;
    int64_t value;
};

#define GATHER_ABSENT ((struct gather_value){.reason = FACET_UNMEASURED_ABSENT})

/*
 * Lines like "name value". gather_read_fields() fills each field whose name occurs; the value of any other field stays
 * absent.
 */
struct gather_field {
    const char *name;
    struct gather_value value;
};

struct gather_fields {
    struct gather_field *field;
    size_t count;
    int64_t factor;   /* the factor of each value */
    const char *unit; /* a word that must follow each value; NULL: nothing may follow */
};

bool gather_take_field(void *fields, char *line);
void gather_read_fields(int directory, const char *path, struct gather_fields *fields);

/* A file of one number, or of the word "max", which stands for unlimited. */
bool gather_take_single(void *value, char *line);
struct gather_value gather_read_single(int directory, const char *path);

/* ---- the answer ---- */

struct gather_output {
    struct facet_measurement *out;
    uint32_t count;
    uint64_t time_ns, identity;
};

enum facet_status gather_begin(const struct facet_measurement *measurements, const uint32_t *count, uint32_t needed,
                               struct facet_error *error);
void gather_put(struct gather_output *output, enum gather_meter meter, struct gather_value value);
void gather_put_of(struct gather_output *output, enum gather_meter meter, struct gather_value value,
                   struct gather_value capacity);

#endif
