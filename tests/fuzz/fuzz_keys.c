/*
 * fuzz_keys.c — byte 0: length of slices; byte 1: how many keys; byte 2: keys per call; the rest:
 * encoded keys. What is accepted ascends, and is written again as the same bytes.
 */
#include <string.h>

#include "fuzz.h"
#include "wire/keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static struct fuzz_cut cut;
    static uint64_t keys[UINT8_MAX];
    static uint8_t again[UINT8_MAX * PS_KEY_BYTES_MAX];
    if (n_bytes < 3) {
        return 0;
    }
    size_t n = data[1];
    size_t n_max = data[2] == 0 ? n : data[2];
    fuzz_cut(&cut, data + 3, n_bytes - 3, data[0]);
    struct ps_keys_reader reader = ps_keys_reader(ps_cursor_over(cut.slices, cut.n_slices), n);
    size_t n_got = 0;
    size_t n_here = 0;
    do {
        size_t n_room = n - n_got < n_max ? n - n_got : n_max;
        n_here = ps_keys_next(&reader, keys + n_got, n_room);
        n_got += n_here;
    } while (n_here > 0 && n_got < n);
    if (reader.failed) {
        return 0;
    }
    PS_ASSERT(n_got == n);
    for (size_t i = 1; i < n; i++) {
        PS_ASSERT(keys[i] > keys[i - 1]);
    }
    PS_ASSERT(ps_keys_write(keys, n, again, sizeof(again)) == n_bytes - 3);
    PS_ASSERT(memcmp(again, data + 3, n_bytes - 3) == 0);
    return 0;
}
