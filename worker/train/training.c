/* training.c — see training.h. */
#include "train/training.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "data/data.h"
#include "data/format.h"
#include "data/reader.h"
#include "train/sparse_finish.h"
#include "train/sparse_flags.h"
#include "train/sparse_loop.h"

#define READS_MAX \
    5u /* A server that restarts while its rows are read makes the reader begin anew. */

PS_STATIC_ASSERT(PS_SAVE_PATH_BYTES == PS_FINISH_PATH_BYTES, "one buffer for both");

/* Lines, unless the format or the folder says images. */
static enum ps_status choose(const struct ps_train_options *options, bool *ret_lines,
                             struct ps_error *err)
{
    const char *format = options->format;
    if (format == NULL || strcmp(format, "auto") == 0) {
        *ret_lines = !ps_data_is_images(options->data);
        return PS_OK;
    }
    *ret_lines = ps_format_find(format) != NULL;
    if (!*ret_lines && ps_reader_find(format) == NULL) {
        struct ps_conf_words words;
        return ps_fail(err, PS_ERR_INVALID,
                       "%s: unknown format, expected auto, libsvm, csv, tsv, criteo or idx",
                       ps_conf_say(options->conf, "format", &words));
    }
    return PS_OK;
}

static enum ps_status check_model(const struct ps_train_options *options, struct ps_error *err)
{
    if (ps_model_find(options->model) != NULL || ps_sparse_model_find(options->model) != NULL) {
        return PS_OK;
    }
    struct ps_conf_words words;
    return ps_fail(err, PS_ERR_INVALID,
                   "%s: unknown model; of lines there are logreg, linear, softmax, fm, mf and "
                   "wide-deep, of images softmax and mlp",
                   ps_conf_say(options->conf, "model", &words));
}

enum ps_status ps_training_open(const struct ps_train_options *options, struct ps_mem *mem,
                                struct ps_training *training, struct ps_error *err)
{
    *training = (struct ps_training){0};
    bool lines = false;
    enum ps_status status = check_model(options, err);
    if (status == PS_OK) {
        status = choose(options, &lines, err);
    }
    if (status == PS_OK && lines) {
        training->lines = ps_mem_alloc(mem, PS_MEM_OTHER, sizeof(*training->lines));
        return training->lines != NULL ? ps_sparse_plan_open(options, mem, training->lines, err)
                                       : ps_fail(err, PS_ERR_NOMEM, "no memory for a plan");
    }
    if (status == PS_OK) {
        status = ps_sparse_flags_of_images(options, err);
    }
    return status == PS_OK ? ps_train_plan_open(options, mem, &training->images, err) : status;
}

void ps_training_close(struct ps_training *training)
{
    if (training->lines != NULL) {
        ps_sparse_plan_close(training->lines);
        ps_mem_free(training->lines);
    }
    ps_train_plan_close(&training->images);
    *training = (struct ps_training){0};
}

const char *ps_training_said(const struct ps_training *training)
{
    return training->lines != NULL ? training->lines->setup->description->said : NULL;
}

const char *ps_training_warning(const struct ps_training *training)
{
    bool warns = training->lines != NULL && training->lines->few_parts[0] != '\0';
    return warns ? training->lines->few_parts : NULL;
}

enum ps_status ps_training_seed(struct ps_training *training, uint64_t seed, struct ps_error *err)
{
    return training->lines != NULL ? ps_sparse_plan_seed(training->lines, seed, err)
                                   : ps_train_plan_seed(&training->images, seed, err);
}

enum ps_status ps_training_run(struct ps_training *training, struct ps_client *client,
                               const _Atomic bool *stop, struct ps_train_result *ret,
                               struct ps_error *err)
{
    return training->lines != NULL ? ps_sparse_run(training->lines, client, stop, ret, err)
                                   : ps_train_run(&training->images, client, stop, ret, err);
}

static enum ps_status finish_dense(const struct ps_train_plan *plan, struct ps_client *client,
                                   struct ps_report *report, const char *folder,
                                   char path[PS_FINISH_PATH_BYTES], struct ps_error *err)
{
    struct ps_weights weights;
    enum ps_status status = ps_finish_pull(plan, client, &weights, err);
    if (status != PS_OK) {
        return status;
    }
    status = ps_finish_judge(plan, &weights, report, err);
    if (status == PS_OK && folder != NULL) {
        status = ps_finish_write(plan, &weights, folder, path, err);
        report->model_path = path;
    }
    ps_weights_deinit(&weights);
    return status;
}

enum ps_status ps_training_finish(struct ps_training *training, struct ps_client *client,
                                  struct ps_report *report, const char *folder,
                                  char path[PS_FINISH_PATH_BYTES], struct ps_error *err)
{
    if (training->lines == NULL) {
        return finish_dense(&training->images, client, report, folder, path, err);
    }
    enum ps_status status = PS_ERR_LATE;
    for (uint32_t i = 0; i < READS_MAX && status == PS_ERR_LATE; i++) {
        status = ps_sparse_finish(training->lines, client, report, folder, path, err);
    }
    return status;
}
