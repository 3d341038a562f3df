/* process.c — see process.h. */
#include "os/process.h"

#include <signal.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

/* A parent that died before this call sends no signal; but nobody reads what we say any more. */
void ps_os_die_with_parent(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct pollfd out = {.fd = STDOUT_FILENO};
    if (poll(&out, 1, 0) == 1 && (out.revents & (POLLHUP | POLLERR)) != 0) {
        (void)raise(SIGKILL);
    }
}

void ps_os_open_standard_fds(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            (void)open("/dev/null", O_RDWR); /* The lowest free number is fd. */
        }
    }
}
