/* sparse_finish.c — see sparse_finish.h. */
#include "train/sparse_finish.h"

#include <math.h>

#include "data/format.h"
#include "train/live_rows.h"
#include "train/sparse_score.h"

static void report_plan(const struct ps_sparse_plan *plan, struct ps_report *report)
{
    const struct ps_description *description = plan->setup->description;
    report->model = plan->setup->kind->name;
    report->data = plan->options.data;
    if (description->format != &ps_format_criteo) { /* Of it nobody has looked at the lines. */
        report->rows_bad = description->n_bad;
    }
    report->rows_test = 0;
    report->consistency = plan->consistency_text;
    report->seed = plan->options.seed;
    report->own_lag = 0; /* Every pull comes after the own push. */
    if (plan->consistency.mode != PS_CONSISTENCY_ASP) {
        report->staleness_bound = plan->consistency.bound;
    }
}

static enum ps_status judge(const struct ps_sparse_plan *plan, struct ps_row_source *rows,
                            struct ps_report *report, struct ps_error *err)
{
    struct ps_sparse_score_options options = {
        .mem = plan->mem,
        .max_bad_rows = plan->options.max_bad_rows,
    };
    struct ps_sparse_score_result result;
    enum ps_status status = ps_sparse_score(plan->setup, rows, plan->test, &options, &result, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "evaluating the test set");
    }
    report->rows_test = result.counts.n_rows;
    report->test_loss = result.loss;
    report->test_accuracy = result.metrics.accuracy;
    report->test_auc = result.metrics.auc;
    report->test_rmse = result.metrics.rmse;
    if (result.counts.n_rows > 0 && !isfinite(result.loss)) {
        return ps_fail(err, PS_ERR_DIVERGED,
                       "training diverged: the test loss is not finite; use a smaller --lr (it is "
                       "%g)",
                       (double)plan->schedule.rate);
    }
    return PS_OK;
}

/* Something is wrong with the files of the test set, nothing with the model. */
static bool about_test(enum ps_status status)
{
    return status == PS_ERR_INVALID || status == PS_ERR_IO || status == PS_ERR_NOT_FOUND;
}

/* A line of the test set must not cost the hours that the training took. */
static enum ps_status save_anyway(const struct ps_sparse_plan *plan, struct ps_row_source *rows,
                                  const char *folder, char path[PS_SAVE_PATH_BYTES],
                                  enum ps_status status, struct ps_error *err)
{
    struct ps_error ignored;
    if (ps_sparse_save(plan->setup, rows, folder, path, &ignored) != PS_OK) {
        return status;
    }
    return ps_wrap(err, status, "the model is in '%s', but it could not be judged", path);
}

enum ps_status ps_sparse_finish(const struct ps_sparse_plan *plan, struct ps_client *client,
                                struct ps_report *report, const char *folder,
                                char path[PS_SAVE_PATH_BYTES], struct ps_error *err)
{
    report_plan(plan, report);
    struct ps_row_source *rows = NULL;
    enum ps_status status = ps_live_rows_open(plan->mem, client, plan->setup->model, &rows, err);
    if (status == PS_OK && plan->test != NULL) {
        status = judge(plan, rows, report, err);
    }
    if (folder != NULL && about_test(status)) {
        status = save_anyway(plan, rows, folder, path, status, err);
    } else if (status == PS_OK && folder != NULL) {
        status = ps_sparse_save(plan->setup, rows, folder, path, err);
        report->model_path = status == PS_OK ? path : NULL;
    }
    ps_row_source_close(rows);
    return status;
}
