#ifndef PS_SERVER_COORD_COORD_CORE_H
#define PS_SERVER_COORD_COORD_CORE_H
/*
 * coord/coord_core.h — every decision of the coordinator: members, clocks, leases, step closes.
 *
 * Pure: no clock, I/O, thread, allocation or chance; time comes with the event. Everything that
 * members are told is absolute and versioned, so an event changes state and nothing else: the
 * shell compares what a stream was last told with what is true now, and sends the difference.
 *
 *   event -> change -> settle: taken over? loaded? open, close step, let go, min clock, start,
 *                              lend, decide a close, cut
 *
 * `dirty` says that the part which must outlive the coordinator has changed; the shell writes it
 * before anybody is told. Rules by number: protocol.md (1, 6, 7, 9, 12), repeated where they act.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/limits.h"
#include "coord/cut_core.h"
#include "coord/lease_core.h"
#include "coord/member_core.h"

/* Sessions and servers, and room to remember some that have ended. */
#define PS_COORD_MEMBERS_MAX (2u * PS_SESSIONS_MAX)
#define PS_COORD_NOBODY      UINT32_MAX

PS_STATIC_ASSERT(PS_COORD_MEMBERS_MAX > PS_SESSIONS_MAX + PS_SERVERS_MAX,
                 "a newcomer always finds a place while the bounds allow it");

/* Bugs that the simulator must find; honoured only in builds with -Dplant=true. */
enum ps_coord_plant {
    PS_COORD_PLANT_NONE,
    PS_COORD_PLANT_DEAD_IN_MINIMUM,    /* A dead worker's clock stays in the minimum for ever. */
    PS_COORD_PLANT_TAKEOVER_CLOCKS,    /* Rule 4: after a takeover only who has reported counts. */
    PS_COORD_PLANT_TAKEOVER_LENDS,     /* Rule 4: a lease is told before the store knows of it. */
    PS_COORD_PLANT_EPOCH_KEPT,         /* Rule 2b: a server that returns keeps its epochs. */
    PS_COORD_PLANT_RESTORE_TWO_WRITES, /* Rule 11: the generation first, then what belongs to it. */
    PS_COORD_PLANT_PROGRESS_AFTER_CUT  /* Rule 1: progress is noted after the slots were cut. */
};

enum ps_coord_kind { /* As SessionKind on the wire. */
    PS_COORD_WORKER = 1,
    PS_COORD_READER = 2,
    PS_COORD_SERVER = 3
};

enum ps_coord_job_state { /* As JobState on the wire. */
    PS_COORD_WAITING = 1,
    PS_COORD_RUNNING = 2,
    PS_COORD_DONE = 3,
    PS_COORD_LOST = 4,
    PS_COORD_STOPPED = 5,
    PS_COORD_RESTORING = 6
};

enum ps_coord_mode { /* As ConsistencyMode on the wire. */
    PS_COORD_BSP = 1,
    PS_COORD_SSP = 2,
    PS_COORD_ASP = 3
};

struct ps_coord_consistency {
    uint64_t version; /* 0: no job yet. */
    enum ps_coord_mode mode;
    uint32_t bound;
    bool aggregate;
    uint32_t n_backups;
};

/* What the core knows of a job definition. */
struct ps_coord_job {
    uint32_t workers;
    uint32_t start_timeout_ms; /* 0: wait for ever. */
    struct ps_coord_consistency consistency;
};

/* How far a slot's line goes, compared within one generation. */
struct ps_coord_position {
    uint64_t epoch;
    uint64_t position; /* 0: it has no record. */
};

struct ps_coord_line {
    uint32_t slot; /* Below PS_SLOTS. */
    struct ps_coord_position end;
};

/* What a server brings along. */
struct ps_coord_server_join {
    struct ps_id id;     /* Of its data directory, for ever the same; none: it has none. */
    uint64_t generation; /* That its data are of; 0: it has none. */
    uint32_t durability; /* As Durability on the wire. */
    struct ps_coord_position lines[PS_SLOTS];
};

struct ps_coord_join {
    enum ps_coord_kind kind;
    struct ps_id session;
    const char *name;    /* At most PS_NAME_BYTES_MAX. */
    const char *address; /* At most PS_ADDRESS_BYTES_MAX; servers only, else "". */
    bool unleased;       /* Workers only. */
    const struct ps_coord_server_join *server; /* NULL: nothing is brought along. */
};

/* Each number: what is applied in every slot of the server. */
struct ps_coord_acks {
    uint64_t placement;
    uint64_t sessions;
    uint64_t catalogue;
    uint64_t finished;
    uint64_t closed_steps;
    uint64_t loaded;    /* Generation that its slots hold; 0: it does not say. */
    uint64_t min_clock; /* The highest that its gates have seen. */
    uint32_t lost_slot; /* 1 + a slot that stands below what a client was told; 0: none. */
    uint32_t n_lines;   /* Slots in `lines`. */
    const struct ps_coord_line *lines;
    struct ps_coord_cut_report cut;
};

struct ps_coord_progress { /* What a worker says of itself. */
    uint64_t clock;
    uint64_t lease;
    uint32_t units_done;
    bool lease_over;      /* Over parts: units_done is all that the lease has, */
    uint64_t lease_rows;  /*   and the rows of these. */
    uint64_t staged_step; /* 1 + step; 0: nothing staged. */
    uint32_t staged_unit;
    uint32_t staged_rows;
    uint64_t held; /* The cut for which it holds its next unit; 0: none. */
};

struct ps_coord_staged {
    bool is; /* For the step min_clock, at every server. */
    uint32_t unit;
    uint32_t rows;
};

struct ps_coord_member {
    bool used;
    bool streaming; /* A stream is bound to it. */
    bool closing;   /* Ended, but not every slot has closed the session: it still counts. */
    bool ghost;     /* Planted bug: counts for ever. */
    bool unleased;  /* A worker with rows of its own: never lent any, not one of the job's. */
    bool reported;  /* Under this term. */
    uint64_t held;  /* As it reported. */
    enum ps_coord_kind kind;
    struct ps_member life;
    struct ps_id session;
    uint64_t number;         /* Of the session; servers have one too. */
    uint64_t opened_version; /* Sessions list that has it first. */
    uint64_t closed_version; /* Sessions list without it; 0: none yet. */
    uint64_t clock;
    uint64_t lease;       /* 0: idle. */
    uint64_t lease_clock; /* The clock when it was lent, */
    uint32_t lease_units; /*   and how many of its units were done then. */
    struct ps_coord_staged staged;
    uint32_t server; /* Servers: index in the placement. */
    struct ps_coord_acks acks;
    const char *why; /* How it ended; static, or in the core. */
    char name[PS_NAME_BYTES_MAX + 1];
    char address[PS_ADDRESS_BYTES_MAX + 1];
};

/* One place among the servers, whoever has it now. */
struct ps_coord_place {
    struct ps_id id; /* Of the data directory. */
    uint32_t durability;
    bool placed;      /* It has acknowledged a placement, so it has something to lose. */
    bool away;        /* Its process is gone or silent, and is waited for. */
    bool heard;       /* It has acknowledged this term. */
    uint64_t away_ms; /* Since when. */
    uint64_t since;   /* The placement of its latest epochs; what it knew before counts not. */
    uint64_t loaded;  /* The generation that its slots hold. */
    uint32_t n_tries; /* So often its process ended before it had loaded this generation's cut. */
    uint64_t view;    /* Min clock at its gates, as it said. */
};

/* What the generation began with. */
struct ps_coord_base {
    bool is;     /* A cut: else with nothing. */
    bool loaded; /* By every server. */
    uint64_t generation;
    uint64_t cut;
};

struct ps_coord_placement {
    uint64_t version; /* 0: none yet. */
    uint32_t primary[PS_SLOTS];
    uint64_t epoch[PS_SLOTS];
};

struct ps_coord_close_entry {
    uint64_t session_number;
    uint64_t lease;
    uint32_t unit;
    uint32_t rows;
};

struct ps_coord_close {
    bool decided; /* There is one: the latest. */
    bool pending; /* Not yet acknowledged by every server. */
    uint64_t step;
    uint32_t n_entries;
    struct ps_coord_close_entry entries[PS_SESSIONS_MAX];
};

struct ps_coord_core_options {
    uint32_t n_servers; /* 1 to PS_SERVERS_MAX */
    struct ps_member_times times;
    uint32_t tick_ms;                /* How often ps_coord_core_tick will be called. */
    uint64_t term;                   /* > 0 */
    uint64_t first_session_number;   /* > 0; higher than any of earlier terms. */
    uint64_t first_sessions_version; /* As above. */
    uint64_t first_cut;              /* > 0; as above. */
    uint64_t generation;             /* > 0 */
    uint32_t wait_ms;                /* For servers that are away. */
    uint32_t snapshot_every_ms;      /* 0: cuts only when asked. */
    bool cuts;                       /* There is a keeper of cuts. */
    bool lends_written;              /* What is lent must be in the store before it is told. */
    enum ps_coord_plant plant;
};

struct ps_coord_core {
    struct ps_coord_core_options options;
    bool dirty;
    enum ps_coord_job_state state;
    char reason[PS_ERROR_TEXT_BYTES]; /* With LOST and STOPPED. */
    char broke_why[80];               /* Words for the two ways to die. */
    char silent_why[48];
    uint32_t n_members; /* Places in use so far. */
    struct ps_coord_member members[PS_COORD_MEMBERS_MAX];
    uint32_t servers[PS_SERVERS_MAX]; /* Member by server index, or PS_COORD_NOBODY. */
    struct ps_coord_place places[PS_SERVERS_MAX];
    struct ps_coord_position lines[PS_SLOTS]; /* The highest that were reported. */
    struct ps_coord_placement placement;
    uint64_t placement_from; /* The version before the first. */
    uint64_t generation;
    struct ps_coord_base base;
    bool taking_over; /* Not everybody has been heard under this term (rule 4). */
    bool wants_back;  /* Data are lost, `reason` says whose: the shell must find a cut. */
    char back_why[PS_ERROR_TEXT_BYTES]; /* Why this generation began. */
    struct ps_coord_cut cut;
    bool has_cut; /* There is a complete one of this generation, or it began with one. */
    uint64_t next_session_number;
    uint64_t sessions_version;
    uint64_t catalogue_version;
    uint64_t finished_version;
    uint64_t min_clock;
    bool has_job;
    struct ps_coord_job job;
    struct ps_lease_pool pool;
    struct ps_coord_close close;
    bool has_first_worker;
    uint64_t first_worker_ms;
    bool started;
    uint64_t started_ms;
    uint64_t done_ms;
    uint64_t ticked_ms;
    uint64_t sessions_lost;
    uint64_t n_lent;
    uint64_t n_returned;
};

void ps_coord_core_init(struct ps_coord_core *core, uint64_t now_ms,
                        const struct ps_coord_core_options *options);

/* ---- Events -------------------------------------------------------------------------------- */

/**
 * Somebody joins. A repeat finds itself again.
 *
 * @return PS_OK          `*ret_member` is known; sessions wait for ps_coord_core_open
 *         PS_ERR_BUSY    as many sessions as there may be are open
 *         PS_ERR_FENCED  that session has ended
 *         PS_ERR_EXISTS  a server too many
 *         PS_ERR_LOST, PS_ERR_CANCELED  the job is over, see the words
 */
PS_MUST_CHECK enum ps_status ps_coord_core_join(struct ps_coord_core *core, uint64_t now_ms,
                                                const struct ps_coord_join *join,
                                                uint32_t *ret_member, struct ps_error *err);

/** A stream was bound to the member: it lives. */
void ps_coord_core_stream_up(struct ps_coord_core *core, uint64_t now_ms, uint32_t member);
/** Its stream, the only one, broke. */
void ps_coord_core_stream_down(struct ps_coord_core *core, uint64_t now_ms, uint32_t member);

/** A sign of life without news. False: the member has ended. */
bool ps_coord_core_heard(struct ps_coord_core *core, uint64_t now_ms, uint32_t member);

/** News of a worker; also a sign of life. Ignored unless it names the lease that it holds. */
void ps_coord_core_progress(struct ps_coord_core *core, uint64_t now_ms, uint32_t member,
                            const struct ps_coord_progress *progress);

/** News of a server; also a sign of life. Numbers never go back. */
void ps_coord_core_acks(struct ps_coord_core *core, uint64_t now_ms, uint32_t member,
                        const struct ps_coord_acks *acks);

/** The member says goodbye; a repeat changes nothing. */
void ps_coord_core_leave(struct ps_coord_core *core, uint64_t now_ms, uint32_t member);

/** One more table is in the catalogue. */
void ps_coord_core_table(struct ps_coord_core *core);

/** The job is defined. `memory` as in ps_lease_pool_init. At most once. */
void ps_coord_core_job(struct ps_coord_core *core, uint64_t now_ms, const struct ps_coord_job *job,
                       const struct ps_lease_plan *plan, void *memory);

/** Time has passed: who is dead? To be called every options.tick_ms. */
void ps_coord_core_tick(struct ps_coord_core *core, uint64_t now_ms);

/** Everything ends here: a server, or with it data, is gone for good. */
void ps_coord_core_lose(struct ps_coord_core *core, uint64_t now_ms, const char *reason);

/** Everything ends here; the first reason counts. */
void ps_coord_core_stop(struct ps_coord_core *core, uint64_t now_ms, const char *reason);

/* ---- What is true now ---------------------------------------------------------------------- */

/** The member with that session, ended ones included; PS_COORD_NOBODY when unknown. */
uint32_t ps_coord_core_find(const struct ps_coord_core *core, const struct ps_id *session);

/** Sessions: every server knows it. Servers: they have joined. */
bool ps_coord_core_open(const struct ps_coord_core *core, uint32_t member);

/** Whether the session belongs in the list of open sessions now. */
bool ps_coord_core_listed(const struct ps_coord_member *member);

/** Whether its clock counts in the minimum. */
bool ps_coord_core_counted(const struct ps_coord_member *member);

/** Whether there is something to come back from when a server is gone for a while. */
bool ps_coord_core_returns(const struct ps_coord_core *core);

/** Tables that every server has made. */
uint64_t ps_coord_core_catalogue_acked(const struct ps_coord_core *core);

/** Servers that have joined. */
uint32_t ps_coord_core_servers(const struct ps_coord_core *core);

/** Whether the member is a server that must load what the generation began with. */
bool ps_coord_core_loads(const struct ps_coord_core *core, uint32_t member);

/** LOST or STOPPED: nothing is lent, finished or defined any more. */
bool ps_coord_core_over(const struct ps_coord_core *core);

/** Milliseconds since training started; stops when it is done. */
uint64_t ps_coord_core_running_ms(const struct ps_coord_core *core, uint64_t now_ms);

#endif
