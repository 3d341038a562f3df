/* suggest.c — see suggest.h. Distance of Damerau and Levenshtein, optimal string alignment. */
#include "conf/suggest.h"

#include <string.h>

#include "base/assert.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t ps_suggest_edits(const char *a, size_t n_a, const char *b, size_t n_b)
{
    PS_ASSERT(n_a <= PS_SUGGEST_BYTES_MAX);
    PS_ASSERT(n_b <= PS_SUGGEST_BYTES_MAX);
    /* rows[i % 3][j]: edits from the first i letters of a to the first j of b. */
    size_t rows[3][PS_SUGGEST_BYTES_MAX + 1] = {{0}};
    for (size_t j = 0; j <= n_b; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= n_a; i++) {
        size_t *now = rows[i % 3];
        const size_t *before = rows[(i - 1) % 3];
        const size_t *twice = rows[(i + 1) % 3]; /* i - 2, once there is one. */
        now[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t replace = before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            now[j] = least(replace, least(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                now[j] = least(now[j], twice[j - 2] + 1);
            }
        }
    }
    return rows[n_a % 3][n_b];
}

void ps_suggest_init(struct ps_suggest *suggest, const char *wrong, size_t n_bytes)
{
    *suggest = (struct ps_suggest){.wrong = wrong, .n_bytes = n_bytes};
}

void ps_suggest_offer(struct ps_suggest *suggest, const char *word)
{
    size_t n_word = strlen(word);
    if (suggest->n_bytes > PS_SUGGEST_BYTES_MAX || n_word > PS_SUGGEST_BYTES_MAX) {
        return;
    }
    size_t n_edits = ps_suggest_edits(suggest->wrong, suggest->n_bytes, word, n_word);
    size_t n_most = least(suggest->n_bytes, n_word) / 3 + 1;
    if (n_edits <= n_most && (suggest->best == NULL || n_edits < suggest->n_edits)) {
        suggest->best = word;
        suggest->n_edits = n_edits;
    }
}

const char *ps_suggest_best(const struct ps_suggest *suggest)
{
    return suggest->best;
}
