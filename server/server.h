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
    PS_PLANT_GATE_OFF_BY_ONE,       /* A pull is answered one clock too early. */
    PS_PLANT_DEDUPE_OFF,            /* A repeated push is applied again. */
    PS_PLANT_DEAD_IN_MINIMUM,       /* A dead worker's clock stays in the minimum. */
    PS_PLANT_ACK_BEFORE_SYNC,       /* A record is committed before the disk has it. */
    PS_PLANT_REPEAT_BEFORE_DURABLE, /* A repeat is acknowledged before its first copy is durable. */
    PS_PLANT_SESSIONS_NOT_IN_CUT,   /* A cut lacks sessions and the sequences they have used. */
    PS_PLANT_SESSIONS_NOT_REPLAYED, /* Recovery passes over lists of sessions. */
    PS_PLANT_DEDUPE_WITHOUT_STREAM, /* Sequences of all streams are one. */
    PS_PLANT_MIDDLE_TRUNCATED,      /* Recovery takes damage in the middle for a torn tail. */
    PS_PLANT_RENAME_BEFORE_SYNC,    /* A snapshot gets its name before its bytes are on disk. */
    PS_PLANT_DIR_NOT_SYNCED,        /* Names of new files are not on disk. */
    PS_PLANT_LOG_TRIMMED_EARLY,     /* Log goes that the oldest kept snapshot needs. */
    PS_PLANT_HALF_APPLIED,          /* Out of memory, a record is applied in part. */
    PS_PLANT_REORDER_EQUAL_LSN,     /* Records of one group are written in another order. */
    PS_PLANT_FENCE_AT_APPLIED,      /* The fence looks at the applied state, not the log's end. */
    PS_PLANT_STREAM_FORGOTTEN,      /* A finished lease's stream is forgotten, not marked. */
    PS_PLANT_PROGRESS_AFTER_CUT,    /* Progress of leases is noted after the slots were cut. */
    PS_PLANT_TAKEOVER_CLOCKS,       /* A new coordinator announces before all have reported. */
    PS_PLANT_TAKEOVER_LENDS,        /* A lease is told before the store knows of it. */
    PS_PLANT_RESTORE_TWO_WRITES,    /* The way back is written in two steps. */
    PS_PLANT_EPOCH_KEPT,            /* A server that comes back keeps the epochs of its slots. */
    PS_PLANT_SERVERS_END,           /* Those below are the client's: no server has them. */
    PS_PLANT_NEW_SEQUENCE           /* A call is repeated under another sequence. */
};

/** When a push is acknowledged. */
enum ps_durability {
    PS_DURABILITY_MEMORY, /* At once; survives nothing but the last snapshot. */
    PS_DURABILITY_LOG,    /* It is written to the log file: survives the process. */
    PS_DURABILITY_FSYNC   /* The disk has it: survives the power. */
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
    uint32_t grace_ms;           /* 0: PS_STREAM_GRACE_MS. */
    uint32_t silence_ms;         /* 0: PS_SILENCE_MS. */
    uint32_t wait_ms;            /* For a server that can come back; 0: PS_WAIT_SERVER_MS. */
    uint64_t snapshot_every_ms;  /* 0: only when it is asked for one, or a log is full. */
    uint32_t snapshot_keep;      /* Complete ones; 0: PS_SNAPSHOTS_KEPT. */
    uint64_t (*wall_ms)(void);   /* Since 1970, to say when one was taken; NULL with no disk. */
    /* What outlives the process; all paths are copied. */
    struct ps_disk *disk;      /* NULL: nothing does. */
    struct ps_exec *log_exec;  /* Writes the log; with durability above memory. */
    struct ps_exec *snap_exec; /* Writes and reads snapshots; with a `snapshot_dir`. */
    const char *data_dir;      /* Lock, identity, coordinator's store, log; NULL: none. */
    const char *snapshot_dir;  /* Shared, or this server's own; NULL: none. */
    const char *restore_dir;   /* Begin with the newest cut in there; NULL: with nothing. */
    enum ps_durability durability;
    uint64_t log_bytes;         /* Above it a snapshot is asked for; 0: PS_LOG_BYTES. */
    uint64_t log_segment_bytes; /* 0: as suits log_bytes. */
    struct ps_id new_server_id; /* Random; used when the data directory holds none. */
    uint32_t give_up_ms;        /* Attending: coordinator silent for so long is lost; 0: 10000. */
    uint64_t seed;              /* Of the back-off's jitter. */
    uint64_t index_seed;        /* Random and told nobody: of the indexes of rows. */
    enum ps_plant plant;        /* Honoured in test builds only. */
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
