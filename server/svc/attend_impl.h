#ifndef PS_SERVER_SVC_ATTEND_IMPL_H
#define PS_SERVER_SVC_ATTEND_IMPL_H
/*
 * svc/attend_impl.h — the inside of attending, shared by attend.c (joining, stream, reports) and
 * attend_state.c (states into updates of lanes). Nobody else includes it.
 */
#include "base/list.h"
#include "base/rng.h"
#include "cluster/backoff.h"
#include "coordinator.pb-c.h"
#include "slot/record.h"
#include "svc/attend.h"

/* A server's report: about 300 bytes, and 80 of each sparse table. */
#define PS_ATTEND_REPORT_BYTES (1024u + PS_TABLES_MAX * 96u)

PS_STATIC_ASSERT(PS_ATTEND_REPORT_BYTES <= PS_CONTROL_BYTES_MAX, "a coordinator reads it");

/** What every lane has applied; each number only grows. */
struct ps_attend_acked {
    uint64_t placement_version;
    uint64_t sessions_version;
    uint64_t catalogue_version;
    uint64_t finished_version;
    uint64_t closed_steps;
};

struct ps_attend {
    struct ps_attend_options options;
    char coordinator[PS_ADDRESS_BYTES_MAX + 1];
    char address[PS_ADDRESS_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];
    struct ps_attend_view view;
    struct ps_channel *channel;
    struct ps_request join;
    struct ps_mail join_done;
    bool joining; /* The request is under way. */
    struct ps_stream *stream;
    bool deaf; /* Something of this stream was missed: what else comes on it is not heard. */
    struct ps_mail stream_closed;
    struct ps_timer timer; /* Heartbeat; retries before that. */
    struct ps_backoff backoff;
    struct ps_rng rng;
    uint64_t retry_at_ms; /* Not before: the next Join or stream. */
    uint64_t heard_ms;    /* Last sign of the coordinator. */
    uint64_t next_log_ms; /* After so long without it another line says so. */
    struct ps_error why;  /* The most telling failure to join so far. */
    struct ps_id cluster; /* Asked for or joined; none: not known yet. */
    uint64_t session_number;
    uint64_t term;
    uint64_t generation;
    struct ps_attend_acked acked;
    uint32_t n_tables;      /* Written to the catalogue; published when the lanes have them. */
    uint32_t n_updates;     /* Under way in the lanes. */
    struct ps_list waiting; /* Messages that have arrived, while UPDATES_MAX updates are. */
    struct ps_timer stop_timer;
    bool stopping;
    void (*stop_done)(void *arg);
    void *stop_arg;
    /* The latest lists, for slots that become ours later. */
    struct ps_open_session sessions[PS_SESSIONS_MAX];
    uint32_t n_sessions;
    uint64_t sessions_version;
    bool knows_staged;
    uint64_t staged[PS_SESSIONS_MAX];
    uint32_t n_staged;
    struct ps_seen_range ranges[PS_SEEN_FINISHED_MAX];
    uint32_t n_ranges;
    uint64_t finished_version;
    /* The report being made. */
    Ps__V1__RowStats rows[PS_TABLES_MAX];
    Ps__V1__RowStats *row_list[PS_TABLES_MAX];
    uint8_t report[PS_ATTEND_REPORT_BYTES];
};

/** Take one state over: post the lanes' update, remember what is ours. */
PS_MUST_CHECK enum ps_status ps_attend_take_state(struct ps_attend *attend,
                                                  const Ps__V1__AttendState *state,
                                                  struct ps_error *err);

/** An update has gone through all lanes. In attend.c. */
void ps_attend_update_done(struct ps_attend *attend, const struct ps_lane_update *update);

/** Nothing more will come: say so once. In attend.c. */
void ps_attend_lose(struct ps_attend *attend, const struct ps_error *err);

#endif
