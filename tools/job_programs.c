/* job_programs.c — see conf/job.h. A program of its own section in a job file has a line here. */
#include "conf/job.h"
#include "psctl_options.h"
#include "run_options.h"
#include "server_options.h"
#include "worker_options.h"

const struct ps_program *const ps_job_programs[] = {
    &ps_run_program, &ps_server_program, &ps_worker_program, &psctl_program, NULL,
};
