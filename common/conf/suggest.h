#ifndef PS_COMMON_CONF_SUGGEST_H
#define PS_COMMON_CONF_SUGGEST_H
/*
 * conf/suggest.h — "did you mean": the nearest of some words to one that was mistyped.
 *
 * Nearest by edits: insert, delete or replace one letter, or swap two neighbours. A word further
 * away than a third of its letters is no suggestion.
 */
#include <stddef.h>

#define PS_SUGGEST_BYTES_MAX 64u /* Longer words get no suggestion. */

struct ps_suggest {
    const char *wrong; /* Not 0-terminated. */
    size_t n_bytes;
    const char *best; /* NULL: none so far. */
    size_t n_edits;   /* Of `best`. */
};

void ps_suggest_init(struct ps_suggest *suggest, const char *wrong, size_t n_bytes);

/** Consider `word`, which must outlive `suggest`. The first of equally near words wins. */
void ps_suggest_offer(struct ps_suggest *suggest, const char *word);

/** The nearest word near enough, or NULL. */
const char *ps_suggest_best(const struct ps_suggest *suggest);

/** Edits between two texts, each at most PS_SUGGEST_BYTES_MAX long. */
size_t ps_suggest_edits(const char *a, size_t n_a, const char *b, size_t n_b);

#endif
