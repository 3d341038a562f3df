#ifndef PS_SERVER_SERVER_H
#define PS_SERVER_SERVER_H
/*
 * server.h — one server, put together: listener, lanes, attending, and on request the coordinator.
 *
 * Composed from parts that only know common/port, so the same code runs as the ps-server daemon
 * (gRPC, threads), inside ps-run --in-process (direct transport, inline executor) and in the
 * simulator. No globals: any number of servers may live in one process.
 *
 *   transport threads --> svc_data --mail--> lanes (slots, pages, gate) --> replies
 *                     \-> coord  --mail--> main executor <--mail-- attend (stream to coordinator)
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/mem.h"
#include "obs/metric.h"
#include "port/disk.h"
#include "port/exec.h"
#include "port/transport.h"
#include "slot/ledger.h"

struct ps_server;

/** Bugs that a test build (-Dplant=true) can be told to have: the rigs must find them. */
enum ps_plant {
    PS_PLANT_NONE,
    PS_PLANT_GATE_OFF_BY_ONE, /* A pull is answered one clock too early. */
    PS_PLANT_DEDUPE_OFF,      /* A repeated push is applied again. */
    PS_PLANT_DEAD_IN_MINIMUM  /* A dead worker's clock stays in the minimum. */
};

struct ps_server_options {
    struct ps_transport *transport;
    struct ps_exec *exec;                /* Main: attending and coordinator. */
    struct ps_exec *lanes[PS_LANES_MAX]; /* One per lane. */
    uint32_t n_lanes;
    struct ps_mem *mem; /* Outlives the server and every page on loan. */
    struct ps_metrics *metrics;
    struct ps_ledger_limits limits; /* Of sessions and of all calls; 0: presets. */
    const struct ps_creds *creds;
    const char *listen;      /* Address to serve; port 0 picks one. */
    const char *advertise;   /* What others dial; port 0: the listener's; NULL: all of it. */
    const char *coordinator; /* Address; NULL: this server is the coordinator. */
    const char *name;        /* For people: "server-0". */
    struct ps_id session;    /* Random: this process start (incarnation). */
    struct ps_id cluster_id; /* To join, when it does not coordinate; none: any. */
    /* Coordinator only. */
    struct ps_id new_cluster_id; /* Random; used when the store holds none. */
    uint64_t new_key_seed;       /* Likewise. */
    uint32_t n_servers;          /* Expected; placement is made when so many have joined. */
    struct ps_disk *disk;        /* With `store_path`: the coordinator's store is this file. */
    const char *store_path;      /* NULL: in memory. */
    uint32_t grace_ms;           /* 0: PS_STREAM_GRACE_MS. */
    uint32_t silence_ms;         /* 0: PS_SILENCE_MS. */
    uint32_t give_up_ms;         /* Attending: coordinator silent for so long is lost; 0: 10000. */
    uint64_t seed;               /* Of the back-off's jitter. */
    uint64_t index_seed;         /* Random and told nobody: of the indexes of rows. */
    enum ps_plant plant;         /* Honoured in test builds only. */
    /** The job's state changed or the cluster is lost. On the main executor. May be NULL. */
    void (*changed)(void *arg);
    void *arg;
};

/** What the composition root wants to know. */
struct ps_server_view {
    bool joined;
    uint32_t index;       /* In the placement, once joined. */
    uint32_t job;         /* enum JobState of the wire. */
    struct ps_error lost; /* status != PS_OK: stop; why. */
};

/** Bind, start serving and joining. Call on the main executor (or before it runs). */
PS_MUST_CHECK enum ps_status ps_server_start(const struct ps_server_options *options,
                                             struct ps_server **ret, struct ps_error *err);

/** Where it can be dialled; valid until destroy. */
const char *ps_server_address(const struct ps_server *server);

/** Of a coordinator; others have none to call their own. */
struct ps_id ps_server_cluster_id(const struct ps_server *server);

/** On the main executor. */
void ps_server_view(const struct ps_server *server, struct ps_server_view *ret);

/**
 * Begin to stop: take no new calls, answer what is parked, leave. `done(arg)` runs on the main
 * executor when nothing is under way any more.
 */
void ps_server_stop(struct ps_server *server, void (*done)(void *arg), void *arg);

/** After `done` (or, in the simulator, after a crash: executors no longer run). */
void ps_server_destroy(struct ps_server *server);

#endif
