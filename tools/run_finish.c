/* run_finish.c — the whole model: pulled, judged, written. */
#include "run_finish.h"

enum ps_status run_finish(struct run *run, struct ps_client *client, struct ps_error *err)
{
    return ps_training_finish(&run->training, client, &run->report, run->options.out,
                              run->model_path, err);
}
