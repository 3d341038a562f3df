#ifndef PS_SERVER_SLOT_RECORD_H
#define PS_SERVER_SLOT_RECORD_H
/*
 * slot/record.h — one entry of a slot's log: everything that apply needs, and nothing else.
 *
 * The only input of apply. Whatever depends on things outside the slot (rates, scales, who is on
 * the list of a closed step) is resolved before the record is made, so that the same records in
 * the same order give the same bits on every member of the slot.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "port/transport.h"
#include "slot/seen_core.h"
#include "wire/data_msg.h"

enum ps_record_kind {
    PS_RECORD_PUSH,     /* Apply a gradient. */
    PS_RECORD_STAGE,    /* Keep a gradient until its step is closed (aggregated bsp). */
    PS_RECORD_CLOSE,    /* Close a step: apply the mean of what is on the list. */
    PS_RECORD_SESSIONS, /* The list of open sessions. */
    PS_RECORD_FINISH,   /* Leases that are finished. */
    PS_RECORD_EPOCH     /* A new epoch of the slot begins. */
};

/**
 * Payload of PUSH and STAGE, as received: values of blocks; keys and values of rows. PUSH alone has
 * rows.
 */
struct ps_record_push {
    uint64_t session; /* Number. */
    uint64_t step;
    uint64_t clock; /* Min clock when it was proposed: rows are as old as it says. */
    struct ps_seen_item item;
    uint32_t rows;
    float rate;  /* Effective. */
    float scale; /* Multiplies the gradient. */
    const struct ps_part *parts;
    uint32_t n_parts;
    struct ps_cursor payload; /* Of these parts, in their order. */
    struct ps_msg *msg;       /* What the payload borrows from; STAGE takes references. */
};

/** One contribution to a closed step. */
struct ps_close_entry {
    uint64_t session;
    uint64_t lease;
    uint32_t unit;
    uint32_t rows; /* 0: nothing was pushed. */
};

struct ps_record_close {
    uint64_t step;
    const struct ps_close_entry *entries; /* By (lease, unit). */
    uint32_t n_entries;
};

struct ps_open_session {
    uint64_t number;
    struct ps_id id;
};

struct ps_record_sessions {
    uint64_t version;
    const struct ps_open_session *sessions; /* By number. */
    uint32_t n_sessions;
    bool knows_staged;      /* What ended sessions but these staged is on no list of a step. */
    const uint64_t *staged; /* [n_staged] numbers. */
    uint32_t n_staged;
};

struct ps_record_finish {
    uint64_t version;
    const struct ps_seen_range *ranges;
    uint32_t n_ranges;
};

/** The record's `epoch` begins with it: it is logged before it is acted on. */
struct ps_record_epoch {
    uint64_t term; /* Of the coordinator that gave it. */
};

struct ps_record {
    enum ps_record_kind kind;
    uint32_t slot;
    uint64_t epoch;
    uint64_t position; /* In the slot's log, from 1, over all epochs. */
    union {
        struct ps_record_push push;
        struct ps_record_close close;
        struct ps_record_sessions sessions;
        struct ps_record_finish finish;
        struct ps_record_epoch begun;
    };
};

#endif
