/* fuzz_libsvm.c — libsvm text, plain or packed: see fuzz_text.h. */
#include "fuzz.h"
#include "fuzz_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    fuzz_text(n_bytes > 0 && data[0] >= 128 ? "auto" : "libsvm", data, n_bytes);
    return 0;
}
