/* reader.c — the one list of file formats. */
#include "data/reader.h"

#include <string.h>

static const struct ps_reader *const readers[] = {
    &ps_reader_idx,
};

const struct ps_reader *ps_reader_find(const char *name)
{
    for (size_t i = 0; i < PS_ARRAY_LEN(readers); i++) {
        if (strcmp(readers[i]->name, name) == 0) {
            return readers[i];
        }
    }
    return NULL;
}

const struct ps_reader *const *ps_reader_all(size_t *ret_n)
{
    *ret_n = PS_ARRAY_LEN(readers);
    return readers;
}
