/* process.c — see process.h. */
#include "os/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

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

int ps_os_finish_stdout(const char *program)
{
    errno = 0; /* What failed before left its mark, but not its reason. */
    if (fflush(stdout) == 0 && ferror(stdout) == 0) {
        return 0;
    }
    (void)fprintf(stderr, "%s: cannot write to standard output%s%s\n", program,
                  errno != 0 ? ": " : "", errno != 0 ? strerrordesc_np(errno) : "");
    return 74;
}
