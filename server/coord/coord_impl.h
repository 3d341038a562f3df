#ifndef PS_SERVER_COORD_COORD_IMPL_H
#define PS_SERVER_COORD_COORD_IMPL_H
/*
 * coord/coord_impl.h — the structs that the files of the coordinator's shell share.
 *
 *   coord.c           life, the timer, and flush: write, answer, tell, in this order
 *   coord_call.c      the unary calls: handled at once, answered by flush
 *   coord_join.c, coord_tables.c      Join; DefineTable and DefineJob
 *   coord_cuts.c, coord_back.c        cuts and Snapshot; the way back and Restore
 *   coord_attend.c    the streams: reports in, states out
 *   coord_state.c     what is true now, as messages
 *   coord_stored.c, coord_progress.c  what outlives the process, as bytes
 *   coord_resume.c    taking over what an earlier coordinator left
 *   coord_define.c    definitions: check and compare
 *   coord_describe.c  everything, for people
 *
 * All of it runs on the executor, but for the few functions that turn an arrival into mail.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "cluster/layout.h"
#include "coord/coord.h"
#include "coord/coord_core.h"
#include "coord/coord_state.h"
#include "coordinator.pb-c.h"

/* Only the definition of a job is longer than other messages of control. */
#define PS_COORD_REQUEST_BYTES_MAX (PS_SETUP_BYTES_MAX + PS_CONTROL_BYTES_MAX)
#define PS_COORD_PARKED_EACH       16u /* Calls of a session that wait for something, */
#define PS_COORD_PARKED_MAX        (PS_COORD_PARKED_EACH * PS_SESSIONS_MAX) /*   and of all. */
#define PS_COORD_UNDER_WAY_MAX     (2u * PS_COORD_PARKED_MAX) /* Calls and streams in our hands. */
#define PS_COORD_PROVE_MS          1000u /* Whoever names a higher term costs a write so often. */
#define PS_COORD_TICK_MS           (PS_HEARTBEAT_MS / 2) /* Time passes in steps of this. */

/* A stream of Attend. Made when it is opened, gone when it has closed. */
struct coord_attend {
    struct ps_coord *coord;
    struct ps_stream *stream;
    struct ps_list node;    /* In the coordinator's. */
    struct ps_mail arrived; /* Brings it from a thread of the transport. */
    struct ps_mail left;
    uint32_t member;        /* PS_COORD_NOBODY: not bound. */
    bool unknown;           /* It reported a session that is not known here. */
    bool ended;             /* We have closed it; `closed` is to come. */
    struct coord_told told; /* What it knows. */
    uint64_t told_ms;
    uint64_t arrived_ms;
};

struct coord_kind; /* A unary method. */

/* What a listener hands back with a call: whose it is, and which method. */
struct coord_row {
    struct ps_coord *coord;
    const struct coord_kind *kind;
};

/* One unary call in our hands. */
struct coord_call {
    struct ps_coord *coord;
    struct ps_call *call;
    struct ps_mail mail;
    const struct coord_kind *kind;
    /* While it waits to be answered by flush. */
    struct ps_list node;
    struct ps_timer deadline;
    bool late;     /* The deadline is near: answer now, whatever is true. */
    bool outlives; /* Can be answered when the job is LOST or STOPPED, too. */
    /** Answer if it is time to, with coord_call_reply or coord_call_fail. */
    void (*answer)(struct coord_call *call);
    struct ps_id session; /* Whose call it is; none: nobody's. */
    uint32_t member;
    uint32_t table; /* DefineTable: its number. */
    uint64_t clock; /* WaitClock. */
};

struct coord_table {
    Ps__V1__TableDefinition *definition;
    uint32_t first_slot;
    uint64_t n_bytes; /* Weights and optimizer state, over all servers. */
};

struct coord_loss {
    double sum;
    uint64_t rows;
};

#define COORD_LOSS_EPOCHS 4u /* A lease that came back is of the epoch before, rarely older. */

/* A session's own cumulative loss in one epoch, as last reported. */
struct coord_peer_loss {
    uint32_t epoch; /* From 1; 0: none. */
    struct coord_loss loss;
};

/* What the shell knows of a member beside the core, by the same index. */
struct coord_peer {
    struct ps_id session;        /* Whose data these are: places of the ended are used again. */
    struct coord_attend *attend; /* Its stream, or NULL. */
    enum ps_member_state seen;   /* Last written to the log. */
    Ps__V1__WorkerStats worker;
    Ps__V1__ServerStats server;
    Ps__V1__RowStats *rows; /* [n_rows] Servers: of sparse tables. */
    uint32_t n_rows;
    uint32_t n_rows_room;
    struct coord_peer_loss losses[COORD_LOSS_EPOCHS]; /* By epoch mod their number. */
};

struct coord_definition {
    Ps__V1__JobDefinition *job; /* In force, choices filled in; NULL: none. */
    uint32_t units_asked;       /* units_per_lease as it was asked for. */
    void *pool_memory;
    struct coord_loss *losses; /* [epochs] */
};

struct ps_coord {
    struct ps_coord_options options;
    struct ps_id cluster_id;
    uint64_t key_seed;
    uint64_t term;
    struct ps_store_stamp stamp;
    bool stopped;       /* By ps_coord_stop. */
    bool failed;        /* The process ends: nothing at all is told any more. */
    bool store_lost;    /* Nothing that is not in the store may be told any more. */
    bool to_prove;      /* Somebody names a higher term: the store must say that ours stands. */
    uint64_t proved_ms; /* By a write, and */
    uint64_t stamp_ms;  /*   by a look at the store's stamp. */
    Ps__V1__Stored *resumes; /* What the store holds, until it is taken over; NULL: nothing. */
    struct ps_timer tick;
    struct ps_mail flush;
    bool flush_posted;
    struct ps_list parked; /* Of coord_call. */
    uint32_t n_parked;
    struct ps_list attends;
    _Atomic uint32_t n_under_way; /* Calls and streams in our hands. */
    struct coord_row rows[PS_COORD_METHODS - 1];
    struct coord_table tables[PS_TABLES_MAX];
    struct ps_layout layouts[PS_TABLES_MAX]; /* Of these. */
    uint32_t next_slot;                      /* Where the next table starts. */
    struct coord_definition definition;
    struct coord_peer peers[PS_COORD_MEMBERS_MAX];
    enum ps_coord_job_state seen_state;                          /* Last written to the log. */
    uint64_t seen_lent, seen_returned, seen_finished, seen_lost; /* Last counted. */
    /* Cuts. */
    Ps__V1__Cut *known[PS_CUTS_MAX]; /* [n_known] Complete, oldest first. */
    uint32_t n_known;
    bool to_keep;  /* The store names a new one, or one was given up: what is in excess may go. */
    uint64_t kept; /* The oldest of this generation; 0: none. */
    char base_dir[PS_CUT_DIR_BYTES]; /* Of what the generation began with. */
    uint8_t *cut_job;                /* [n_cut_job_bytes] job.pb of the cut under way. */
    size_t n_cut_job_bytes;
    struct ps_timer hold;
    uint64_t seen_given_up;
    uint8_t *buffer; /* Messages are packed here. */
    size_t buffer_bytes;
    struct coord_scratch scratch;
    struct ps_coord_core core;
};

/* coord.c */
/** Something may have changed: write, answer and tell soon. */
void coord_changed(struct ps_coord *coord);
/** Pack into the coordinator's buffer; false without memory. Valid until the next packing. */
bool coord_pack(struct ps_coord *coord, const ProtobufCMessage *message, struct ps_out *ret);
/** Read a request; NULL when it is malformed or too long (PS_ERR_CORRUPT), or without memory
 * (PS_ERR_NOMEM). Freed with ps_wire_unpacked_free. */
ProtobufCMessage *coord_unpack(struct ps_coord *coord, const ProtobufCMessageDescriptor *type,
                               const struct ps_msg *msg, enum ps_status *ret_why);
/** Forget what was known of the member that had this place before. */
void coord_peer_claim(struct ps_coord *coord, uint32_t member);

/* coord_call.c */
void coord_call_rows(struct ps_coord *coord, struct ps_method *methods);
/** Answer the parked calls whose time has come. */
void coord_calls_answer(struct ps_coord *coord);
/** Refuse all that are parked. */
void coord_calls_stop(struct ps_coord *coord);
/** Callers that still wait to be let in are alive. */
void coord_calls_keep_alive(struct ps_coord *coord, uint64_t now_ms);
/**
 * Take one more call or stream into our hands; false: there are too many. Any thread. `n_under_way`
 * is to be counted down when it is let go.
 */
PS_MUST_CHECK bool coord_take_hold(struct ps_coord *coord);
/** Answer and let go; the struct is gone afterwards. */
void coord_call_reply(struct coord_call *call, const ProtobufCMessage *message);
void coord_call_fail(struct coord_call *call, enum ps_status status, const char *reason);
void coord_call_fail_as(struct coord_call *call, const struct ps_error *err);
/** Have it answered by flush: at once if it can be, else when it can, at the latest when the caller
 * is about to give up. */
void coord_call_park(struct coord_call *call, void (*answer)(struct coord_call *call));
/** The caller must be somebody; false: it has been told so. */
bool coord_call_identify(struct coord_call *call, const ProtobufCBinaryData *session);

/* Handlers: coord_join.c, coord_tables.c, coord_cuts.c. */
void coord_join(struct coord_call *call, ProtobufCMessage *message);
void coord_define_table(struct coord_call *call, ProtobufCMessage *message);
void coord_define_job(struct coord_call *call, ProtobufCMessage *message);
void coord_snapshot(struct coord_call *call, ProtobufCMessage *message);
void coord_restore(struct coord_call *call, ProtobufCMessage *message);

/* coord_attend.c */
void coord_attend_row(struct ps_coord *coord, struct ps_method *method);
/** Take in what a member says of itself; false when its session is not known. */
bool coord_report(struct ps_coord *coord, uint32_t member, const Ps__V1__AttendReport *report);
/** Send states: to all streams with news, and to those not told for a heartbeat. */
void coord_attends_tell(struct ps_coord *coord);
/** End every stream. */
void coord_attends_close(struct ps_coord *coord);

/* coord_stored.c */
/** Write what must outlive the process under the present term. */
PS_MUST_CHECK enum ps_status coord_store(struct ps_coord *coord, struct ps_error *err);
/** Find what an earlier coordinator left, and take the next term. Fills `*ret_first`. */
PS_MUST_CHECK enum ps_status coord_take_term(struct ps_coord *coord,
                                             struct ps_coord_core_options *ret_first,
                                             struct ps_error *err);

/* coord_resume.c */
/** Take over what coord_take_term found, if it can be gone on with. */
PS_MUST_CHECK enum ps_status coord_resume(struct ps_coord *coord, bool *ret_resumed,
                                          struct ps_error *err);
/** Tables, and a job unless there is one, as somebody has written them down. */
PS_MUST_CHECK enum ps_status coord_resume_job(struct ps_coord *coord,
                                              const Ps__V1__Catalogue *catalogue,
                                              const Ps__V1__JobDefinition *job,
                                              const Ps__V1__JobProgress *progress,
                                              struct ps_error *err);
void coord_resume_forget(struct ps_coord *coord);

/* coord_tables.c */
/** Check, and on PS_OK keep a copy unless an equal one is there. */
PS_MUST_CHECK enum ps_status coord_define(struct ps_coord *coord,
                                          Ps__V1__TableDefinition *definition, uint32_t *ret_table,
                                          struct ps_error *err);
/** Keep a copy and cut its data. */
PS_MUST_CHECK enum ps_status coord_accept_job(struct ps_coord *coord,
                                              const Ps__V1__JobDefinition *job,
                                              const struct ps_lease_plan *plan,
                                              struct ps_error *err);

/* coord_cuts.c */
void coord_cuts_init(struct ps_coord *coord);
/** Before the store is written: what the core waits for. */
void coord_cuts_work(struct ps_coord *coord);
/** After it was written: workers are about to be told to hold. */
void coord_cuts_told(struct ps_coord *coord);
/** After it was written: make room. */
void coord_cuts_keep(struct ps_coord *coord);
void coord_cut_forget(struct ps_coord *coord);
PS_MUST_CHECK enum ps_status
coord_cut_known(struct ps_coord *coord, const struct ps_cut_found *found, struct ps_error *err);

/* coord_back.c */
/** Data are lost: go back, or say that there is no way. */
void coord_back_work(struct ps_coord *coord);
/** A new cluster that begins with the newest cut of a directory. */
PS_MUST_CHECK enum ps_status coord_begin_with(struct ps_coord *coord, const char *dir,
                                              struct ps_error *err);
void coord_cuts_beyond(struct ps_coord *coord);
void coord_cut_name(uint64_t generation, uint64_t cut, char ret[PS_CUT_NAME_BYTES]);

/* coord_describe.c */
/** Answer with everything that people may want to see. */
void coord_describe(struct coord_call *call);

#endif
