/* psctl_words.c — see psctl_words.h. */
#include "psctl_words.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/attr.h"

const char *psctl_show(const char *words, struct psctl_shown *shown)
{
    (void)snprintf(shown->text, sizeof(shown->text), "%s", words);
    for (char *at = shown->text; *at != '\0'; at++) {
        unsigned char c = (unsigned char)*at;
        if (c < ' ' || c == 0x7f) {
            *at = '?';
        }
    }
    return shown->text;
}

void psctl_add_count(cJSON *json, const char *key, uint64_t count)
{
    char digits[24];
    (void)snprintf(digits, sizeof(digits), "%" PRIu64, count);
    (void)cJSON_AddRawToObject(json, key, digits);
}

bool psctl_print_json(cJSON *json)
{
    char *text = cJSON_PrintUnformatted(json);
    if (text != NULL) {
        (void)printf("%s\n", text);
    }
    bool printed = text != NULL;
    cJSON_free(text);
    cJSON_Delete(json);
    return printed;
}

const char *psctl_durability(Ps__V1__Durability durability)
{
    static const char *const words[] = {"memory", "memory", "log", "fsync"};
    return (size_t)durability < PS_ARRAY_LEN(words) ? words[durability] : "unknown";
}
