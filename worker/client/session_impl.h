#ifndef PS_WORKER_CLIENT_SESSION_IMPL_H
#define PS_WORKER_CLIENT_SESSION_IMPL_H
/*
 * client/session_impl.h — the state of a session, shared by its files.
 *
 *   session.c         create, start and end of operations, close
 *   session_work.c    pushes and pulls from start to end
 *   session_rows.c    their rows of sparse tables: memory, keys and values in order
 *   session_call.c    their calls: bytes out, answers in
 *   session_scan.c    scans: steps over slots, one call after the other
 *   session_peer.c    servers and coordinators that do not answer
 *   session_attend.c  the Attend stream, reports
 *   session_state.c   what the coordinator says: placement, catalogue, clock, lease
 *   session_cold.c    Join, DefineTable, DefineJob, Describe, Shutdown, Leave
 *
 * All of it belongs to options.exec. Transport threads touch only what is marked so, and post mail.
 */
#include <stdatomic.h>

#include "base/list.h"
#include "base/rng.h"
#include "client/flow_core.h"
#include "client/session.h"
#include "cluster/backoff.h"
#include "wire/scan_msg.h"

#define PS_SESSION_WORKS_MAX        64u    /* Pushes and pulls at once; a pipeline needs 3. */
#define PS_SESSION_SCANS_MAX        16u    /* Scans at once; each has one call under way. */
#define PS_SESSION_COLD_MAX         16u    /* Definitions and such at once. */
#define PS_SESSION_CALLS_PER_SERVER 4u     /* Fill the pipe; more only queues at the server. */
#define PS_SESSION_BYTES_PER_MS     10000u /* 10 MB/s: slower than that counts as dead. */
#define PS_SESSION_LEAVE_MS         1000u  /* Nobody waits long for a goodbye. */
#define PS_SESSION_LOG_FIRST_MS     1000u  /* Shorter outages are not worth a line. */
#define PS_SESSION_FULL_MS          10000u /* Memory that is on loan comes back sooner. */
#define PS_SESSION_HOLD_MS_MAX      1000u  /* A coordinator that says "go on" does so in 50 ms. */
#define PS_SESSION_PARK_MS_MAX      5000u /* Of a pull: a server that hangs is named within 10 s. */
#define PS_SESSION_DEFINE_MS        10000u /* Of one try: servers may have gigabytes to make. */
#define PS_SESSION_LOG_BUSY_MS      10000u /* A server is busy now and then; not for so long. */

/** Somebody who should answer. Silence is counted from the first call that got no answer. */
struct ps_session_peer {
    bool silent;
    bool refuses; /* It does speak, but as something that is no server of ours. */
    uint64_t heard_ms;
    uint64_t since_ms;    /* Of the silence. */
    uint64_t failed_ms;   /* The last failure. */
    uint64_t next_log_ms; /* Silence after which to say so again. */
};

struct ps_session_server {
    char address[PS_ADDRESS_BYTES_MAX + 1];         /* Empty: not known. */
    char channel_address[PS_ADDRESS_BYTES_MAX + 1]; /* Where `channel` leads. */
    struct ps_channel *channel;
    uint32_t n_calls;
    uint32_t n_asking;      /* Pulls that may be parked there: 0 or 1. */
    uint64_t busy_since_ms; /* It refuses for now, in every answer; 0: it does not. */
    uint64_t busy_log_ms;   /* After so long to say so again. */
    struct ps_session_peer peer;
};

/** The rows of one direction of a work. Memory stays with the work, and grows. */
struct ps_session_rows {
    struct ps_flow_rows flow;
    struct ps_flow_table tables[PS_TABLES_MAX];
    float *values[PS_TABLES_MAX]; /* The caller's, by place in `tables`. */
    uint8_t *bytes;               /* Keys, and values of a push, as the runs say. */
    size_t n_keys_room, n_tables_room, n_runs_room, n_bytes_room;
};

/** One push, one pull, or both in the same calls. Pooled with its units. */
struct ps_session_work {
    struct ps_list node;
    struct ps_push_op *push; /* NULL: none, or ended. */
    struct ps_pull_op *pull;
    bool pull_held; /* It travels with pushes only, until the push has ended. */
    struct ps_flow push_flow;
    struct ps_flow pull_flow;
    struct ps_error push_err; /* Why a flow failed. */
    struct ps_error pull_err;
    struct ps_flow_unit *push_units;
    struct ps_flow_unit *pull_units;
    uint32_t n_push_units_max;
    uint32_t n_pull_units_max;
    struct ps_session_rows *push_rows; /* NULL: it never had any. */
    struct ps_session_rows *pull_rows;
    const float *push_values[PS_TABLES_MAX]; /* By table; NULL: does not take part. */
    float *pull_values[PS_TABLES_MAX];
    struct ps_backoff backoff[PS_SERVERS_MAX];
    uint64_t pull_start_ns;
    uint64_t pull_blocked_ns;
    uint64_t min_clock; /* Smallest of the answers. */
    uint64_t n_push_bytes;
    uint64_t full_ms; /* Since then a server has no memory for its rows; 0: not so. */
    bool pull_answered;
    bool pull_parked;
    bool repeats; /* A call of it got no answer. */
};

/** One data call under way. Pooled. */
struct ps_session_call {
    struct ps_list node;
    struct ps_request request;
    struct ps_mail mail;
    _Atomic uint32_t n_holders; /* Any thread: the call itself and each borrowed piece. */
    struct ps_session *session;
    struct ps_session_work *work;
    struct ps_flow_call push;
    struct ps_flow_call pull;
    uint32_t server;
    bool asks;
    uint64_t start_ms;
    uint64_t start_ns;
};

enum ps_session_cold_kind {
    PS_SESSION_JOIN,
    PS_SESSION_DEFINE_TABLE,
    PS_SESSION_DEFINE_JOB,
    PS_SESSION_DESCRIBE,
    PS_SESSION_LOOK,
    PS_SESSION_SHUTDOWN,
    PS_SESSION_LEAVE
};

/** One call to the coordinator, repeated until it is answered. */
struct ps_session_cold {
    struct ps_list node;
    struct ps_session *session;
    enum ps_session_cold_kind kind;
    struct ps_op *op;
    struct ps_request request;
    struct ps_mail mail;
    struct ps_timer timer; /* Before the next try. */
    struct ps_backoff backoff;
    uint64_t give_up_at_ms;
    uint64_t started_ms;
    uint64_t next_log_ms; /* After so long another line says what is waited for. */
    struct ps_error why;  /* The most telling failure so far. */
    bool under_way;
    bool answered;           /* Its answer is being taken: it ends by that. */
    bool defines;            /* A Describe that was a DefineTable. */
    uint64_t lacks_since_ms; /* The coordinator describes less than what it made; 0: no. */
    uint8_t *head; /* Of a request that the scratch has no room for; until it has started. */
    bool starved;  /* There was no memory for one. */
};

/** One scan: a call after the other, to the server of the slot that it is at. */
struct ps_session_scan {
    struct ps_list node;
    struct ps_session *session;
    struct ps_scan_op *op;
    struct ps_scan_at at; /* Behind the rows that have come. */
    uint32_t server;      /* Of the call under way. */
    bool under_way;
    struct ps_request request;
    struct ps_scan_request asked;
    struct ps_mail mail;
    struct ps_timer timer; /* Before the next try. */
    struct ps_backoff backoff;
    uint64_t start_ms;
};

struct ps_session_attend {
    struct ps_stream *stream; /* NULL: none open. */
    struct ps_mail closed;    /* Posted by a transport thread. */
    struct ps_timer timer;    /* Before it is opened again. */
    struct ps_backoff backoff;
    struct ps_session_peer peer;
    uint64_t heard_ms;
    uint64_t opened_ms; /* The stream. */
    uint64_t term;      /* The highest heard on this stream. */
    bool wanted;
    bool heard;           /* The coordinator has spoken on this stream: reports may go. */
    bool closing;         /* We have ended it. */
    _Atomic bool dropped; /* Any thread: a state was lost here, for want of memory. */
};

/** Big and used within one event only. */
struct ps_session_scratch {
    struct ps_data_request request;
    struct ps_data_reply reply;
    struct ps_piece pieces[2 * PS_CALL_PARTS_MAX]; /* Of the push, keys of the pull. */
    struct ps_flow_part parts[PS_CALL_PARTS_MAX];
    uint8_t head[PS_HEAD_BYTES_MAX];
};

enum ps_session_phase {
    PS_SESSION_ACTIVE,
    PS_SESSION_DRAINING, /* close: operations are being ended. */
    PS_SESSION_LEAVING,  /* Leave is under way. */
    PS_SESSION_DETACHING /* Waiting for the stream to end. */
};

struct ps_session {
    struct ps_session_options options;
    char coordinator[PS_ADDRESS_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];
    struct ps_channel *control;
    struct ps_rng rng;
    struct ps_timer beat; /* Every PS_HEARTBEAT_MS once joined. */
    struct ps_timer pump; /* When the next piece is to be sent again. */
    struct ps_mail wake;
    uint64_t beat_ms;
    uint64_t awake_ms; /* When this process last came back from a gap of its own. */
    bool wake_posted;
    bool settling;
    bool canceled; /* Nothing is started any more. */
    bool changed;
    bool patient;       /* How long to wait for the silent was said by the caller. */
    uint64_t hold_ms;   /* Since when view.hold is what it is. */
    uint64_t hold_over; /* A cut that was held for long enough. */

    struct ps_view view;
    struct ps_error fenced; /* With view.fenced: why. */
    uint64_t key_seed;      /* Of the cluster: where keys live. */
    struct ps_lease lease;  /* As the coordinator says. */
    struct ps_worker_report report;
    struct ps_worker_stats stats; /* Of the worker, with its reports. */
    uint64_t placement_term;      /* Of the newest placement: its coordinator's term, */
    uint64_t placement_version;   /*   and its number in that term. */
    struct ps_route route;
    struct ps_session_server servers[PS_SERVERS_MAX];
    uint32_t n_servers; /* 1 + highest index known. */
    struct ps_layout layouts[PS_TABLES_MAX];
    struct ps_table tables[PS_TABLES_MAX]; /* Without a name: not known. */
    uint32_t n_tables;                     /* Known from 0 without a gap. */
    uint64_t lost_ms;     /* When a slot said first that it lacks what it had; 0: none does. */
    uint64_t quickest_ns; /* The shortest time that a first pull call took; 0: none yet. */

    struct ps_list works; /* In the order of starting. */
    struct ps_list idle_works;
    struct ps_list calls;
    struct ps_list idle_calls;
    struct ps_list scans;
    struct ps_list colds;
    struct ps_list ended; /* Operations whose `done` is to be called. */
    uint32_t n_works;
    uint32_t n_scans;
    uint32_t n_colds;
    struct ps_session_attend attend;

    enum ps_session_phase phase;
    struct ps_op *close_op;
    struct ps_op leave_op;
    struct ps_session_scratch *scratch;
};

/* session.c */
/** Queue `done`; words may be NULL with PS_OK. */
void ps_session_end_op(struct ps_session *session, struct ps_op *op, enum ps_status status,
                       const char *words);
/** After every event: send what can be sent, then call what is due. May destroy the session. */
void ps_session_settle(struct ps_session *session);
/** The cluster is lost: everything pending ends with it. */
void ps_session_lose(struct ps_session *session, const char *fmt, ...) PS_PRINTF(2, 3);
void ps_session_fence(struct ps_session *session, const char *reason);
/** PS_OK, or why no operation may start now. */
enum ps_status ps_session_usable(const struct ps_session *session, struct ps_error *err);
/* session_work.c */
void ps_session_work_start(struct ps_session *session, struct ps_push_op *push,
                           struct ps_pull_op *pull);
/** Send what is ready, end what is finished. */
void ps_session_work_pump(struct ps_session *session);
/** When ps_session_work_pump has something to do by time alone. */
uint64_t ps_session_work_next_ms(const struct ps_session *session);
/** What is left of one ends with this reason as soon as nothing of it is under way. */
void ps_session_work_refuse(struct ps_session_work *work, enum ps_status status, const char *words);
/** The same for all of them, and soon: calls are canceled. */
void ps_session_work_fail(struct ps_session *session, enum ps_status status, const char *words);
/** No clock will move any more: pulls that would wait for one end. */
void ps_session_work_job_over(struct ps_session *session);
void ps_session_work_free(struct ps_session *session);
/** Does the bound allow `step` under the session's own view? */
bool ps_session_allowed(const struct ps_session *session, uint64_t step);

/* session_rows.c */
/**
 * Put rows into order, into *rows, which is made if need be; NULL stays NULL without any.
 * @return PS_ERR_INVALID, PS_ERR_NOT_FOUND, PS_ERR_NOMEM
 */
enum ps_status ps_session_rows_place(struct ps_session *session, struct ps_session_rows **rows,
                                     const struct ps_keyed *keyed, uint32_t n_keyed,
                                     struct ps_error *err);
/** One direction of a work, to be cut into units: where its flow and its memory are. */
struct ps_session_cut {
    struct ps_flow *flow;
    struct ps_session_rows *rows; /* Placed; NULL: no rows. */
    struct ps_flow_unit **units;
    uint32_t *n_units_max;
};
/**
 * Find the memory, cut, and write the keys of rows (with the values of a push).
 * @return PS_ERR_NOMEM, PS_ERR_INVALID (too many calls)
 */
enum ps_status ps_session_cut_begin(struct ps_session *session, const struct ps_session_cut *cut,
                                    enum ps_flow_kind kind, const bool *chosen,
                                    struct ps_error *err);
/** Take the values of a run out of the payload, to where they belong. */
void ps_session_rows_deliver(const struct ps_session_rows *rows, const struct ps_flow_run *run,
                             struct ps_cursor *payload);
/** NULL does nothing. */
void ps_session_rows_free(struct ps_session_rows *rows);

/* session_call.c */
/** Send all calls of `work` that may go now. */
void ps_session_call_send(struct ps_session *session, struct ps_session_work *work,
                          uint64_t now_ms);

/** What a slot has said of itself, for the next one who asks. */
void ps_session_remember(struct ps_session *session, uint32_t slot, uint64_t epoch,
                         uint64_t position);

/* session_scan.c */
void ps_session_scan_start(struct ps_session *session, struct ps_scan_op *op);
/** Calls to a server that are under way go another way. */
void ps_session_scan_call_back(struct ps_session *session, uint32_t index);
/** All of them end, and soon: calls are canceled. */
void ps_session_scan_fail(struct ps_session *session, enum ps_status status, const char *words);

/* session_peer.c */
/** It has answered. */
void ps_session_peer_heard(struct ps_session_peer *peer, uint64_t now_ms);
/** A try that began at `start_ms` got no answer. */
void ps_session_peer_failed(struct ps_session_peer *peer, uint64_t start_ms, uint64_t now_ms);
/** True when it is time for another log line about the silence. */
bool ps_session_peer_log_due(struct ps_session_peer *peer, uint64_t now_ms);
/** The address of a server that may be new: what is under way to the old one is called back. */
void ps_session_server_moved(struct ps_session *session, uint32_t index, const char *address);
/** Open or exchange the channel of a server whose address is new. */
void ps_session_server_connect(struct ps_session *session, uint32_t index);
/** Calls may go: its channel leads where the placement says. */
bool ps_session_server_connected(const struct ps_session_server *server);
void ps_session_server_heard(struct ps_session *session, uint32_t index);
/** A call to it that began at `start_ms` ended with an error: was it silent, or did it speak? */
void ps_session_server_failed(struct ps_session *session, uint32_t index,
                              const struct ps_request *request, uint64_t start_ms);
/** It answered; `busy`: that it cannot for now. Says so when that lasts. */
void ps_session_server_busy(struct ps_session *session, uint32_t index, bool busy);
/** A slot lacks what it had acknowledged: said once, and the coordinator decides what follows. */
void ps_session_slot_lost(struct ps_session *session, uint32_t index, uint32_t slot);
/** An operation with servers has ended: if it was the last one, nobody asks any more. */
void ps_session_servers_rest(struct ps_session *session);
/** Every heartbeat: say and decide who is silent for too long. */
void ps_session_servers_check(struct ps_session *session, uint64_t now_ms);

/** The part of a server's retry hint that is believed: it must not end a session. */
static inline uint32_t ps_session_hint_ms(uint32_t retry_ms)
{
    return retry_ms < PS_RETRY_HINT_MS_MAX ? retry_ms : PS_RETRY_HINT_MS_MAX;
}

/* session_attend.c */
void ps_session_attend_start(struct ps_session *session);
void ps_session_attend_stop(struct ps_session *session);
/** Nothing of it is under way. */
bool ps_session_attend_idle(const struct ps_session *session);
void ps_session_attend_report(struct ps_session *session);
void ps_session_attend_check(struct ps_session *session, uint64_t now_ms);

/* session_cold.c */
void ps_session_cold_start(struct ps_session *session, enum ps_session_cold_kind kind,
                           struct ps_op *op);
void ps_session_cold_fail(struct ps_session *session, enum ps_status status, const char *words);

#endif
