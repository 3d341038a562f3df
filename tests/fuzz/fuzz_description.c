/*
 * fuzz_description.c — the JSON that stands beside a model: what is accepted is written and read
 * again to the same bytes, and can be used to read data.
 */
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "data/description.h"
#include "data/format.h"
#include "fuzz.h"

static void parse_by(const struct ps_description *description, const char *text)
{
    static uint16_t places[PS_COLUMNS_MAX];
    struct ps_rows rows;
    ps_rows_init(&rows, NULL);
    struct ps_parse parse = {
        .description = description,
        .rows = &rows,
        .line = {.text = text, .n_bytes = strlen(text), .number = 1, .kind = PS_LINE_TEXT},
        .places = places,
    };
    if (!description->header || description->format->header(&parse, NULL) == PS_OK) {
        (void)!description->format->parse(&parse, NULL);
    }
    ps_rows_deinit(&rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct ps_description *one = NULL;
    struct ps_description *two = NULL;
    char *text = NULL;
    char *again = NULL;
    if (ps_description_read(NULL, (const char *)data, n_bytes, &one, NULL) != PS_OK) {
        return 0;
    }
    parse_by(one, "1 1:0.5 2:3");
    parse_by(one, "0.5,x,1");
    PS_ASSERT(ps_description_write(one, &text, NULL) == PS_OK);
    PS_ASSERT(ps_description_read(NULL, text, strlen(text), &two, NULL) == PS_OK);
    PS_ASSERT(ps_description_write(two, &again, NULL) == PS_OK);
    PS_ASSERT(strcmp(text, again) == 0);
    ps_description_destroy(one);
    ps_description_destroy(two);
    ps_mem_free(text);
    ps_mem_free(again);
    return 0;
}
