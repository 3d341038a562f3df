#ifndef PS_TOOLS_RUN_CHILDREN_H
#define PS_TOOLS_RUN_CHILDREN_H
/*
 * run_children.h — the servers and workers that ps-run starts: found, watched, ended.
 *
 * Programs are looked for beside this one, so that a build, an installation and a container work
 * alike. Every child is told to die with its parent, so that even a killed ps-run leaves nothing
 * behind. On the loop's thread only.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/limits.h"
#include "os/child.h"
#include "os/loop.h"

struct run_screen;

#define RUN_CHILDREN_MAX   (PS_SERVERS_MAX + PS_SESSIONS_MAX)
#define RUN_CHILD_ARGS_MAX 64u
#define RUN_PATH_BYTES     4096u
#define RUN_LINE_BYTES     256u

struct run_child {
    struct run_children *all;
    struct ps_child *process; /* NULL once it has ended. */
    char name[16];            /* "worker 2" */
    bool server;
    bool ready; /* Servers: `address` is known. */
    bool ended;
    bool told; /* Asked to end by us: its end is no news. */
    int exit_status;
    int signal; /* That ended it; 0: none. */
    uint64_t pid;
    uint32_t n_restarts;
    char address[PS_ADDRESS_BYTES_MAX + 1];
    char last[RUN_LINE_BYTES]; /* Its last line on standard error. */
};

struct run_children {
    struct ps_loop *loop;
    struct run_screen *screen;
    char folder[RUN_PATH_BYTES]; /* Where ps-server and ps-worker are. */
    uint32_t n;
    struct run_child at[RUN_CHILDREN_MAX];
    void (*changed)(void *arg); /* Somebody is ready or has ended. */
    void *arg;
};

/** Find the programs. @return PS_ERR_NOT_FOUND with a message that says where we looked */
PS_MUST_CHECK enum ps_status run_children_init(struct run_children *children, const char *argv0,
                                               struct ps_error *err);

/**
 * Start `program` (ps-server, ps-worker) with `args`, ended by NULL, as child "<kind> <index>". One
 * in *ret that has ended is started again, and keeps its address until it says another one.
 */
PS_MUST_CHECK enum ps_status run_children_start(struct run_children *children, bool server,
                                                uint32_t index, const char *const *args,
                                                struct run_child **ret, struct ps_error *err);

/** How many of a kind still run. */
uint32_t run_children_running(const struct run_children *children, bool server);

/** Send `signal` to all of a kind that still run, and expect their end. */
void run_children_signal(struct run_children *children, bool server, int signal);

/** "was killed by signal 9 (Killed)" or "ended with status 3: its last line". */
void run_child_describe_end(const struct run_child *child, char *text, size_t n_bytes);

#endif
