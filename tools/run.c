/* run.c — ps-run: a whole cluster on this machine with one command. Flags in run_options.c. */
#include "run.h"

#include <stdio.h>

#include <unistd.h>

#include "base/bytes.h"
#include "conf/job.h"
#include "num/blas.h"
#include "obs/log.h"
#include "os/alloc.h"
#include "os/process.h"
#include "os/random.h"

/* Everything that can be wrong with flags and data, before anything is started. */
static enum ps_status prepare(struct run *run, struct ps_error *err)
{
    enum ps_status status = ps_run_options_check(&run->conf, &run->options, err);
    if (status != PS_OK) {
        return status;
    }
    if (!run->options.train.seed_given) {
        /* Drawn here, so that it can be handed to every worker and is in the model's notes. */
        struct ps_id id;
        ps_random_id(&id);
        run->options.train.seed = ps_load_u64(id.bytes) >> 1; /* Readable as a signed number. */
        run->options.train.seed_given = true;
    }
    status = ps_training_open(&run->options.train, &run->mem, &run->training, err);
    return status == PS_OK ? ps_finish_check(&run->conf, run->options.out, run->options.report, err)
                           : status;
}

static int run_all(struct run *run)
{
    struct ps_error err = {0};
    enum ps_status status = prepare(run, &err);
    if (status != PS_OK) {
        (void)fprintf(stderr, "ps-run: %s\n", err.text);
        return ps_train_exit_status(status);
    }
    if (ps_training_said(&run->training) != NULL) {
        (void)fprintf(stderr, "ps-run: %s\n", ps_training_said(&run->training));
    }
    if (ps_training_warning(&run->training) != NULL) {
        (void)fprintf(stderr, "ps-run: warning: %s\n", ps_training_warning(&run->training));
    }
    ps_report_init(&run->report);
    int exit_status = run->options.in_process ? run_in_process(run) : run_cluster(run);
    return exit_status == 0 ? run_result(run) : exit_status;
}

int main(int argc, char **argv)
{
    ps_os_open_standard_fds();
    ps_alloc_tune();
    ps_blas_threads(1);
    static struct run run; /* Large, and alive as long as the process. */
    run.argv0 = argv[0];
    ps_mem_init(&run.mem);
    struct ps_error err = {0};
    switch (ps_conf_parse(&run.conf, &ps_run_program, argc, argv, &run.options, &err)) {
    case PS_CONF_DONE: return ps_os_finish_stdout("ps-run");
    case PS_CONF_BAD: (void)fprintf(stderr, "ps-run: %s\n", err.text); return 2;
    case PS_CONF_RUN: break;
    }
    for (size_t i = 0; ps_job_programs[i] != NULL; i++) { /* Children are told by flags alone. */
        if (ps_job_programs[i] != &ps_run_program) {
            ps_conf_env_forget(ps_job_programs[i]);
        }
    }
    ps_log_name_set("ps-run");
    ps_log_level_set((enum ps_log_level)run.options.log_level);
    int exit_status = run_all(&run);
    if (run.abandoned) {
        (void)fflush(NULL);
        _exit(exit_status); /* Not exit: it would pull libraries from under the thread. */
    }
    ps_training_close(&run.training);
    ps_conf_deinit(&run.conf);
    return exit_status;
}
