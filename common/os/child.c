/*
 * child.c — see child.h.
 *
 * Three handles of libuv belong to a child: the process and its two pipes. `exited` is called when
 * the process has ended and both pipes are at their end; the struct is freed when the last handle
 * has been closed, after ps_child_destroy. A grandchild that holds a pipe open delays `exited`.
 */
#include "os/child.h"

#include <signal.h>
#include <string.h>

#include <uv.h>

#include "base/assert.h"
#include "base/mem.h"
#include "os/loop_impl.h"

struct output {
    uv_pipe_t pipe;
    struct ps_child *child;
    bool is_stderr;
    bool ended;
    size_t n_bytes; /* Of `line`: the beginning of one whose newline has not come yet. */
    char line[PS_CHILD_LINE_BYTES_MAX + 1];
};

struct ps_child {
    uv_process_t process;
    struct output outputs[2]; /* stdout, stderr. */
    const struct ps_child_events *events;
    void *arg;
    int exit_status;
    int signal;
    bool running;
    bool told;          /* `exited` has been called. */
    bool destroyed;     /* By its owner; no callbacks any more. */
    uint32_t n_handles; /* Not yet closed. */
    char chunk[65536];  /* Where libuv reads to. */
};

static void deliver(struct output *output)
{
    struct ps_child *child = output->child;
    output->line[output->n_bytes] = '\0';
    output->n_bytes = 0;
    if (!child->destroyed) {
        child->events->line(child->arg, child, output->is_stderr, output->line);
    }
}

static void split_lines(struct output *output, const char *text, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) {
        if (text[i] == '\n') {
            deliver(output);
            continue;
        }
        if (output->n_bytes == PS_CHILD_LINE_BYTES_MAX) {
            deliver(output);
        }
        output->line[output->n_bytes++] = text[i];
    }
}

static void tell_if_over(struct ps_child *child)
{
    bool over = !child->running && child->outputs[0].ended && child->outputs[1].ended;
    if (over && !child->told && !child->destroyed) {
        child->told = true;
        child->events->exited(child->arg, child, child->exit_status, child->signal);
    }
}

static void give_chunk(uv_handle_t *handle, size_t wanted PS_UNUSED, uv_buf_t *ret)
{
    struct output *output = handle->data;
    *ret = uv_buf_init(output->child->chunk, sizeof(output->child->chunk));
}

static void on_read(uv_stream_t *stream, ssize_t n_read, const uv_buf_t *buf)
{
    struct output *output = stream->data;
    if (n_read >= 0) {
        split_lines(output, buf->base, (size_t)n_read);
        return;
    }
    (void)uv_read_stop(stream);
    if (output->n_bytes > 0) {
        deliver(output);
    }
    output->ended = true;
    tell_if_over(output->child);
}

static void free_if_closed(struct ps_child *child)
{
    child->n_handles--;
    if (child->n_handles == 0 && child->destroyed) {
        ps_mem_free(child);
    }
}

static void on_process_closed(uv_handle_t *handle)
{
    free_if_closed(PS_CONTAINER_OF(handle, struct ps_child, process));
}

static void on_exit_of(uv_process_t *process, int64_t exit_status, int signal)
{
    struct ps_child *child = PS_CONTAINER_OF(process, struct ps_child, process);
    child->exit_status = (int)exit_status;
    child->signal = signal;
    child->running = false;
    if (child->destroyed) {
        uv_close((uv_handle_t *)process, on_process_closed);
        return;
    }
    tell_if_over(child);
}

static void on_pipe_closed(uv_handle_t *handle)
{
    struct output *output = handle->data;
    free_if_closed(output->child);
}

static int spawn(struct ps_loop *loop, struct ps_child *child, const char *const *argv)
{
    uv_stdio_container_t stdio[3] = {{.flags = UV_IGNORE}};
    for (int i = 0; i < 2; i++) {
        struct output *output = &child->outputs[i];
        (void)uv_pipe_init(ps_loop_uv(loop), &output->pipe, 0);
        output->pipe.data = output;
        output->child = child;
        output->is_stderr = i == 1;
        stdio[i + 1].flags =
            (uv_stdio_flags)((unsigned)UV_CREATE_PIPE | (unsigned)UV_WRITABLE_PIPE);
        stdio[i + 1].data.stream = (uv_stream_t *)&output->pipe;
    }
    union {
        const char *const *given;
        char **wanted; /* libuv only reads them. */
    } args = {.given = argv};
    uv_process_options_t options = {
        .exit_cb = on_exit_of,
        .file = argv[0],
        .args = args.wanted,
        .stdio_count = 3,
        .stdio = stdio,
        .flags = UV_PROCESS_DETACHED,
    };
    child->n_handles = 3;
    return uv_spawn(ps_loop_uv(loop), &child->process, &options);
}

enum ps_status ps_child_create(struct ps_loop *loop, const char *const *argv,
                               const struct ps_child_events *events, void *arg,
                               struct ps_child **ret, struct ps_error *err)
{
    struct ps_child *child = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*child));
    if (child == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to start %s", argv[0]);
    }
    child->events = events;
    child->arg = arg;
    int failed = spawn(loop, child, argv);
    if (failed != 0) {
        ps_child_destroy(child);
        return ps_fail(err, failed == UV_ENOENT ? PS_ERR_NOT_FOUND : PS_ERR_IO,
                       "cannot start %s: %s", argv[0], uv_strerror(failed));
    }
    child->running = true;
    for (int i = 0; i < 2; i++) {
        failed = uv_read_start((uv_stream_t *)&child->outputs[i].pipe, give_chunk, on_read);
        PS_ASSERT(failed == 0);
    }
    *ret = child;
    return PS_OK;
}

uint64_t ps_child_pid(const struct ps_child *child)
{
    return (uint64_t)child->process.pid;
}

void ps_child_kill(struct ps_child *child, int signal)
{
    if (child->running) {
        (void)uv_process_kill(&child->process, signal);
    }
}

void ps_child_destroy(struct ps_child *child)
{
    if (child == NULL) {
        return;
    }
    ps_child_kill(child, SIGKILL);
    child->destroyed = true;
    if (!child->running) { /* Else its end is waited for, so that no zombie stays. */
        uv_close((uv_handle_t *)&child->process, on_process_closed);
    }
    for (int i = 0; i < 2; i++) {
        uv_close((uv_handle_t *)&child->outputs[i].pipe, on_pipe_closed);
    }
}
