/*
 * fuzz_model_file.c — a file with a sparse model: what is accepted answers for every key, whether
 * it has a row or not.
 */
#include "base/bytes.h"
#include "fuzz.h"
#include "train/model_file.h"

#define FLOATS_MAX 4096u /* Of rows and tables that are looked at. */

static void look(struct ps_model_file *file)
{
    static float out[FLOATS_MAX];
    const struct ps_sparse_model *model = ps_model_file_setup(file)->model;
    struct ps_row_source *rows = ps_model_file_rows(file);
    for (uint32_t t = 0; t < model->n_sparse; t++) {
        const struct ps_model_rows *table = ps_model_file_table(file, t);
        uint64_t keys[3] = {0, 0, UINT64_MAX};
        if (3 * model->sparse[t].width > FLOATS_MAX) {
            continue;
        }
        if (table->n > 0) {
            keys[1] = ps_load_u64(table->keys + (table->n / 2) * sizeof(uint64_t));
        }
        keys[1] = keys[1] == 0 || keys[1] == UINT64_MAX ? 1 : keys[1];
        PS_ASSERT(ps_row_source_fetch(rows, t, keys, 3, out, NULL) == PS_OK);
        struct ps_row_walk walk = {.table = t, .keys = keys, .values = out, .n_room = 3};
        uint64_t n = 0;
        while (!walk.done) {
            PS_ASSERT(ps_row_source_walk(rows, &walk, NULL) == PS_OK);
            n += walk.n;
        }
        PS_ASSERT(n == table->n);
    }
    for (uint32_t t = 0; t < model->n_dense; t++) {
        if (model->dense[t].n_values <= FLOATS_MAX) {
            PS_ASSERT(ps_row_source_dense(rows, t, out, NULL) == PS_OK);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct ps_model_file *file = NULL;
    if (ps_model_file_read(NULL, data, n_bytes, &file, NULL) == PS_OK) {
        look(file);
        ps_model_file_close(file);
    }
    return 0;
}
