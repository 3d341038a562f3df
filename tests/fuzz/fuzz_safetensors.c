/* fuzz_safetensors.c — a model file: accepted only when every tensor lies within it. */
#include "format/safetensors.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static struct ps_tensor_view tensors[PS_SAFETENSORS_TENSORS_MAX];
    size_t n = 0;
    if (ps_safetensors_parse(data, n_bytes, tensors, &n, NULL) != PS_OK) {
        return 0;
    }
    PS_ASSERT(n <= PS_SAFETENSORS_TENSORS_MAX);
    for (size_t i = 0; i < n; i++) {
        uint64_t n_values = 1;
        PS_ASSERT(tensors[i].n_dims <= PS_DIMS_MAX);
        for (uint32_t d = 0; d < tensors[i].n_dims; d++) {
            n_values *= tensors[i].dims[d];
        }
        PS_ASSERT(n_values == tensors[i].n_values);
        PS_ASSERT(n_values == 0 || (tensors[i].data >= data && n_values <= n_bytes / 4 &&
                                    tensors[i].data + n_values * 4 <= data + n_bytes));
    }
    return 0;
}
