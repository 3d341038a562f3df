/* run_result.c — the report for programs and the summary for people. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "os/posix_disk.h"
#include "os/process.h"
#include "run.h"

static void print_bytes(const char *what, uint64_t n)
{
    (void)printf("  %-16s %.1f MB\n", what, (double)n / 1e6);
}

/* A figure that does not apply is no number. */
static void print_figure(const char *what, double figure)
{
    if (!isnan(figure)) {
        (void)printf("  %-16s %.4f\n", what, figure);
    }
}

static void print_summary(const struct run *run)
{
    const struct ps_report *report = &run->report;
    (void)printf("trained %s on %s: %" PRIu64 " rows, %" PRIu64 " epochs, %s\n", report->model,
                 report->data, report->rows_train, report->epochs, report->consistency);
    if (run->options.in_process) {
        (void)printf("  %-16s this process\n", "cluster");
    } else {
        (void)printf("  %-16s %" PRIu64 " servers, %" PRIu64 " workers\n", "cluster",
                     report->servers, report->workers);
    }
    (void)printf("  %-16s %.1f s, %.0f examples/s, %" PRIu64 " steps\n", "time", report->wall_s,
                 report->examples_per_s, report->steps);
    print_figure("training loss", report->train_loss);
    print_figure("test loss", report->test_loss);
    if (!isnan(report->test_accuracy)) {
        (void)printf("  %-16s %.4f of %" PRIu64 " rows\n", "test accuracy", report->test_accuracy,
                     report->rows_test);
    }
    print_figure("test AUC", report->test_auc);
    print_figure("test RMSE", report->test_rmse);
    if (report->rows_bad != PS_REPORT_NO_COUNT && report->rows_bad > 0) {
        (void)printf("  %-16s %" PRIu64 "\n", "lines skipped", report->rows_bad);
    }
    if (!isnan(report->staleness_mean) && !isnan(report->blocked_fraction)) {
        (void)printf("  %-16s mean %.2f, max %" PRIu64 "; blocked %.1f %% of the time\n",
                     "staleness", report->staleness_mean, report->staleness_max,
                     100.0 * report->blocked_fraction);
    }
    (void)printf("  %-16s each %" PRIu64 " to %" PRIu64 " times\n", "rows trained",
                 report->rows_trained_min, report->rows_trained_max);
    print_bytes("pushed", report->bytes_pushed);
    print_bytes("pulled", report->bytes_pulled);
    if (report->sessions_lost > 0) {
        (void)printf("  %-16s %" PRIu64 "\n", "sessions lost", report->sessions_lost);
    }
    if (report->model_path != NULL) {
        (void)printf("  %-16s %s\n", "model", report->model_path);
    }
}

static int print_json(const struct run *run)
{
    char *json = ps_report_json(&run->report);
    if (json == NULL) {
        (void)fprintf(stderr, "ps-run: no memory for the report\n");
        return 70;
    }
    (void)printf("%s\n", json);
    ps_mem_free(json);
    return 0;
}

int run_result(struct run *run)
{
    struct ps_error err = {0};
    if (run->options.report != NULL) {
        enum ps_status status =
            ps_report_write(ps_posix_disk(), run->options.report, &run->report, &err);
        if (status != PS_OK) {
            (void)fprintf(stderr, "ps-run: --report: %s\n", err.text);
            return 74;
        }
    }
    int exit_status = 0;
    if (run->options.json) {
        exit_status = print_json(run);
    } else {
        print_summary(run);
    }
    return exit_status == 0 ? ps_os_finish_stdout("ps-run") : exit_status;
}
