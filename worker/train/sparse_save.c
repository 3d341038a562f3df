/* sparse_save.c — see sparse_save.h. */
#include "train/sparse_save.h"

enum ps_status ps_sparse_save(const struct ps_setup *setup, struct ps_row_source *source,
                              const char *folder, char path[PS_SAVE_PATH_BYTES],
                              struct ps_error *err)
{
    (void)setup;
    (void)source;
    (void)folder;
    (void)path;
    return ps_fail(err, PS_ERR_UNSUPPORTED, "saving is not there yet");
}
