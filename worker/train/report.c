/* report.c — see report.h. */
#include "train/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/mem.h"
#include "port/disk.h"

#define PRESET_TEXT   NULL
#define PRESET_COUNT  PS_REPORT_NO_COUNT
#define PRESET_NUMBER ((double)NAN)
#define PRESET_LIST \
    {               \
        0           \
    }

void ps_report_init(struct ps_report *report)
{
    *report = (struct ps_report){
#define X(kind, key, text) .key = PRESET_##kind,
        PS_REPORT_MAP(X)
#undef X
    };
}

static bool add_text(cJSON *json, const char *key, const char *text)
{
    return text == NULL || cJSON_AddStringToObject(json, key, text) != NULL;
}

/* By its digits: a double, which cJSON would make of it, ends at 2^53. */
static bool add_count(cJSON *json, const char *key, uint64_t count)
{
    char digits[24];
    (void)snprintf(digits, sizeof(digits), "%" PRIu64, count);
    return count == PS_REPORT_NO_COUNT || cJSON_AddRawToObject(json, key, digits) != NULL;
}

/* JSON has no infinity; a loss that ran away must still be told from one that does not apply. */
static bool add_number(cJSON *json, const char *key, double number)
{
    if (isnan(number)) {
        return true;
    }
    if (isinf(number)) {
        return cJSON_AddNullToObject(json, key) != NULL;
    }
    char digits[32];
    (void)snprintf(digits, sizeof(digits), "%.9g", number);
    return cJSON_AddRawToObject(json, key, digits) != NULL;
}

static bool add_list(cJSON *json, const char *key, struct ps_report_list list)
{
    if (list.values == NULL) {
        return true;
    }
    cJSON *array = cJSON_AddArrayToObject(json, key);
    bool good = array != NULL;
    for (size_t i = 0; i < list.n && good; i++) {
        char digits[24];
        (void)snprintf(digits, sizeof(digits), "%" PRIu64, list.values[i]);
        good = cJSON_AddItemToArray(array, cJSON_CreateRaw(digits)) != 0;
    }
    return good;
}

#define ADD_LIST   add_list
#define ADD_TEXT   add_text
#define ADD_COUNT  add_count
#define ADD_NUMBER add_number

char *ps_report_json(const struct ps_report *report)
{
    cJSON *json = cJSON_CreateObject();
    bool good = json != NULL;
#define X(kind, key, text) good = good && ADD_##kind(json, #key, report->key);
    PS_REPORT_MAP(X)
#undef X
    char *foreign = good ? cJSON_PrintUnformatted(json) : NULL;
    char *line = foreign != NULL ? ps_mem_strdup(NULL, PS_MEM_OTHER, foreign) : NULL;
    cJSON_free(foreign);
    cJSON_Delete(json);
    return line;
}

enum ps_status ps_report_write(struct ps_disk *disk, const char *path,
                               const struct ps_report *report, struct ps_error *err)
{
    char *line = ps_report_json(report);
    if (line == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the report");
    }
    size_t n = strlen(line);
    line[n] = '\n'; /* Where the final 0 was: the file has none. */
    enum ps_status status = ps_disk_replace(disk, path, (const uint8_t *)line, n + 1, err);
    ps_mem_free(line);
    return status;
}
