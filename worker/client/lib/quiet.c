/*
 * quiet.c — in the shared library only: a program's standard error belongs to the program. It has
 * its lines where it wants them with ps_client_log_to.
 */
#include "obs/log.h"

__attribute__((constructor)) static void be_quiet(void)
{
    ps_log_level_set(PS_LOG_NONE);
}
