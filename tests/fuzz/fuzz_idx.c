/* fuzz_idx.c — a file of MNIST's kind: accepted only when every value lies within it. */
#include "data/idx.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct ps_idx_view view;
    if (ps_idx_parse(data, n_bytes, &view, NULL) != PS_OK) {
        return 0;
    }
    PS_ASSERT(view.n_dims >= 1 && view.n_dims <= PS_IDX_DIMS_MAX);
    uint64_t n_values = 1;
    for (uint32_t d = 0; d < view.n_dims; d++) {
        PS_ASSERT(view.dims[d] >= 1);
        n_values *= view.dims[d];
    }
    PS_ASSERT(n_values == view.n_values);
    PS_ASSERT(view.values + view.n_values == data + n_bytes);
    return 0;
}
