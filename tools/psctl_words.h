#ifndef PS_TOOLS_PSCTL_WORDS_H
#define PS_TOOLS_PSCTL_WORDS_H
/*
 * psctl_words.h — what the printers of psctl share: words of others that are safe to show; JSON.
 */
#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "coordinator.pb-c.h"

#define PSCTL_SHOWN_BYTES 1100u /* The longest words that a coordinator takes, and more. */

/** Words that others have said, of which none may end a line or repaint a terminal. */
struct psctl_shown {
    char text[PSCTL_SHOWN_BYTES];
};

const char *psctl_show(const char *words, struct psctl_shown *shown);

/** Numbers above 2^53 would lose digits as a double. */
void psctl_add_count(cJSON *json, const char *key, uint64_t count);

/** One line; `json` is gone then. @return false: no memory */
bool psctl_print_json(cJSON *json);

/** "memory", "log", "fsync"; "unknown". Static. */
const char *psctl_durability(Ps__V1__Durability durability);

#endif
