/* gz_text.c — see gz_text.h. */
#include "gz_text.h"

#include <stdlib.h>

#include <zlib.h>

#include "lib/test_main.h"

#define CHUNK_BYTES (1u << 20)

char *gz_text(const char *path)
{
    gzFile file = gzopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    char *text = NULL;
    size_t n = 0;
    int n_got = 0;
    do {
        text = realloc(text, n + CHUNK_BYTES + 1);
        ck_assert_ptr_nonnull(text);
        n_got = gzread(file, text + n, CHUNK_BYTES);
        ck_assert_int_ge(n_got, 0);
        n += (size_t)n_got;
    } while (n_got > 0);
    text[n] = '\0';
    ck_assert_int_eq(gzclose(file), Z_OK);
    return text;
}
