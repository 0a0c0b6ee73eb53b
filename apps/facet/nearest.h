/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: guessing which word was meant. Never: prints. */
#ifndef FACET_NEAREST_H
#define FACET_NEAREST_H

/*
 * The word of `list` nearest to `typed`, when it is near enough to be worth suggesting; else NULL. `word_at` returns
 * NULL past the end.
 */
const char *nearest_word(const char *typed, const char *(*word_at)(const void *list, unsigned index), const void *list);

#endif
