#ifndef PS_SERVER_SLOT_CUT_H
#define PS_SERVER_SLOT_CUT_H
/*
 * slot/cut.h — the part of a cut that one server holds: each of its slots at one position.
 *
 *   ps_cut_create -> ps_lane_post_cut to every lane -> done mail -> read it, on any one thread
 *                                                                -> ps_cut_free, any thread
 *
 * Each slot stands at the position that was the end of its line when its lane heard of the cut:
 * its state was noted at that moment, its pages were borrowed when the last record of that line
 * had been applied. Pages are borrowed for PS_PAGE_SNAPSHOT: nothing is copied here but states,
 * counters of keys and the parts of staged records.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/limits.h"
#include "base/mem.h"
#include "port/exec.h"
#include "slot/record.h"
#include "table/page.h"
#include "table/sparse_view.h"

struct ps_lane;
struct ps_cut;

/** A block of a dense table. */
struct ps_cut_block {
    uint32_t table;
    uint32_t block;
    struct ps_page *page; /* Borrowed; its weights, state, t, power and version. */
};

/** What the slot has of a sparse table. */
struct ps_cut_rows {
    uint32_t table;
    struct ps_sparse_view *view; /* Not ordered yet. */
    struct ps_sparse_rest rest;  /* `counts` is `counts` below. */
    uint8_t *counts;             /* [n_counts], NULL: keys are not counted. */
    uint32_t n_counts;
};

struct ps_slot_cut {
    bool taken;        /* The slot is this server's. */
    uint64_t epoch;    /* Of its line. */
    uint64_t position; /* All records up to it are in here, none behind it. */
    uint8_t *state;    /* Message SlotState: slot_state.h. */
    size_t n_state_bytes;
    struct ps_cut_block *blocks; /* By table, block. */
    uint32_t n_blocks;
    struct ps_cut_rows *rows; /* By table. */
    uint32_t n_rows;
    struct ps_record
        *staged;       /* STAGE records whose step is not closed, by position; each holds a */
    uint32_t n_staged; /*   reference to its message. */
};

/** One lane's copy. */
struct ps_cut_mail {
    struct ps_mail mail;
    struct ps_cut *cut;
    struct ps_lane *lane;
};

struct ps_cut {
    struct ps_mem *mem;
    /* Set before it is posted. */
    uint64_t base_lsn;          /* Of the log, the caller's: all records below are in the cut. */
    _Atomic uint32_t n_pending; /* Lanes; whoever takes it to 0 posts `done`. */
    struct ps_mail *done;
    struct ps_exec *home;
    /* Set by the lanes. */
    _Atomic int status; /* First enum ps_status that a lane met: NOMEM; CANCELED when it stopped. */
    struct ps_cut_mail mails[PS_LANES_MAX];
    struct ps_slot_cut slots[PS_SLOTS]; /* Each written by its lane. */
};

/** An empty cut. NULL without memory. */
PS_MUST_CHECK struct ps_cut *ps_cut_create(struct ps_mem *mem);

/** Give everything back. Any thread, after `done`. NULL does nothing. */
void ps_cut_free(struct ps_cut *cut);

#endif
