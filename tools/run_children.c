/* run_children.c — see run_children.h. */
#include "run_children.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <unistd.h>

#include "base/assert.h"
#include "run_screen.h"

#define READY_LINE "ready address="

/* ---- Where the programs are ---------------------------------------------------------------- */

static bool holds_programs(const char *folder)
{
    char path[RUN_PATH_BYTES + 16];
    (void)snprintf(path, sizeof(path), "%s/ps-server", folder);
    if (access(path, X_OK) != 0) {
        return false;
    }
    (void)snprintf(path, sizeof(path), "%s/ps-worker", folder);
    return access(path, X_OK) == 0;
}

/* Cut the last part of a path off. */
static void to_parent(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
}

enum ps_status run_children_init(struct run_children *children, const char *argv0,
                                 struct ps_error *err)
{
    char self[RUN_PATH_BYTES] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n < 0) {
        n = 0;
    }
    self[n] = '\0';
    to_parent(self);
    char called[RUN_PATH_BYTES];
    (void)snprintf(called, sizeof(called), "%s", argv0);
    to_parent(called);
    const struct {
        const char *folder;
        const char *below;
    } places[] = {{called, ""}, {self, ""}, {self, "/../bin"}};
    for (size_t i = 0; i < PS_ARRAY_LEN(places); i++) {
        int length = snprintf(children->folder, sizeof(children->folder), "%s%s", places[i].folder,
                              places[i].below);
        bool fits = length > 0 && (size_t)length < sizeof(children->folder);
        if (fits && strchr(places[i].folder, '/') != NULL && holds_programs(children->folder)) {
            return PS_OK;
        }
    }
    return ps_fail(err, PS_ERR_NOT_FOUND,
                   "ps-server and ps-worker are neither in %.100s nor in %.100s/../bin", self,
                   self);
}

/* ---- What they say ------------------------------------------------------------------------- */

static void on_line(void *arg, struct ps_child *process, bool is_stderr, const char *text)
{
    struct run_child *child = arg;
    (void)process;
    if (!is_stderr && strncmp(text, READY_LINE, strlen(READY_LINE)) == 0) {
        const char *address = text + strlen(READY_LINE);
        (void)snprintf(child->address, sizeof(child->address), "%.*s", (int)strcspn(address, " "),
                       address); /* A coordinator names its cluster, too. */
        child->ready = true;
        child->all->changed(child->all->arg);
        return;
    }
    if (is_stderr) {
        (void)snprintf(child->last, sizeof(child->last), "%s", text);
    }
    /* What a server says before it serves is why it can't: that line is shown with its end. */
    if (!child->server || child->ready) {
        run_screen_from(child->all->screen, child->name, text);
    }
}

static void on_exit(void *arg, struct ps_child *process, int exit_status, int signal)
{
    struct run_child *child = arg;
    child->ended = true;
    child->exit_status = exit_status;
    child->signal = signal;
    child->process = NULL;
    ps_child_destroy(process);
    child->all->changed(child->all->arg);
}

void run_child_describe_end(const struct run_child *child, char *text, size_t n_bytes)
{
    if (child->signal != 0) {
        (void)snprintf(text, n_bytes, "was killed by signal %d (%s)", child->signal,
                       strsignal(child->signal)); // NOLINT(concurrency-mt-unsafe): one thread
    } else if (child->last[0] != '\0') {
        (void)snprintf(text, n_bytes, "ended with status %d: %s", child->exit_status, child->last);
    } else {
        (void)snprintf(text, n_bytes, "ended with status %d", child->exit_status);
    }
}

/* ---- Begin and end ------------------------------------------------------------------------- */

static const struct ps_child_events child_events = {.line = on_line, .exited = on_exit};

enum ps_status run_children_start(struct run_children *children, bool server, uint32_t index,
                                  const char *const *args, struct run_child **ret,
                                  struct ps_error *err)
{
    struct run_child *child = *ret;
    bool again = child != NULL;
    PS_ASSERT(again ? child->ended : children->n < RUN_CHILDREN_MAX);
    if (again) {
        child->ended = false;
        child->told = false;
        child->ready = false;
        child->last[0] = '\0';
        child->n_restarts++;
    } else {
        child = &children->at[children->n];
        *child = (struct run_child){.all = children, .server = server};
    }
    (void)snprintf(child->name, sizeof(child->name), "%s %" PRIu32, server ? "server" : "worker",
                   index);
    char program[RUN_PATH_BYTES + 16];
    (void)snprintf(program, sizeof(program), "%s/%s", children->folder,
                   server ? "ps-server" : "ps-worker");
    const char *argv[RUN_CHILD_ARGS_MAX + 2] = {program};
    size_t n = 0;
    while (args[n] != NULL) {
        PS_ASSERT(n < RUN_CHILD_ARGS_MAX);
        argv[n + 1] = args[n];
        n++;
    }
    enum ps_status status =
        ps_child_create(children->loop, argv, &child_events, child, &child->process, err);
    if (status != PS_OK) {
        child->ended = true;
        return ps_wrap(err, status, "starting %s", child->name);
    }
    children->n += again ? 0 : 1;
    child->pid = ps_child_pid(child->process);
    *ret = child;
    return PS_OK;
}

uint32_t run_children_running(const struct run_children *children, bool server)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < children->n; i++) {
        n += children->at[i].server == server && !children->at[i].ended ? 1 : 0;
    }
    return n;
}

void run_children_signal(struct run_children *children, bool server, int signal)
{
    for (uint32_t i = 0; i < children->n; i++) {
        struct run_child *child = &children->at[i];
        if (!child->ended && child->server == server) {
            child->told = true;
            ps_child_kill(child->process, signal);
        }
    }
}
