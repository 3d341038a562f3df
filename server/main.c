/*
 * main.c — the ps-server daemon: settings, threads and transport around one struct ps_server.
 *
 * Main thread: the loop (attending, coordinator, signals). SIGTERM and SIGINT stop it in order; a
 * second one ends it at once.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "base/assert.h"
#include "base/failpoint.h"
#include "obs/log.h"
#include "os/alloc.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "os/loop.h"
#include "os/memory.h"
#include "os/posix_disk.h"
#include "os/process.h"
#include "os/random.h"
#include "os/thread_exec.h"
#include "rpc/rpc.h"
#include "server.h"
#include "server_options.h"

#define EXIT_USAGE        2
#define EXIT_CLUSTER_LOST 4
#define EXIT_DAMAGED      65
#define EXIT_INTERNAL     70
#define EXIT_DISK         74
#define EXIT_DENIED       77
#define LANES_AUTO_MAX    4u
#define LINGER_MS         300u /* The coordinator's last news must reach the others. */
#define JOB_STOPPED       5u   /* As JobState on the wire. */

struct daemon {
    struct ps_server_settings settings;
    struct ps_conf conf; /* Where they came from, for messages. */
    struct ps_loop *loop;
    struct ps_thread_exec *lanes[PS_LANES_MAX];
    uint32_t n_lanes;
    struct ps_thread_exec *log;  /* Writes the log. */
    struct ps_thread_exec *snap; /* Writes snapshots. */
    struct ps_rpc *rpc;
    struct ps_mem mem;
    struct ps_metrics metrics;
    struct ps_disk *disk;
    struct ps_server *server;
    struct ps_timer linger;
    char snapshot_dir[PS_DIR_BYTES_MAX + sizeof("/snapshots")];
    bool stopping;
    bool stopped; /* In order: nothing is under way any more. */
    int exit_status;
};

static const struct ps_creds insecure = {.kind = PS_CREDS_INSECURE};

static int exit_status_of(enum ps_status status)
{
    switch ((int)status) {
    case PS_ERR_INVALID:
    case PS_ERR_NOT_FOUND:
    case PS_ERR_EXISTS:
    case PS_ERR_UNSUPPORTED: return EXIT_USAGE;
    case PS_ERR_NOMEM:
    case PS_ERR_INTERNAL: return EXIT_INTERNAL;
    case PS_ERR_CORRUPT: return EXIT_DAMAGED;
    case PS_ERR_IO:
    case PS_ERR_NO_SPACE: return EXIT_DISK;
    case PS_ERR_DENIED: return EXIT_DENIED;
    default: return EXIT_CLUSTER_LOST;
    }
}

static void stopped(void *arg)
{
    struct daemon *daemon = arg;
    daemon->stopped = true;
    ps_loop_stop(daemon->loop);
}

static void stop(struct daemon *daemon)
{
    if (!daemon->stopping) {
        daemon->stopping = true;
        ps_server_stop(daemon->server, stopped, daemon);
    }
}

static void on_signal(void *arg, int signal)
{
    struct daemon *daemon = arg;
    if (daemon->stopping) {
        ps_loop_stop(daemon->loop);
        return;
    }
    ps_log(PS_LOG_INFO, "server.stopping", "signal=%d", signal);
    stop(daemon);
}

static void run_linger(struct ps_timer *timer)
{
    stop(PS_CONTAINER_OF(timer, struct daemon, linger));
}

static void changed(void *arg)
{
    struct daemon *daemon = arg;
    struct ps_server_view view;
    ps_server_view(daemon->server, &view);
    if (view.lost.status != PS_OK && daemon->exit_status == 0) {
        (void)fprintf(stderr, "ps-server: %s\n", view.lost.text);
        /* Refused by the coordinator: it has not been in the cluster that it could lose. */
        bool own = view.lost.status == PS_ERR_IO || view.lost.status == PS_ERR_CORRUPT ||
                   view.lost.status == PS_ERR_NO_SPACE; /* Its own disk, not the cluster. */
        daemon->exit_status =
            view.joined && !own ? EXIT_CLUSTER_LOST : exit_status_of(view.lost.status);
    }
    if (view.lost.status != PS_OK || view.job == JOB_STOPPED) {
        ps_timer_start(ps_loop_port(daemon->loop), &daemon->linger, LINGER_MS);
    }
}

static enum ps_status start_threads(struct daemon *daemon, struct ps_error *err)
{
    enum ps_status status = ps_loop_create(&daemon->loop, err);
    if (status == PS_OK) {
        status = ps_loop_on_signal(daemon->loop, on_signal, daemon, err);
    }
    uint32_t n_cpus = ps_cpu_usable();
    uint32_t n_lanes = daemon->settings.lanes;
    if (n_lanes == 0) {
        n_lanes = n_cpus < LANES_AUTO_MAX ? n_cpus : LANES_AUTO_MAX;
    }
    for (uint32_t i = 0; i < n_lanes && status == PS_OK; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "lane-%" PRIu32, i);
        status = ps_thread_exec_create(name, &daemon->lanes[i], err);
        daemon->n_lanes += status == PS_OK ? 1 : 0;
    }
    if (status == PS_OK && daemon->settings.durability != PS_DURABILITY_MEMORY) {
        status = ps_thread_exec_create("log", &daemon->log, err);
    }
    if (status == PS_OK) {
        status = ps_thread_exec_create("snap", &daemon->snap, err);
    }
    if (status == PS_OK) {
        struct ps_rpc_options rpc = {.mem = &daemon->mem};
        status = ps_rpc_create(&rpc, &daemon->rpc, err);
    }
    return status;
}

/* Also where the disk is what it is: a flag is named that way, and its source. */
static enum ps_status make_dir(const struct daemon *daemon, const char *name, const char *dir,
                               struct ps_error *err)
{
    struct ps_conf_words words;
    enum ps_status status = dir != NULL ? ps_disk_make_dir(daemon->disk, dir, err) : PS_OK;
    return status == PS_OK ? PS_OK
                           : ps_wrap(err, status, "%s", ps_conf_say(&daemon->conf, name, &words));
}

static enum ps_status start_server(struct daemon *daemon, struct ps_error *err)
{
    const struct ps_server_settings *s = &daemon->settings;
    struct ps_server_options options = {
        .transport = ps_rpc_transport(daemon->rpc),
        .exec = ps_loop_port(daemon->loop),
        .n_lanes = daemon->n_lanes,
        .mem = &daemon->mem,
        .metrics = &daemon->metrics,
        .limits = {.session_bytes = s->session_memory, .total_bytes = s->call_memory},
        .creds = &insecure,
        .listen = s->listen,
        .advertise = s->advertise,
        .coordinator = s->coordinator,
        .name = s->name,
        .cluster_id = s->cluster_id,
        .n_servers = s->servers,
        .grace_ms = (uint32_t)s->grace_ms,
        .silence_ms = (uint32_t)s->silence_ms,
        .give_up_ms = ps_conf_given(&daemon->conf, "give-up") ? (uint32_t)s->give_up_ms : 0,
        .wait_ms = (uint32_t)s->wait_ms,
        .snapshot_every_ms = s->snapshot_every_ms,
        .snapshot_keep = s->snapshot_keep,
        .wall_ms = ps_clock_wall_ms,
        .disk = daemon->disk,
        .data_dir = s->data_dir,
        .snapshot_dir = s->snapshot_dir,
        .restore_dir = s->restore_dir,
        .durability = (enum ps_durability)s->durability,
        .log_bytes = s->log_bytes,
        .changed = changed,
        .arg = daemon,
    };
    for (uint32_t i = 0; i < daemon->n_lanes; i++) {
        options.lanes[i] = ps_thread_exec_port(daemon->lanes[i]);
    }
    options.log_exec = daemon->log != NULL ? ps_thread_exec_port(daemon->log) : NULL;
    options.snap_exec = ps_thread_exec_port(daemon->snap);
    ps_random_id(&options.session);
    ps_random_id(&options.new_cluster_id);
    memcpy(&options.seed, options.session.bytes, sizeof(options.seed));
    ps_random_bytes(&options.new_key_seed, sizeof(options.new_key_seed));
    ps_random_bytes(&options.index_seed, sizeof(options.index_seed));
    ps_random_id(&options.new_server_id);
    enum ps_status status = ps_server_plant(s->plant, &options.plant, err);
    if (s->snapshot_dir == NULL && s->data_dir != NULL) {
        int n = snprintf(daemon->snapshot_dir, sizeof(daemon->snapshot_dir), "%s/snapshots",
                         s->data_dir);
        PS_ASSERT(n > 0 && (size_t)n < sizeof(daemon->snapshot_dir));
        options.snapshot_dir = daemon->snapshot_dir;
    }
    if (status == PS_OK) {
        status = make_dir(daemon, "data-dir", s->data_dir, err);
    }
    if (status == PS_OK) {
        status = make_dir(daemon, "snapshot-dir", s->snapshot_dir, err);
    }
    if (status != PS_OK) {
        return status;
    }
    return ps_server_start(&options, &daemon->server, err);
}

static void stop_thread(struct ps_thread_exec *thread)
{
    if (thread != NULL) {
        ps_thread_exec_stop(thread);
    }
}

/* Threads end before what they use; the reverse of the order of making. */
static void clean_up(struct daemon *daemon)
{
    for (uint32_t i = 0; i < daemon->n_lanes; i++) {
        ps_thread_exec_stop(daemon->lanes[i]);
    }
    stop_thread(daemon->log);
    stop_thread(daemon->snap);
    ps_server_destroy(daemon->server);
    ps_rpc_destroy(daemon->rpc);
    for (uint32_t i = 0; i < daemon->n_lanes; i++) {
        ps_thread_exec_destroy(daemon->lanes[i]);
    }
    ps_thread_exec_destroy(daemon->log);
    ps_thread_exec_destroy(daemon->snap);
    ps_loop_destroy(daemon->loop);
}

static void say_ready(const struct daemon *daemon)
{
    (void)printf("ready address=%s", ps_server_address(daemon->server));
    struct ps_id cluster = ps_server_cluster_id(daemon->server);
    if (!ps_id_none(&cluster)) {
        char text[PS_ID_TEXT_BYTES];
        ps_id_text(&cluster, text);
        (void)printf(" cluster=%s", text);
    }
    (void)printf("\n");
    (void)fflush(stdout);
}

static int serve(struct daemon *daemon)
{
    struct ps_error err;
    enum ps_status status = start_threads(daemon, &err);
    if (status == PS_OK) {
        status = start_server(daemon, &err);
    }
    if (status != PS_OK) {
        (void)fprintf(stderr, "ps-server: %s\n", err.text);
        clean_up(daemon);
        return exit_status_of(status);
    }
    say_ready(daemon);
    ps_loop_run(daemon->loop);
    if (!daemon->stopped) { /* A second signal: the process ends around what is under way. */
        (void)fflush(NULL);
        _exit(daemon->exit_status);
    }
    clean_up(daemon);
    return daemon->exit_status;
}

#ifdef PS_PLANT
static void say_failpoint(const struct ps_failpoint_nth *nth)
{
    ps_log(PS_LOG_WARN, "failpoint.fires", "place=%s occasion=%" PRIu32 " signal=%s", nth->name,
           nth->at, nth->stops ? "stop" : "kill");
}
#endif

static enum ps_status set_failpoint(const struct daemon *daemon, struct ps_error *err)
{
    const char *name = daemon->settings.failpoint;
    struct ps_conf_words words;
    if (strcmp(name, "none") == 0) {
        return PS_OK;
    }
#ifdef PS_PLANT
    static struct ps_failpoint_nth nth;
    nth.stops = strncmp(name, "stop-", 5) == 0;
    nth.name = nth.stops || strncmp(name, "kill-", 5) == 0 ? name + 5 : name;
    nth.at = daemon->settings.failpoint_at;
    nth.say = say_failpoint;
    if (ps_failpoint_set_nth(&nth)) {
        return PS_OK;
    }
    return ps_fail(err, PS_ERR_INVALID,
                   "%s: no place has this name: common/base/failpoint.h lists "
                   "them",
                   ps_conf_say(&daemon->conf, "failpoint", &words));
#else
    return ps_fail(err, PS_ERR_INVALID, "%s works in test builds only (-Dplant=true)",
                   ps_conf_say(&daemon->conf, "failpoint", &words));
#endif
}

static int start(struct daemon *daemon)
{
    struct ps_error err;
    if (daemon->settings.data_dir != NULL && !ps_conf_given(&daemon->conf, "durability")) {
        daemon->settings.durability = PS_DURABILITY_LOG;
    }
    if (ps_server_options_check(&daemon->conf, &daemon->settings, &err) != PS_OK ||
        set_failpoint(daemon, &err) != PS_OK) {
        (void)fprintf(stderr, "ps-server: %s\n", err.text);
        return EXIT_USAGE;
    }
    if (daemon->settings.die_with_parent) {
        ps_os_die_with_parent();
    }
    ps_alloc_tune();
    ps_log_name_set(daemon->settings.name);
    ps_log_level_set((enum ps_log_level)daemon->settings.log_level);
    ps_mem_init(&daemon->mem);
    daemon->mem.limit[PS_MEM_PAGES] =
        daemon->settings.memory_max != 0 ? daemon->settings.memory_max : ps_memory_usable() / 4 * 3;
    daemon->disk = ps_posix_disk();
    ps_timer_init(&daemon->linger, run_linger);
    return serve(daemon);
}

int main(int argc, char **argv)
{
    ps_os_open_standard_fds();
    static struct daemon daemon;
    struct ps_error err;
    switch (ps_conf_parse(&daemon.conf, &ps_server_program, argc, argv, &daemon.settings, &err)) {
    case PS_CONF_DONE: return ps_os_finish_stdout("ps-server");
    case PS_CONF_BAD: (void)fprintf(stderr, "ps-server: %s\n", err.text); return EXIT_USAGE;
    case PS_CONF_RUN: break;
    }
    int exit_status = start(&daemon);
    ps_conf_deinit(&daemon.conf);
    return exit_status;
}
