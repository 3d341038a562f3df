/* process.c — see process.h. */
#include "os/process.h"

#include <signal.h>

#include <sys/prctl.h>
#include <unistd.h>

void ps_os_die_with_parent(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
}
