/*
 * fuzz_setup.c — the JSON of a model and its data: what is accepted is written and read again to
 * the same bytes, and makes a model.
 */
#include <string.h>

#include "base/mem.h"
#include "fuzz.h"
#include "train/setup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct ps_setup *one = NULL;
    struct ps_setup *two = NULL;
    char *text = NULL;
    char *again = NULL;
    if (ps_setup_read(NULL, (const char *)data, n_bytes, &one, NULL) != PS_OK) {
        return 0;
    }
    PS_ASSERT(one->model->task == one->description->task);
    PS_ASSERT(ps_setup_write(one, &text, NULL) == PS_OK);
    PS_ASSERT(ps_setup_read(NULL, text, strlen(text), &two, NULL) == PS_OK);
    PS_ASSERT(ps_setup_write(two, &again, NULL) == PS_OK);
    PS_ASSERT(strcmp(text, again) == 0);
    ps_setup_destroy(one);
    ps_setup_destroy(two);
    ps_mem_free(text);
    ps_mem_free(again);
    return 0;
}
