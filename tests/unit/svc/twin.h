#ifndef PS_TESTS_UNIT_SVC_TWIN_H
#define PS_TESTS_UNIT_SVC_TWIN_H
/*
 * svc/twin.h — lanes beside the rig's, made from a cut of theirs or from their records; and whether
 * two sets of lanes hold the same, bit for bit.
 */
#include "rig.h"
#include "slot/cut.h"

struct twin {
    struct ps_inline_exec exec; /* Of all its lanes. */
    struct ps_lane *lanes[PS_LANES_MAX];
    uint32_t n_lanes;
};

/** Empty lanes over the rig's catalogue, memory and tables. */
void twin_open(struct twin *twin, uint32_t n_lanes);
void twin_close(struct twin *twin);
struct ps_lane *twin_lane(const struct twin *twin, uint32_t slot);

/* ---- Records -------------------------------------------------------------------------------- */

/** From now on keep a copy of each record that the rig's committer commits. */
void records_keep(void);
uint32_t records_kept(void);
/** One of them, in the order of the log. */
struct ps_record *records_at(uint32_t nth);
/** Let go of all. */
void records_drop(void);

/**
 * Replay those kept into the twin, of each slot up to `positions` [PS_SLOTS] (NULL: all of them).
 */
void twin_replay(struct twin *twin, const uint64_t *positions);

/* ---- Cuts ----------------------------------------------------------------------------------- */

/** Begin a cut of the rig's lanes. Not pumped; `cut_done` tells. */
struct ps_cut *cut_post(void);
bool cut_done(void);

/** A cut of lanes at rest, all slots that have a line. */
struct ps_cut *cut_of_rig(void);
struct ps_cut *cut_of_twin(struct twin *twin);

/** The cut into an empty twin. */
void twin_restore(struct twin *twin, const struct ps_cut *cut, bool new_generation);

/** Fails the test where they differ. Orders their views. */
void cut_expect_equal(struct ps_cut *a, struct ps_cut *b);

#endif
