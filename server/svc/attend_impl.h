#ifndef PS_SERVER_SVC_ATTEND_IMPL_H
#define PS_SERVER_SVC_ATTEND_IMPL_H
/*
 * svc/attend_impl.h — the inside of attending, shared by attend.c (joining, stream),
 * attend_report.c and attend_state.c (states into updates of lanes). Nobody else includes it.
 */
#include "base/list.h"
#include "base/rng.h"
#include "cluster/backoff.h"
#include "coordinator.pb-c.h"
#include "slot/record.h"
#include "svc/attend.h"

/* A server's report: about 600 bytes, 80 of each sparse table, 25 of each slot. */
#define PS_ATTEND_REPORT_BYTES (1024u + PS_TABLES_MAX * 96u + PS_SLOTS * 32u)

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
    /* What lasts. */
    Ps__V1__AttendState *held; /* Waits for the log, or a restore; what arrives waits behind it. */
    uint32_t n_logging;        /* Definitions under way. */
    bool restoring;
    uint64_t generation_restored; /* The latest that was loaded from a cut. */
    uint64_t generation_loaded;   /* The lanes hold this one, and have said so in their lines. */
    bool knows_placement;
    uint64_t slots;       /* Bit s: the latest placement gives us slot s. */
    uint64_t min_clock;   /* The highest that the lanes were told, in this generation. */
    uint32_t patience_ms; /* Of the coordinator; 0: it has not said. */
    uint64_t cut_ordered; /* The latest, and */
    uint64_t cut_taken;
    uint64_t cut_kept;
    uint64_t cut_oldest;
    uint64_t cut_given_up;
    struct ps_attend_written written;
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
    Ps__V1__SlotPosition positions[PS_SLOTS];
    Ps__V1__SlotPosition *position_list[PS_SLOTS];
    uint8_t report[PS_ATTEND_REPORT_BYTES];
};

/**
 * Take a state over, which is freed when it is through: tables are logged, a cut is loaded, then
 * the lanes' update is posted. In attend_state.c.
 */
void ps_attend_hold_state(struct ps_attend *attend, Ps__V1__AttendState *state);

/** Stopping: nothing is under way any more. In attend.c. */
void ps_attend_stop_if_idle(struct ps_attend *attend);

/** Messages that waited for what is under way. In attend.c. */
void ps_attend_take_waiting(struct ps_attend *attend);

/** No memory for a state: all of it comes again on another stream. In attend.c. */
void ps_attend_start_over(struct ps_attend *attend, enum ps_status status);

/** The lanes have the job's state, too. In attend.c. */
void ps_attend_take_job(struct ps_attend *attend, const Ps__V1__AttendState *state);

/** Cut orders of a state. In attend_report.c. */
void ps_attend_take_cut(struct ps_attend *attend, const Ps__V1__AttendState *state);

/** Where the slots stand, into `positions`; how many. In attend_report.c. */
size_t ps_attend_fill_positions(struct ps_attend *attend);

/** Say on the stream, if there is one, where we are. In attend_report.c. */
void ps_attend_send_report(struct ps_attend *attend);

/** An update has gone through all lanes. In attend.c. */
void ps_attend_update_done(struct ps_attend *attend, const struct ps_lane_update *update);

/** Nothing more will come: say so once. In attend.c. */
void ps_attend_lose(struct ps_attend *attend, const struct ps_error *err);

#endif
