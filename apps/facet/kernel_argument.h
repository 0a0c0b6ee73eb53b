/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel's argument as people type it: "f32:2.0", "buffer:f32:1024=random", "local:512".
 *
 * Owns: types of elements, reading values, the initial bytes of a buffer, the text of elements.
 * Never: knows a kernel or a device.
 */
#ifndef FACET_KERNEL_ARGUMENT_H
#define FACET_KERNEL_ARGUMENT_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <facet/error.h>

enum { KERNEL_VALUE_MOST = 128 }; /* bytes of the largest vector: 16 elements of 8 bytes */

enum kernel_argument_form {
    KERNEL_FORM_VALUE,
    KERNEL_FORM_BUFFER,
    KERNEL_FORM_LOCAL,
};

struct kernel_type {
    const char *name;
    uint32_t bytes;
    char family; /* 'f', 'i' or 'u' */
};

struct kernel_argument {
    enum kernel_argument_form form;
    const struct kernel_type *type;         /* of a value or a buffer */
    unsigned char value[KERNEL_VALUE_MOST]; /* of a value: one element or the elements of a vector */
    uint32_t value_bytes;
    uint64_t count;     /* elements of a buffer */
    uint64_t bytes;     /* of a buffer or of local memory */
    const char *fill;   /* the initial content of a buffer, as typed; NULL: zeros. Borrowed */
    const char *output; /* the file that takes the buffer after the run; NULL: none */
    unsigned char *data;
    uint64_t address; /* on the device */
};

/* FACET_INVALID_ARGUMENT, FACET_OUT_OF_RANGE. Borrows `text`. */
enum facet_status kernel_argument_parse(const char *text, struct kernel_argument *ret_argument,
                                        struct facet_error *error);
void kernel_argument_clear(struct kernel_argument *argument);

/* Makes the initial bytes of a buffer (kernel_data.c). `seed` makes two random buffers differ. */
enum facet_status kernel_argument_fill(struct kernel_argument *argument, uint32_t seed, struct facet_error *error);

/* Writes one element of `type`. False: `text` is no number, or one that does not fit. */
bool kernel_type_read(const struct kernel_type *type, const char *text, unsigned char *ret_element);

/* Element `index` of a buffer, as text (in `buffer`), and as JSON (NULL for a number that JSON cannot express). */
char *kernel_element_print(const struct kernel_argument *argument, uint64_t index, char *buffer, size_t size);
json_t *kernel_element_json(const struct kernel_argument *argument, uint64_t index);

#endif
