#ifndef PS_SERVER_SLOT_SLOT_CORE_H
#define PS_SERVER_SLOT_SLOT_CORE_H
/*
 * slot/slot_core.h — one slot's decisions: propose -> commit -> apply.
 *
 *            propose                commit (durability reached)       apply
 *   push ---> checks ---> record ----------------------------> applied, acknowledged
 *               |  repeat of a record not yet committed: joins it (waits for its position)
 *               |  repeat of a committed one: acknowledged
 *               '-> refused: FENCED, NOT_PRIMARY, BUSY, LATE, INVALID
 *
 * The checks look at the log to its end: sessions and sequences count from the moment of the
 * proposal, uncommitted records included, so nothing slips in behind a close. Pure: no I/O, no
 * allocation; one owner, its lane. Sessions, sequences seen and closed steps are the slot's state
 * and will travel with it.
 */
#include <stdbool.h>
#include <stdint.h>

#include <ps/status.h>

#include "base/limits.h"
#include "slot/record.h"
#include "slot/seen_core.h"

struct ps_slot {
    uint32_t number;
    bool primary;    /* This server owns it. */
    bool dedupe_off; /* Planted bug, test builds only. */
    uint64_t epoch;
    uint64_t appended;  /* Position of the last record proposed. */
    uint64_t committed; /* All positions up to here are durable. */
    uint64_t applied;   /* All positions up to here are in the tables. */
    uint64_t sessions_version;
    uint64_t finished_version;
    uint64_t closed_steps; /* Aggregated bsp: steps below are closed. */
    uint32_t n_sessions;
    struct ps_open_session sessions[PS_SESSIONS_MAX]; /* By number. */
    struct ps_seen seen;
};

enum ps_verdict {
    PS_VERDICT_PROPOSE, /* New: make the record that ps_slot_propose_push fills. */
    PS_VERDICT_WAIT,    /* A repeat: acknowledge when `position` is committed. */
    PS_VERDICT_REFUSE   /* Answer `status`. */
};

struct ps_slot_decision {
    enum ps_verdict verdict;
    enum ps_status status; /* REFUSE. */
    uint64_t position;     /* PROPOSE: of the record. WAIT: of the end of the log. */
    bool repeat;           /* It was here before. */
};

/** Who pushes or pulls, as the call says. */
struct ps_claim {
    struct ps_id session;
    uint64_t session_number;
    uint64_t epoch;      /* The sender's belief of the slot's epoch. */
    uint64_t seen_epoch; /* Its highest acknowledgement. */
    uint64_t seen_position;
};

/** `streams`: the slot's memory for sequences, zeroed, PS_SEEN_STREAMS_MAX of them. */
void ps_slot_init(struct ps_slot *slot, uint32_t number, struct ps_seen_stream *streams);

/** Placement: who owns the slot, in which epoch. An older epoch changes nothing. */
void ps_slot_place(struct ps_slot *slot, bool primary, uint64_t epoch);

/** May the session touch the slot? PS_OK, FENCED, NOT_PRIMARY or LOST. */
enum ps_status ps_slot_admit(const struct ps_slot *slot, const struct ps_claim *claim);

/** A push as the slot sees it. */
struct ps_proposal {
    struct ps_claim claim;
    struct ps_seen_item item;
    uint64_t acked_below; /* Sequences of the stream below are acknowledged; at most its own. */
    uint64_t step;
    bool staged;         /* Aggregated bsp: it is kept for `step` and takes no sequence yet, */
    bool staged_already; /*   and this very fragment is kept already, */
    bool staged_other;   /*   or another unit of its session. */
    bool no_room;        /* There is no memory to apply it in: a new one is answered BUSY. */
};

/**
 * Decide about a push. On PROPOSE the sequence is taken (unless staged) and the log is one longer;
 * the caller makes the record at `position` and hands it to the committer. Otherwise nothing of
 * this push is taken.
 */
struct ps_slot_decision ps_slot_propose_push(struct ps_slot *slot, const struct ps_proposal *push);

/** A list of a higher version is proposed and counts from now on; false: old news. */
bool ps_slot_propose_sessions(struct ps_slot *slot, const struct ps_record_sessions *list,
                              uint64_t *ret_position);

/** As above; false also when there are more ranges than a slot keeps. */
bool ps_slot_propose_finish(struct ps_slot *slot, const struct ps_record_finish *finish,
                            uint64_t *ret_position);

/** Close a step: its units are taken from now on. False when it is closed already. */
bool ps_slot_propose_close(struct ps_slot *slot, const struct ps_record_close *close,
                           uint64_t *ret_position);

/** All positions up to `position` are durable. */
void ps_slot_commit(struct ps_slot *slot, uint64_t position);

/** The record at applied + 1 has been applied; it must be committed. */
void ps_slot_applied(struct ps_slot *slot, uint64_t position);

#endif
