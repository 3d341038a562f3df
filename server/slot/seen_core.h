#ifndef PS_SERVER_SLOT_SEEN_CORE_H
#define PS_SERVER_SLOT_SEEN_CORE_H
/*
 * slot/seen_core.h — exactly once: which sequences of which streams a slot has taken.
 *
 * A stream is a lease (sequence n is its n-th unit, whoever holds it) or a session's own. Per
 * stream: all sequences below `low` are taken, and a window of bits above it. A finished lease
 * shrinks to one bit, kept as ranges of ids: a late copy of its pushes is "taken" for ever
 * (a slot that forgot it would apply the copy again).
 *
 *      taken for certain      window: a bit each               refused: BUSY
 *   0 ................. low .............. low + PS_SEQUENCES_OPEN_MAX ..........
 *
 * A unit whose share of the slot exceeds one call comes in fragments; a sequence is taken when all
 * of its fragments are. Pure; memory is the owner's. Part of the slot's state.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/limits.h"

#define PS_SEEN_STREAMS_MAX  512u  /* Per slot: a lease and a stream of its own per session. */
#define PS_SEEN_STREAMS_EACH 16u   /* Of these a session's: finishes are announced soon. */
#define PS_SEEN_PARTIALS_MAX 4u    /* Sequences of a stream that wait for fragments. */
#define PS_SEEN_FINISHED_MAX 1024u /* Ranges of finished leases; they finish nearly in order. */

#define PS_SEEN_SEQUENCES_MAX (1ull << 62) /* Far from where counting would wrap. */

/** Key of a session's own stream; lease ids stay below PS_SEEN_LEASES_END. */
#define PS_SEEN_LEASES_END                     (1ull << 63)
#define PS_SEEN_SESSION_STREAM(session_number) ((session_number) | PS_SEEN_LEASES_END)

struct ps_seen_partial {
    uint64_t sequence;
    uint64_t fragments;   /* Bit i: fragment i is taken. 0: unused. */
    uint32_t n_fragments; /* As the first one said; others must agree. */
};

struct ps_seen_stream {
    uint64_t key;   /* 0: free. */
    uint64_t owner; /* Session that was taken from last; 0: none. */
    uint64_t low;
    uint64_t window[PS_SEQUENCES_OPEN_MAX / 64]; /* Bit s mod the size, for s >= low. */
    struct ps_seen_partial partials[PS_SEEN_PARTIALS_MAX];
};

struct ps_seen_range {
    uint64_t first;
    uint64_t last; /* Included. */
};

struct ps_seen {
    struct ps_seen_stream *streams; /* [n_streams_max], the owner's memory, zeroed. */
    uint32_t n_streams_max;
    uint32_t n_finished;
    struct ps_seen_range finished[PS_SEEN_FINISHED_MAX]; /* Ascending, apart. */
};

enum ps_seen_verdict {
    PS_SEEN_NEW, /* Not taken: take it with ps_seen_take. */
    PS_SEEN_TAKEN,
    PS_SEEN_BUSY, /* Beyond the window, or too many streams or partial sequences. */
    PS_SEEN_BAD   /* Fragment numbers contradict themselves or those before; absurd sequence. */
};

/** What one call carries of a stream. */
struct ps_seen_item {
    uint64_t stream;   /* Key; > 0. */
    uint64_t sequence; /* < PS_SEEN_SEQUENCES_MAX */
    uint32_t fragment;
    uint32_t n_fragments; /* >= 1 */
    uint64_t owner;       /* Session that sends it; 0: the slot itself. */
    uint64_t acked_below; /* Sequences of the stream below are acknowledged; at most its own. */
};

void ps_seen_init(struct ps_seen *seen, struct ps_seen_stream *streams, uint32_t n_streams_max);

/** Look, without changing anything. All below `acked_below` counts as taken. */
enum ps_seen_verdict ps_seen_look(const struct ps_seen *seen, const struct ps_seen_item *item);

/** Take an item for which ps_seen_look has just said NEW, and all below its `acked_below`. */
void ps_seen_take(struct ps_seen *seen, const struct ps_seen_item *item);

/**
 * These leases, too, are finished: ascending ranges that lie apart. Forgets their streams. False,
 * and nothing changed, when there would be more than PS_SEEN_FINISHED_MAX ranges.
 */
bool ps_seen_finish(struct ps_seen *seen, const struct ps_seen_range *ranges, uint32_t n);

/**
 * Put a stream back as it was saved: its key is new, `low` itself is not taken. False when it
 * cannot be: no room, a key that is there or finished.
 */
PS_MUST_CHECK bool ps_seen_put(struct ps_seen *seen, const struct ps_seen_stream *stream);

/** Forget a stream: its session is closed, nothing of it will be accepted any more. */
void ps_seen_drop(struct ps_seen *seen, uint64_t key);

#endif
