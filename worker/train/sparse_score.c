/* sparse_score.c — see sparse_score.h. */
#include "train/sparse_score.h"

enum ps_status ps_sparse_score(const struct ps_setup *setup, struct ps_row_source *source,
                               const struct ps_source *data,
                               const struct ps_sparse_score_options *options,
                               struct ps_sparse_score_result *ret, struct ps_error *err)
{
    (void)setup;
    (void)source;
    (void)data;
    (void)options;
    *ret = (struct ps_sparse_score_result){0};
    return ps_fail(err, PS_ERR_UNSUPPORTED, "scoring is not there yet");
}
