/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading below one directory: small texts, numbers, links and lists, each of them read or with the reason why not.
 *
 * Owns: the conversion of a failure into a reason. No path leaves the directory, whatever links lie in it.
 * Never: writes (a caller can get a descriptor for that), blocks (a pipe in a copied tree is not read), or interprets
 * the texts.
 */
#ifndef FACET_PASSTHROUGH_SCAN_TREE_H
#define FACET_PASSTHROUGH_SCAN_TREE_H

#include <facet/pci.h>

/* A directory below another, or a regular file; -1 with errno. The caller closes it. */
int tree_open_directory(int at, const char *path);
int tree_open_file(int at, const char *path);

/* A descriptor that only stands for a place (O_PATH), and one to write an existing regular file. */
int tree_open_path(int at, const char *path);
int tree_open_writable(int at, const char *path);

/* Why something was not read, of an error number. */
enum facet_pci_unread tree_unread(int errnum);

/* The worse of two reasons: an absent file leaves no gap. */
enum facet_pci_unread tree_worse(enum facet_pci_unread a, enum facet_pci_unread b);

/* A file of one line, without its end; `text` holds "" where it is not read. Longer ones are malformed. */
enum facet_pci_unread tree_read_text(int at, const char *path, char *text, size_t size);

/* The same, cut off instead where it is too long. */
enum facet_pci_unread tree_read_text_cut(int at, const char *path, char *text, size_t size);

/* A file of one number in base 10 or 16 ("0x" or not), of at most `max`. */
enum facet_pci_unread tree_read_number(int at, const char *path, int base, uint64_t max, uint64_t *ret_value);

/* Bytes as they are, up to `size`. */
enum facet_pci_unread tree_read_bytes(int at, const char *path, void *bytes, size_t size, size_t *ret_length);

/* The target of a link, and the last part of that. */
enum facet_pci_unread tree_read_link(int at, const char *path, char *text, size_t size);
enum facet_pci_unread tree_read_link_name(int at, const char *path, char *text, size_t size);

bool tree_exists(int at, const char *path);

/* The names in a directory, and the lines of a file (cut off where they are very long), until `take` returns false. */
typedef bool (*tree_take_func)(void *context, char *text);
enum facet_pci_unread tree_each_name(int at, const char *path, tree_take_func take, void *context);
enum facet_pci_unread tree_each_line(int at, const char *path, tree_take_func take, void *context);

/* One more element at the end of an array of the caller's, which grows; NULL when there is no memory. */
void *tree_append(void **array, size_t *count, size_t element_size);

#endif
