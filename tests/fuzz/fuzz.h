#ifndef PS_TESTS_FUZZ_FUZZ_H
#define PS_TESTS_FUZZ_FUZZ_H
/*
 * fuzz/fuzz.h — what a fuzz target is: one function of some bytes that must come back.
 *
 * With -Dfuzz=true clang's libFuzzer calls it; else fuzz_replay.c does, with the corpus and with
 * changes of it by chance. What an input must never break is said with PS_ASSERT.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/slice.h"

/** libFuzzer's name for it; always 0. */
/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

#define FUZZ_SLICES_MAX 256u

/** Bytes cut into slices of `n_run` bytes (0: one slice), the rest in the last one. */
struct fuzz_cut {
    struct ps_slice slices[FUZZ_SLICES_MAX];
    size_t n_slices;
};

static inline void fuzz_cut(struct fuzz_cut *cut, const uint8_t *data, size_t n_bytes, size_t n_run)
{
    cut->n_slices = 0;
    while (n_run > 0 && n_bytes > n_run && cut->n_slices < FUZZ_SLICES_MAX - 1) {
        cut->slices[cut->n_slices++] = (struct ps_slice){.data = data, .n_bytes = n_run};
        data += n_run;
        n_bytes -= n_run;
    }
    cut->slices[cut->n_slices++] = (struct ps_slice){.data = data, .n_bytes = n_bytes};
}

#endif
