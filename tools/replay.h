#ifndef PS_TOOLS_REPLAY_H
#define PS_TOOLS_REPLAY_H
/*
 * replay.h — what psctl replay knows: the tables of one server, made anew from a snapshot and the
 * records of its log, in the plainest way that gives the right bits.
 *
 *   snapshot `from` ──load──> struct replay ──compare──> snapshot `to`
 *          log ──records─────────^
 *
 * Written beside optim/, table/ and slot/ and sharing nothing with them: a mistake would have to be
 * made twice. One float after the other, no pages, no borrowing, no claims. Readers of log and
 * snapshots, first values and checksums are those of the server.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/limits.h"
#include "log/recover.h"
#include "num/init.h"
#include "snap/snap_read.h"

#define REPLAY_POWERS 256u /* Of beta, twice: see replay_power. */

enum replay_kind {
    REPLAY_SGD,
    REPLAY_MOMENTUM,
    REPLAY_ADAGRAD,
    REPLAY_ADAM, /* adamw, too: with a weight decay. */
    REPLAY_FTRL,
};

/** A table's update rule. */
struct replay_rule {
    enum replay_kind kind;
    uint32_t n_state; /* Floats of state for each weight. */
    float momentum, beta1, beta2, epsilon, decay, l1, l2, beta;
    double low[2][REPLAY_POWERS];  /* beta^i, by multiplication, */
    double high[2][REPLAY_POWERS]; /*   beta^(256 i), */
    double top[2];                 /*   beta^65536. */
};

/** What one gradient of one element needs beside it. */
struct replay_step {
    const struct replay_rule *rule;
    float rate;
    float scale;
    uint64_t t;
    double power1; /* beta1^t */
    double power2;
};

/** A block of a dense table. */
struct replay_block {
    uint32_t n;
    uint64_t t;
    uint64_t version;
    double power[2];
    float *weights; /* [n] */
    float *state;   /* [n_state][n] */
};

/** A row of a sparse table; it is there if t > 0. */
struct replay_row {
    uint64_t key;
    uint32_t t;
    uint32_t touched;
    float *floats; /* [1 + n_state][width] Weights, then state. */
};

/** What one slot has of a sparse table. */
struct replay_rows {
    struct replay_row *rows; /* [n_room] By hash of the key, then the next free place. */
    uint64_t n_room;         /* A power of two, or 0. */
    uint64_t n;              /* Places taken. */
    uint32_t clock;
    float rate;
    uint32_t aged;   /* Word of the counters that is halved next. */
    uint8_t *counts; /* [PS_ADMIT_BYTES], where keys are counted. */
};

struct replay_table {
    bool known;
    bool sparse;
    char name[PS_NAME_BYTES_MAX + 1];
    struct replay_rule rule;
    struct ps_init init;
    /* Dense. */
    uint64_t n_elements;
    uint32_t block_floats;
    uint32_t n_blocks;
    struct replay_block **blocks; /* [n_blocks] NULL: nothing has happened to it. */
    /* Sparse. */
    uint32_t width;
    uint32_t admit_after;
    uint32_t expire_after;
    struct replay_rows *rows[PS_SLOTS]; /* NULL: as above. */
};

/** A gradient that waits for its step to be closed. */
struct replay_staged {
    struct replay_staged *next;
    uint32_t slot;
    uint64_t session, step, lease, unit;
    uint32_t rows;
    float rate;
    uint32_t n_parts;
    struct ps_part *parts;
    uint8_t *payload; /* Of all parts. */
};

struct replay_slot {
    bool wanted;       /* The snapshot `to` has it. */
    uint64_t position; /* Of its line, that has been reached. */
    uint64_t target;   /* Where `to` stands. */
    uint64_t n_replayed;
};

struct replay {
    struct replay_table tables[PS_TABLES_MAX];
    struct replay_slot slots[PS_SLOTS];
    struct replay_staged *staged; /* In the order of staging. */
    const struct ps_snap_place *place;
    uint64_t generation; /* Of the records that count now. */
    uint64_t n_records;
    uint64_t n_blocks; /* Compared, */
    uint64_t n_rows;   /*   as these. */
};

/* ---- Rules: replay_rules.c ------------------------------------------------------------------ */

/** beta1^t (which 0) or beta2^t (which 1), as rows of sparse tables have it. */
double replay_power(const struct replay_rule *rule, uint32_t which, uint64_t t);
void replay_rule_init(struct replay_rule *rule);
/** One gradient into `n` weights; value k of element i is state[k * stride + i]. */
void replay_step(const struct replay_step *step, float *weights, float *state, size_t stride,
                 const uint8_t *grad, size_t n);
/** Weights that follow from the state: ftrl. */
void replay_derive(const struct replay_rule *rule, float rate, float *weights, const float *state,
                   size_t n);

/* ---- Tables: replay_tables.c ---------------------------------------------------------------- */

/** A packed ps.v1.Table. */
PS_MUST_CHECK enum ps_status replay_define(struct replay *replay, const uint8_t *bytes,
                                           size_t n_bytes, struct ps_error *err);
/** Of table `number`, as it is, or as it began. NULL without memory, or if it has no such block. */
struct replay_block *replay_block(struct replay *replay, uint32_t number, uint32_t block);
/** A push of one block. */
PS_MUST_CHECK enum ps_status replay_push_block(struct replay *replay, const struct ps_part *part,
                                               float rate, float scale, const uint8_t *grad,
                                               struct ps_error *err);
/** What the slot has of table `number`; made if it is not there. NULL without memory. */
struct replay_rows *replay_rows(struct replay *replay, uint32_t number, uint32_t slot);
/** The place of a key: its row, or a free one. NULL without memory. */
struct replay_row *replay_row(const struct replay_table *table, struct replay_rows *rows,
                              uint64_t key);
/** A row that is there and has not expired. */
bool replay_lives(const struct replay_table *table, const struct replay_rows *rows,
                  const struct replay_row *row);
/** A push of rows: keys and values as they stand in the record. */
PS_MUST_CHECK enum ps_status replay_push_rows(struct replay *replay, uint32_t slot,
                                              const struct ps_record_push *push,
                                              const struct ps_part *part, const uint8_t *payload,
                                              struct ps_error *err);
void replay_forget(struct replay *replay);

/* ---- Records and snapshots: replay_records.c, replay_compare.c ------------------------------ */

PS_MUST_CHECK enum ps_status replay_record(struct replay *replay, const struct ps_record *record,
                                           struct ps_error *err);
/** All wanted slots stand where `to` has them. */
bool replay_done(const struct replay *replay);
/** Keep a gradient until its step is closed. */
PS_MUST_CHECK enum ps_status replay_stage(struct replay *replay, const struct ps_record *record,
                                          struct ps_error *err);
/** The wanted slots and all tables, as a snapshot has them. Slots it has not stay as they began. */
PS_MUST_CHECK enum ps_status replay_load(struct replay *replay, const struct ps_snap *snap,
                                         struct ps_error *err);
/** @return PS_ERR_CORRUPT: they differ, and the words name the first difference */
PS_MUST_CHECK enum ps_status replay_compare(struct replay *replay, const struct ps_snap *snap,
                                            struct ps_error *err);

#endif
