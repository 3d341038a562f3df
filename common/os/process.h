#ifndef PS_COMMON_OS_PROCESS_H
#define PS_COMMON_OS_PROCESS_H
/*
 * os/process.h — what a process tells the kernel about itself.
 */

/**
 * Have the kernel kill this process (SIGKILL) when the thread that started it ends, however that
 * ends. Call first in main of a daemon that ps-run starts. A parent that ended before the call is
 * noticed by our standard output, if that is a pipe which it read.
 */
void ps_os_die_with_parent(void);

/**
 * Open /dev/null in place of standard input, output or error that the caller has closed. First in
 * every main: else the next file or socket opened would be "standard output".
 */
void ps_os_open_standard_fds(void);

/**
 * The last word of a program whose output is its result: else a full disk would look like success.
 * @return 0, or 74 after a line on standard error that begins with `program`
 */
int ps_os_finish_stdout(const char *program);

#endif
