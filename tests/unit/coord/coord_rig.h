#ifndef PS_TESTS_UNIT_COORD_COORD_RIG_H
#define PS_TESTS_UNIT_COORD_COORD_RIG_H
/*
 * unit/coord/coord_rig.h — a whole coordinator over the direct transport, in virtual time.
 *
 * Members are streams that remember what they were told; servers acknowledge at once everything
 * they hear unless held back. Calls are begun, and looked at when they are done.
 */
#include <signal.h>
#include <stdbool.h>

#include "coord/coord.h"
#include "coordinator.pb-c.h"
#include "lib/test_main.h"
#include "port/direct.h"

#define RIG_MEMBERS_MAX 8u

/* A member's side of its stream. */
struct rig_member {
    struct rig *rig;
    struct ps_id session;
    uint64_t number;
    bool server;
    bool held; /* A server that acknowledges nothing. */
    struct ps_stream *stream;
    bool closed;
    enum ps_status closed_status;
    uint32_t n_states;
    uint64_t n_bytes; /* Of all states. */
    /* The last of each that was told. */
    uint64_t placement, catalogue, sessions, n_sessions, n_staged, staged, finished, consistency;
    uint64_t n_placements;
    uint64_t closed_steps, n_entries;
    uint64_t min_clock;
    Ps__V1__JobState job;
    bool fenced;
    uint64_t lease, lease_clock;
    uint32_t units, units_done, part;
    uint64_t key_seed;         /* As Join said. */
    Ps__V1__RowStats *rows[4]; /* A server's, in its reports. */
    size_t n_rows;
    uint64_t memory_limit; /* Of a server that reports rows. */
    /* Servers that log. */
    uint8_t id;        /* Of its data. */
    uint64_t position; /* Of every slot. */
    uint64_t loaded, cut, restore, kept, view;
    uint32_t lost_slot; /* 1 + a slot that lacks records; 0: none does. */
    bool slow;          /* It does not load, and takes no cut. */
    uint64_t hold;      /* Workers: asked for, and reported. */
    uint64_t generation, term;
    uint32_t patience_ms;
    char reason[256];
};

/* What a coordinator of the rig is started with. */
struct rig_setup {
    bool durable; /* And its servers log. */
    struct ps_cut_keeper *keeper;
    const char *restore_dir;
    enum ps_coord_plant plant;
};
extern struct rig_setup rig_setup;

struct rig {
    uint64_t now_ns;
    struct ps_inline_exec exec;
    struct ps_direct *direct;
    struct ps_listener *listener;
    struct ps_channel *channel;
    struct ps_method methods[PS_COORD_METHODS];
    struct ps_store *store;
    struct ps_metrics metrics;
    struct ps_mem mem;
    struct ps_coord *coord;
    struct rig_member members[RIG_MEMBERS_MAX];
    uint32_t n_members;
    uint32_t n_sessions; /* Made up so far. */
    uint32_t timeout_ms; /* Of calls; 2000 at first. */
    uint64_t n_coords;   /* Started so far; each brings a key seed of its own. */
};

/* One call of a client. */
struct rig_call {
    struct ps_request request;
    bool done;
    ProtobufCMessage *reply; /* On PS_OK. */
    const ProtobufCMessageDescriptor *type;
    uint8_t bytes[8192];
};

Suite *suite_store(void);
Suite *suite_define(void);
Suite *suite_foreign(void);
Suite *suite_coord(void);
Suite *suite_hostile(void);
Suite *suite_rows(void);
Suite *suite_parts(void);
Suite *suite_life(void);

/** A coordinator for `n_servers` servers over `store`, which the rig then owns. */
void rig_start(struct rig *rig, struct ps_store *store, uint32_t n_servers);
void rig_stop(struct rig *rig);
/** Stop the coordinator and start another one over the same store. */
void rig_restart(struct rig *rig, uint32_t n_servers);
/** The coordinator dies and another takes over; members stay, without streams. */
void rig_takeover(struct rig *rig, uint32_t n_servers);
/** A server starts again with its data, at another address. It attends. */
enum ps_status rig_rejoin(struct rig_member *member);
/** Let virtual time pass. */
void rig_pass(struct rig *rig, uint32_t ms);

void rig_call_start(struct rig *rig, struct rig_call *call, const char *method,
                    const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply);
/** Start, pump, and tell how it ended; PS_ERR_NOT_YET while it has not. */
enum ps_status rig_call(struct rig *rig, struct rig_call *call, const char *method,
                        const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply);
void rig_call_free(struct rig_call *call);

/** Join, and tell how it ended; the member is taken into `rig->members`. */
enum ps_status rig_join(struct rig *rig, Ps__V1__SessionKind kind, struct rig_member **ret);
enum ps_status rig_leave(struct rig *rig, const struct rig_member *member);
/** Open a member's stream and send the first report. */
void rig_attend(struct rig_member *member);
/** Break a member's stream. */
void rig_break(struct rig_member *member);
/** Send a report as it stands: a server's acknowledgements, a worker's `progress`. */
void rig_report(struct rig_member *member, Ps__V1__WorkerReport *progress);
/** Two servers and `n_workers` workers, all attending; workers are members 2 on. */
void rig_cluster(struct rig *rig, uint32_t n_workers);

enum ps_status rig_define_table(struct rig *rig, const struct rig_member *member,
                                Ps__V1__TableDefinition *definition, struct rig_call *call);
enum ps_status rig_define_job(struct rig *rig, const struct rig_member *member,
                              Ps__V1__JobDefinition *definition, struct rig_call *call);
Ps__V1__DescribeReply *rig_describe(struct rig *rig, struct rig_call *call);

/** Any disk: one file in memory that can be damaged. */
struct rig_disk {
    struct ps_disk base;
    uint8_t data[16384];
    size_t n_bytes;
    bool there;
    bool broken; /* Refuses to write. */
    bool full;   /* For now. */
};
void rig_disk_init(struct rig_disk *disk);

#endif
