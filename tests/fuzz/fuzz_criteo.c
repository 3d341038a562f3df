/* fuzz_criteo.c — click logs: see fuzz_text.h. */
#include "fuzz.h"
#include "fuzz_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    fuzz_text("criteo", data, n_bytes);
    return 0;
}
