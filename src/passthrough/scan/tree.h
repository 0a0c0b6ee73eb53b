/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading below one directory: small texts, numbers, links and lists, or the reason why they cannot be read.
 *
 * Owns: the conversion of a failure into a reason. No path leaves the directory, even through links.
 * Never: writes (tree_open_writable() gives the caller a descriptor for that), blocks (a pipe in a copied tree is not
 * read), or interprets the texts.
 */
#ifndef FACET_PASSTHROUGH_SCAN_TREE_H
#define FACET_PASSTHROUGH_SCAN_TREE_H

#include <facet/pci.h>

/* A directory below another, or a regular file; -1 with errno. The caller closes it. */
int tree_open_directory(int at, const char *path);
int tree_open_file(int at, const char *path);

/* A descriptor of a path (O_PATH), and one to write an existing regular file. */
int tree_open_path(int at, const char *path);
int tree_open_writable(int at, const char *path);

/* The reason that corresponds to an errno. */
enum facet_pci_unread tree_unread(int errnum);

/* The worse of two reasons. FACET_PCI_READ is the best, an absent file comes next; of two other reasons `a` counts. */
enum facet_pci_unread tree_worse(enum facet_pci_unread a, enum facet_pci_unread b);

/* Reads a file of one line, without the newline. A line that does not fit is malformed, and `text` is "" then. */
enum facet_pci_unread tree_read_text(int at, const char *path, char *text, size_t size);

/* Like tree_read_text(), but cuts off a line that does not fit. */
enum facet_pci_unread tree_read_text_cut(int at, const char *path, char *text, size_t size);

/* Reads a file with one number in base 10 or 16 (with or without "0x"), of at most `max`. */
enum facet_pci_unread tree_read_number(int at, const char *path, int base, uint64_t max, uint64_t *ret_value);

/* Reads up to `size` bytes, unchanged. */
enum facet_pci_unread tree_read_bytes(int at, const char *path, void *bytes, size_t size, size_t *ret_length);

/* Read the target of a link, and only the last part of the target. */
enum facet_pci_unread tree_read_link(int at, const char *path, char *text, size_t size);
enum facet_pci_unread tree_read_link_name(int at, const char *path, char *text, size_t size);

bool tree_exists(int at, const char *path);

/* Call `take` for the names in a directory, or the lines of a file (long ones are cut), until it returns false. */
typedef bool (*tree_take_func)(void *context, char *text);
enum facet_pci_unread tree_each_name(int at, const char *path, tree_take_func take, void *context);
enum facet_pci_unread tree_each_line(int at, const char *path, tree_take_func take, void *context);

/* Appends an element to the caller's array, which grows; NULL when there is no memory. */
void *tree_append(void **array, size_t *count, size_t element_size);

#endif
