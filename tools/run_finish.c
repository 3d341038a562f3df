/* run_finish.c — the whole model: pulled, judged, written. */
#include "run_finish.h"

enum ps_status run_finish(struct run *run, struct ps_client *client, struct ps_error *err)
{
    struct ps_weights weights;
    enum ps_status status = ps_finish_pull(&run->plan, client, &weights, err);
    if (status != PS_OK) {
        return status;
    }
    status = ps_finish_judge(&run->plan, &weights, &run->report, err);
    if (status == PS_OK && run->options.out != NULL) {
        status = ps_finish_write(&run->plan, &weights, run->options.out, run->model_path, err);
        run->report.model_path = run->model_path;
    }
    ps_weights_deinit(&weights);
    return status;
}
