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

#include "base/error.h"
#include "base/limits.h"
#include "slot/record.h"
#include "slot/seen_core.h"

/** Planted bugs of slots and lanes; but for NONE they do something in builds with PS_PLANT only. */
enum ps_slot_plant {
    PS_SLOT_PLANT_NONE,
    PS_SLOT_PLANT_DEDUPE_OFF,            /* A repeat is applied again. */
    PS_SLOT_PLANT_GATE_OFF_BY_ONE,       /* Pulls are answered one clock too early. */
    PS_SLOT_PLANT_REPEAT_BEFORE_DURABLE, /* A repeat does not wait for its first copy. */
    PS_SLOT_PLANT_FENCE_AT_APPLIED,      /* A close counts only once it is applied. */
    PS_SLOT_PLANT_DEDUPE_WITHOUT_STREAM, /* Sequences of all streams are one. */
    PS_SLOT_PLANT_STREAM_FORGOTTEN,      /* A finished lease leaves nothing behind. */
    PS_SLOT_PLANT_SESSIONS_NOT_IN_CUT,   /* Neither sessions nor sequences. */
    PS_SLOT_PLANT_SESSIONS_NOT_REPLAYED, /* Likewise from the log. */
    PS_SLOT_PLANT_HALF_APPLIED           /* Without memory for all of a push, what fits. */
};

/** Where an epoch begins in the slot's line. */
struct ps_slot_epoch {
    uint64_t epoch;
    uint64_t first; /* Position of its EPOCH record. */
};

struct ps_slot {
    uint32_t number;
    bool primary; /* This server owns it. */
    enum ps_slot_plant plant;
    uint64_t epoch;     /* The highest heard of. */
    uint64_t appended;  /* Position of the last record proposed. */
    uint64_t committed; /* All positions up to here are durable. */
    uint64_t applied;   /* All positions up to here are in the tables. */
    uint64_t sessions_version;
    uint64_t finished_version;
    uint64_t closed_steps; /* Aggregated bsp: steps below are closed. */
    uint32_t n_epochs;
    struct ps_slot_epoch epochs[PS_SLOT_EPOCHS_MAX]; /* Of the line, ascending in both. */
    uint32_t n_sessions;
    struct ps_open_session sessions[PS_SESSIONS_MAX]; /* By number. */
    struct ps_seen seen;
};

enum ps_verdict {
    PS_VERDICT_PROPOSE, /* New: make the record that ps_slot_propose_push fills. */
    PS_VERDICT_WAIT,    /* A repeat: acknowledge when `position` is committed and applied. */
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

/**
 * Placement: who owns the slot, in which epoch. An older epoch changes nothing. True when it is
 * ours in an epoch that its line does not know: an EPOCH record is proposed, and nobody touches the
 * slot before that is applied.
 */
bool ps_slot_propose_epoch(struct ps_slot *slot, bool primary, uint64_t epoch,
                           uint64_t *ret_position);

/** Epoch of the last record in the line; 0: it has none. */
uint64_t ps_slot_line_epoch(const struct ps_slot *slot);

/**
 * Does the line hold fewer than `position` records of epochs <= `epoch`? So it lacks something that
 * was acknowledged. Of epochs merged away it may say no too often, never yes.
 */
bool ps_slot_below(const struct ps_slot *slot, uint64_t epoch, uint64_t position);

/** May the session touch the slot? PS_OK, FENCED, NOT_PRIMARY, or LOST: the slot is below it. */
enum ps_status ps_slot_admit(const struct ps_slot *slot, const struct ps_claim *claim);

/** A push as the slot sees it. */
struct ps_proposal {
    struct ps_claim claim;
    struct ps_seen_item item;
    uint64_t step;
    bool staged;         /* Aggregated bsp: it is kept for `step` and takes no sequence yet, */
    bool staged_already; /*   and this very fragment is kept already, */
    bool staged_other;   /*   or another unit of its session. */
    enum ps_status room; /* Not PS_OK: a new one is answered so, there is no room to keep it. */
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

/** Their record has been applied: of use to one planted bug. */
void ps_slot_sessions_applied(struct ps_slot *slot, const struct ps_record_sessions *list);

/** As above; false also when there are more ranges than a slot keeps. */
bool ps_slot_propose_finish(struct ps_slot *slot, const struct ps_record_finish *finish,
                            uint64_t *ret_position);

/** Close a step: its units are taken from now on. False when it is closed already. */
bool ps_slot_propose_close(struct ps_slot *slot, const struct ps_record_close *close,
                           uint64_t *ret_position);

/**
 * The same from a log: the record comes next in the slot's line and is committed. PS_ERR_CORRUPT
 * when it cannot have been proposed; the slot is of no use then.
 */
PS_MUST_CHECK enum ps_status ps_slot_replay(struct ps_slot *slot, const struct ps_record *record,
                                            struct ps_error *err);

/** All positions up to `position` are durable. */
void ps_slot_commit(struct ps_slot *slot, uint64_t position);

/** The record at applied + 1 has been applied; it must be committed. */
void ps_slot_applied(struct ps_slot *slot, uint64_t position);

#endif
