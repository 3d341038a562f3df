#ifndef PS_TOOLS_RUN_FINISH_H
#define PS_TOOLS_RUN_FINISH_H
/*
 * run_finish.h — the whole model after the last row: pulled by a reader, judged, written.
 */
#include <ps/client.h>

#include "run.h"

/** Blocks. `client` is of kind reader. */
PS_MUST_CHECK enum ps_status run_finish(struct run *run, struct ps_client *client,
                                        struct ps_error *err);

#endif
