#ifndef PS_WORKER_TRAIN_MODEL_NOTE_H
#define PS_WORKER_TRAIN_MODEL_NOTE_H
/*
 * train/model_note.h — names and notes of a sparse model's file, shared by who writes and who reads
 * it; and the note that says how rows begin, as JSON:
 *
 *   {"fm.factor":{"table":1,"init":"normal","scale":0.03,"seed":"7"}, ...}
 */
#include "base/attr.h"
#include "base/error.h"
#include "num/init.h"
#include "train/setup.h"

#define PS_MODEL_FILE_NAME  "model.safetensors"
#define PS_MODEL_KEYS       ".keys"
#define PS_MODEL_ROWS       ".rows"
#define PS_MODEL_NOTE_SETUP "setup"
#define PS_MODEL_NOTE_SEED  "seed"
#define PS_MODEL_NOTE_ROWS  "rows"

/** First weights of a sparse table's keys: see ps_init_row. */
struct ps_model_first {
    uint32_t number;
    struct ps_init init;
};

/**
 * What the setup's model and the numbers of its sparse tables say, to be freed with ps_mem_free.
 * @return PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_model_note_write(const struct ps_setup *setup,
                                                 const uint32_t *numbers, char **ret,
                                                 struct ps_error *err);

/**
 * Read it, from anybody, for the sparse tables of the setup's model: `ret` [n_sparse].
 * @return PS_ERR_CORRUPT
 */
PS_MUST_CHECK enum ps_status ps_model_note_read(const struct ps_setup *setup, const char *text,
                                                struct ps_model_first *ret, struct ps_error *err);

#endif
