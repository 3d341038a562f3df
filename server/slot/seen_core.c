/* seen_core.c — see seen_core.h. */
#include "slot/seen_core.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"

#define WINDOW PS_SEQUENCES_OPEN_MAX

void ps_seen_init(struct ps_seen *seen, struct ps_seen_stream *streams, uint32_t n_streams_max)
{
    PS_ASSERT(n_streams_max > 0);
    seen->streams = streams;
    seen->n_streams_max = n_streams_max;
    seen->n_finished = 0;
}

/*
 * Open addressing with linear probing. Removal would break probe chains, so a removed stream is
 * closed up by ps_seen_drop, which moves its followers.
 */
static uint32_t home(const struct ps_seen *seen, uint64_t key)
{
    return (uint32_t)(ps_mix64(key) % seen->n_streams_max);
}

static struct ps_seen_stream *find(const struct ps_seen *seen, uint64_t key)
{
    uint32_t at = home(seen, key);
    for (uint32_t i = 0; i < seen->n_streams_max; i++) {
        struct ps_seen_stream *stream = &seen->streams[at];
        if (stream->key == key) {
            return stream;
        }
        if (stream->key == 0) {
            return NULL;
        }
        at = at + 1 == seen->n_streams_max ? 0 : at + 1;
    }
    return NULL;
}

/* May the session have one more stream? A lease that goes to another holder is his from then on. */
static bool room_for_one(const struct ps_seen *seen, uint64_t owner)
{
    bool free = false;
    uint32_t n_own = 0;
    for (uint32_t i = 0; i < seen->n_streams_max; i++) {
        const struct ps_seen_stream *stream = &seen->streams[i];
        free = free || stream->key == 0;
        n_own += owner != 0 && stream->key != 0 && stream->owner == owner;
    }
    return free && n_own < PS_SEEN_STREAMS_EACH;
}

static struct ps_seen_stream *add(struct ps_seen *seen, uint64_t key)
{
    uint32_t at = home(seen, key);
    for (uint32_t i = 0; i < seen->n_streams_max; i++) {
        if (seen->streams[at].key == 0) {
            seen->streams[at] = (struct ps_seen_stream){.key = key};
            return &seen->streams[at];
        }
        at = at + 1 == seen->n_streams_max ? 0 : at + 1;
    }
    return NULL;
}

static bool finished(const struct ps_seen *seen, uint64_t key)
{
    uint32_t low = 0;
    uint32_t high = seen->n_finished;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (seen->finished[mid].last < key) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < seen->n_finished && seen->finished[low].first <= key;
}

static bool bit(const struct ps_seen_stream *stream, uint64_t sequence)
{
    uint64_t at = sequence % WINDOW;
    return (stream->window[at / 64] >> (at % 64) & 1) != 0;
}

static void set_bit(struct ps_seen_stream *stream, uint64_t sequence, bool on)
{
    uint64_t at = sequence % WINDOW;
    uint64_t mask = 1ull << (at % 64);
    if (on) {
        stream->window[at / 64] |= mask;
    } else {
        stream->window[at / 64] &= ~mask;
    }
}

static const struct ps_seen_partial *partial_of(const struct ps_seen_stream *stream,
                                                uint64_t sequence)
{
    for (uint32_t i = 0; i < PS_SEEN_PARTIALS_MAX; i++) {
        if (stream->partials[i].fragments != 0 && stream->partials[i].sequence == sequence) {
            return &stream->partials[i];
        }
    }
    return NULL;
}

/* Is there a place once all below `below` is taken? */
static bool partial_room(const struct ps_seen_stream *stream, uint64_t below)
{
    for (uint32_t i = 0; i < PS_SEEN_PARTIALS_MAX; i++) {
        if (stream->partials[i].fragments == 0 || stream->partials[i].sequence < below) {
            return true;
        }
    }
    return false;
}

/* Where the stream will begin once all below `below` counts as taken. */
static uint64_t low_from(const struct ps_seen_stream *stream, uint64_t below)
{
    uint64_t low = below > stream->low ? below : stream->low;
    while (low - stream->low < WINDOW && bit(stream, low)) {
        low++;
    }
    return low;
}

enum ps_seen_verdict ps_seen_look(const struct ps_seen *seen, const struct ps_seen_item *item)
{
    if (item->stream == 0 || item->n_fragments == 0 || item->n_fragments > PS_FRAGMENTS_MAX ||
        item->fragment >= item->n_fragments || item->sequence >= PS_SEEN_SEQUENCES_MAX ||
        item->acked_below > item->sequence) {
        return PS_SEEN_BAD;
    }
    if (finished(seen, item->stream)) {
        return PS_SEEN_TAKEN;
    }
    const struct ps_seen_stream *stream = find(seen, item->stream);
    if (stream == NULL) { /* A new holder of a lease may start above the window. */
        bool room = item->sequence - item->acked_below < WINDOW && room_for_one(seen, item->owner);
        return room ? PS_SEEN_NEW : PS_SEEN_BUSY;
    }
    if (item->sequence < stream->low) {
        return PS_SEEN_TAKEN;
    }
    if (item->sequence - stream->low < WINDOW && bit(stream, item->sequence)) {
        return PS_SEEN_TAKEN;
    }
    if (item->sequence - stream->low >= WINDOW &&
        item->sequence - low_from(stream, item->acked_below) >= WINDOW) {
        return PS_SEEN_BUSY;
    }
    const struct ps_seen_partial *partial = partial_of(stream, item->sequence);
    if (partial == NULL) {
        bool room = item->n_fragments == 1 || partial_room(stream, item->acked_below);
        return room ? PS_SEEN_NEW : PS_SEEN_BUSY;
    }
    if (partial->n_fragments != item->n_fragments) {
        return PS_SEEN_BAD; /* Cut otherwise: some of it would be applied twice. */
    }
    return (partial->fragments >> item->fragment & 1) != 0 ? PS_SEEN_TAKEN : PS_SEEN_NEW;
}

/* Note the fragment; true when the sequence is now whole. */
static bool complete(struct ps_seen_stream *stream, const struct ps_seen_item *item)
{
    if (item->n_fragments == 1) {
        return true;
    }
    struct ps_seen_partial *partial = NULL;
    for (uint32_t i = 0; i < PS_SEEN_PARTIALS_MAX; i++) {
        struct ps_seen_partial *p = &stream->partials[i];
        if (p->fragments != 0 && p->sequence == item->sequence) {
            partial = p;
            break;
        }
        if (p->fragments == 0) {
            partial = p;
        }
    }
    PS_ASSERT(partial != NULL);
    partial->sequence = item->sequence;
    partial->n_fragments = item->n_fragments;
    partial->fragments |= 1ull << item->fragment;
    uint64_t all = item->n_fragments == 64 ? UINT64_MAX : (1ull << item->n_fragments) - 1;
    if (partial->fragments != all) {
        return false;
    }
    partial->fragments = 0;
    return true;
}

static void advance(struct ps_seen_stream *stream)
{
    while (bit(stream, stream->low)) {
        set_bit(stream, stream->low, false);
        stream->low++;
    }
}

/* All below `below` is taken. */
static void raise_low(struct ps_seen_stream *stream, uint64_t below)
{
    if (below <= stream->low) {
        return;
    }
    for (uint32_t i = 0; i < PS_SEEN_PARTIALS_MAX; i++) {
        if (stream->partials[i].sequence < below) {
            stream->partials[i].fragments = 0;
        }
    }
    if (below - stream->low >= WINDOW) {
        memset(stream->window, 0, sizeof(stream->window));
        stream->low = below;
    }
    while (stream->low < below) {
        set_bit(stream, stream->low, false);
        stream->low++;
    }
    advance(stream);
}

void ps_seen_take(struct ps_seen *seen, const struct ps_seen_item *item)
{
    PS_ASSERT(ps_seen_look(seen, item) == PS_SEEN_NEW);
    struct ps_seen_stream *stream = find(seen, item->stream);
    if (stream == NULL) {
        stream = add(seen, item->stream);
    }
    PS_ASSERT(stream != NULL);
    stream->owner = item->owner;
    raise_low(stream, item->acked_below);
    if (complete(stream, item)) {
        set_bit(stream, item->sequence, true);
        advance(stream);
    }
}

bool ps_seen_put(struct ps_seen *seen, const struct ps_seen_stream *stream)
{
    if (stream->key == 0 || finished(seen, stream->key) || find(seen, stream->key) != NULL) {
        return false;
    }
    struct ps_seen_stream *place = add(seen, stream->key);
    if (place == NULL) {
        return false;
    }
    *place = *stream;
    return true;
}

/* One more range behind those of `to`, or grown into the last of them. False: there is no room. */
static bool add_range(struct ps_seen_range *to, uint32_t *n, const struct ps_seen_range *range)
{
    struct ps_seen_range *last = *n > 0 ? &to[*n - 1] : NULL;
    if (last != NULL && (range->first <= last->last || range->first - 1 == last->last)) {
        last->last = range->last > last->last ? range->last : last->last;
        return true;
    }
    if (*n == PS_SEEN_FINISHED_MAX) {
        return false;
    }
    to[(*n)++] = *range;
    return true;
}

/*
 * What was finished stays so, whatever the list says: a slot that went back to a cut may know of
 * leases that were finished after the coordinator had noted how far the job was. Their streams are
 * gone, so nothing else would tell that the slot has their units.
 */
bool ps_seen_finish(struct ps_seen *seen, const struct ps_seen_range *ranges, uint32_t n)
{
    struct ps_seen_range both[PS_SEEN_FINISHED_MAX];
    uint32_t n_both = 0;
    uint32_t own = 0;
    for (uint32_t i = 0; i < n || own < seen->n_finished;) {
        bool theirs =
            own == seen->n_finished || (i < n && ranges[i].first <= seen->finished[own].first);
        if (!add_range(both, &n_both, theirs ? &ranges[i++] : &seen->finished[own++])) {
            return false;
        }
    }
    memcpy(seen->finished, both, n_both * sizeof(both[0]));
    seen->n_finished = n_both;
    for (uint32_t i = 0; i < seen->n_streams_max;) {
        uint64_t key = seen->streams[i].key;
        if (key != 0 && finished(seen, key)) {
            ps_seen_drop(seen, key); /* Another stream may have moved to i: look again. */
        } else {
            i++;
        }
    }
    return true;
}

void ps_seen_drop(struct ps_seen *seen, uint64_t key)
{
    struct ps_seen_stream *stream = find(seen, key);
    if (stream == NULL) {
        return;
    }
    uint32_t hole = (uint32_t)(stream - seen->streams);
    seen->streams[hole].key = 0;
    /* Close up: a follower moves into the hole unless its home lies behind the hole. */
    uint32_t at = hole;
    for (uint32_t i = 1; i < seen->n_streams_max; i++) {
        at = at + 1 == seen->n_streams_max ? 0 : at + 1;
        if (seen->streams[at].key == 0) {
            break;
        }
        uint32_t from_home =
            (at + seen->n_streams_max - home(seen, seen->streams[at].key)) % seen->n_streams_max;
        uint32_t from_hole = (at + seen->n_streams_max - hole) % seen->n_streams_max;
        if (from_home >= from_hole) {
            seen->streams[hole] = seen->streams[at];
            seen->streams[at].key = 0;
            hole = at;
        }
    }
}
