#ifndef PS_COMMON_CONF_JOB_H
#define PS_COMMON_CONF_JOB_H
/*
 * conf/job.h — the programs that one job file is for.
 *
 * Each of them has the rows of all, so that a mistake anywhere in the file is found by whoever
 * reads it first. The list is where the programs are put together: tools/job_programs.c.
 */
#include "conf/conf.h"

/** Ended by NULL. */
extern const struct ps_program *const ps_job_programs[];

#endif
