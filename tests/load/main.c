/*
 * main.c — ps-load: a thread per session, and what all of them have seen as one JSON object.
 *
 * Says "ready" when all sessions are open and then starts; an end by time is an end in peace: every
 * unit that was begun is finished, so that what was acknowledged is what was applied.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <unistd.h>

#include "base/assert.h"
#include "conf/conf.h"
#include "load.h"
#include "os/process.h"
#include "rpc/rpc.h"

static const char *const modes[] = {"push", "pull", "read", NULL};

#define AT(field) .offset = offsetof(struct load_options, field)

static const struct ps_option rows[] = {
    {.name = "coordinator",
     .group = "Load",
     .help = "The one server.",
     .type = PS_OPTION_STRING,
     .required = true,
     AT(coordinator)},
    {.name = "mode",
     .help = "What the sessions do.",
     .type = PS_OPTION_ENUM,
     .words = modes,
     .preset = "push",
     AT(mode)},
    {.name = "sessions",
     .help = "How many.",
     .type = PS_OPTION_U32,
     .min = 1,
     .max = LOAD_SESSIONS_MAX,
     .preset = "1",
     AT(sessions)},
    {.name = "depth",
     .help = "Pulls of a session that are under way at a time.",
     .type = PS_OPTION_U32,
     .min = 1,
     .max = LOAD_SESSIONS_MAX,
     .preset = "1",
     AT(depth)},
    {.name = "first",
     .help = "The first session's own element; the others' follow it.",
     .type = PS_OPTION_U32,
     .preset = "0",
     AT(first)},
    {.name = "elements",
     .help = "Of the table.",
     .type = PS_OPTION_U64,
     .min = 1,
     .preset = "65536",
     AT(elements)},
    {.name = "time",
     .help = "How long.",
     .type = PS_OPTION_DURATION_MS,
     .preset = "2s",
     AT(time_ms)},
    {.name = "start",
     .unit = "FILE",
     .help = "Open the sessions, say \"ready\", and start when this file is there.",
     .type = PS_OPTION_STRING,
     AT(start)},
    {.name = "shown",
     .help = "Elements that read prints, from the first on.",
     .type = PS_OPTION_U32,
     .max = 4096,
     .preset = "64",
     AT(shown)},
};

static const struct ps_option_table table = {rows, PS_ARRAY_LEN(rows)};
static const struct ps_option_use uses[] = {{&table, 0}};
static const struct ps_program program = {
    .name = "ps-load",
    .summary = "Sessions that push or pull one table as fast as they may. For tests.",
    .env_prefix = "PS_LOAD",
    .uses = uses,
    .n_uses = PS_ARRAY_LEN(uses),
};

static struct load_session sessions[LOAD_SESSIONS_MAX];

static bool make_memory(struct load_session *session)
{
    size_t n_block = PS_BLOCK_FLOATS_MAX;
    session->request = calloc(1, sizeof(*session->request));
    session->reply = calloc(1, sizeof(*session->reply));
    session->head = malloc(PS_HEAD_BYTES_MAX);
    session->own = calloc(n_block, sizeof(float));
    session->zeros = calloc(n_block, sizeof(float)); /* Never touched: no memory. */
    return session->request != NULL && session->reply != NULL && session->head != NULL &&
           session->own != NULL && session->zeros != NULL;
}

static enum ps_status wait_for_start(struct load_session *session)
{
    enum ps_status status = PS_OK;
    const char *path = session->options->start;
    while (path != NULL && access(path, F_OK) != 0 && status == PS_OK) {
        load_wait_ms(5);
        status = load_tick(session);
    }
    return status;
}

static void *run_session(void *arg)
{
    struct load_session *session = arg;
    uint64_t own = session->options->first + session->index;
    session->own[own % session->table.layout.block_floats] = -1.0f;
    enum ps_status status = wait_for_start(session);
    uint64_t end_ms = load_now_ms() + session->options->time_ms;
    while (status == PS_OK) {
        status = load_unit(session, session->n_acked);
        if (status == PS_OK) {
            session->n_acked++;
            status = load_tick(session);
        }
        if (load_now_ms() >= end_ms || session->options->mode == LOAD_READ) {
            break;
        }
    }
    if (status != PS_OK && session->err.status == PS_OK) {
        (void)ps_fail(&session->err, status, "%s", ps_status_text(status));
    }
    return NULL;
}

static void print_all(const struct load_options *options, uint64_t took_ms)
{
    uint64_t n_busy = 0;
    uint64_t n_without_hint = 0;
    uint64_t n_failed = 0;
    uint64_t n_ended = 0;
    const char *why = "";
    (void)printf("{\"acked\": [");
    for (uint32_t i = 0; i < options->sessions * options->depth; i++) {
        const struct load_session *session = &sessions[i];
        n_busy += session->n_busy;
        n_without_hint += session->n_without_hint;
        n_failed += session->n_failed;
        n_ended += session->err.status != PS_OK;
        why = session->err.status != PS_OK ? session->err.text : why;
        (void)printf("%s%" PRIu64, i > 0 ? ", " : "", session->n_acked);
    }
    (void)printf("], \"values\": [");
    for (uint32_t i = 0; i < options->shown && options->mode == LOAD_READ; i++) {
        (void)printf("%s%g", i > 0 ? ", " : "", (double)sessions[0].own[i]);
    }
    (void)printf("], \"busy\": %" PRIu64 ", \"busy_without_hint\": %" PRIu64
                 ", \"failed\": %" PRIu64 ", \"ended\": %" PRIu64
                 ", \"why\": \"%s\", \"took_ms\": %" PRIu64 "}\n",
                 n_busy, n_without_hint, n_failed, n_ended, why, took_ms);
}

static int run(const struct load_options *options)
{
    struct ps_error err;
    struct ps_rpc *rpc = NULL;
    pthread_t threads[LOAD_SESSIONS_MAX];
    if (ps_rpc_create(&(struct ps_rpc_options){0}, &rpc, &err) != PS_OK) {
        (void)fprintf(stderr, "ps-load: %s\n", err.text);
        return 1;
    }
    uint32_t n = options->sessions * options->depth;
    for (uint32_t i = 0; i < n; i++) {
        struct load_session *session = &sessions[i];
        session->options = options;
        session->transport = ps_rpc_transport(rpc);
        session->index = i;
        if (!make_memory(session) || (i % options->depth == 0 && load_open(session) != PS_OK)) {
            (void)fprintf(stderr, "ps-load: %s\n", session->err.text);
            return 1; /* The process is all there is to clean up. */
        }
        if (i % options->depth != 0) {
            load_share(session, &sessions[i - i % options->depth]);
        }
    }
    (void)printf("ready\n");
    (void)fflush(stdout);
    uint64_t start_ms = load_now_ms();
    for (uint32_t i = 0; i < n; i++) {
        PS_ASSERT(pthread_create(&threads[i], NULL, run_session, &sessions[i]) == 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    print_all(options, load_now_ms() - start_ms);
    for (uint32_t i = 0; i < n; i++) {
        if (i % options->depth == 0) {
            load_close(&sessions[i]);
        }
        free(sessions[i].request);
        free(sessions[i].reply);
        free(sessions[i].head);
        free(sessions[i].own);
        free(sessions[i].zeros);
    }
    ps_rpc_destroy(rpc);
    return 0;
}

int main(int argc, char **argv)
{
    ps_os_open_standard_fds();
    ps_os_die_with_parent();
    struct ps_conf conf;
    static struct load_options options;
    struct ps_error err;
    switch (ps_conf_parse(&conf, &program, argc, argv, &options, &err)) {
    case PS_CONF_DONE: return 0;
    case PS_CONF_BAD: (void)fprintf(stderr, "ps-load: %s\n", err.text); return 2;
    case PS_CONF_RUN: break;
    }
    if (options.sessions * options.depth > LOAD_SESSIONS_MAX ||
        (options.depth > 1 && options.mode != LOAD_PULL)) {
        (void)fprintf(stderr, "ps-load: --depth is for pulls, %u threads at most\n",
                      LOAD_SESSIONS_MAX);
        return 2;
    }
    return run(&options);
}
