/* life_store.c — see life.h. */
#include <string.h>

#include "life.h"

struct world world;

void note_promise(bool kept, const char *promise)
{
    if (!kept && world.broke == NULL) {
        world.broke = promise;
    }
}

const struct ps_lease_job life_jobs[2] = {
    {.rows = 101, .batch = 5, .epochs = 2, .workers = 3, .units_per_lease = 3},
    {.rows = 101, .batch = 20, .epochs = 2, .workers = 3, .units_per_lease = 2, .aggregate = true},
};

struct ps_id session_of(uint32_t kind, uint32_t number)
{
    struct ps_id id = {{(uint8_t)(1 + number), (uint8_t)(number >> 8), (uint8_t)kind, 7}};
    return id;
}

/* ---- The store ----------------------------------------------------------------------------- */

/* What follows an event: write, then everybody may hear. */
void flush(void)
{
    if (CORE->dirty) {
        world.store = *CORE;
        memcpy(world.store_pool, world.memory, world.memory_bytes);
        CORE->dirty = false;
    }
}

struct ps_coord_core_options core_options(void)
{
    return (struct ps_coord_core_options){.n_servers = SERVERS,
                                          .times = {.grace_ms = 1000, .silence_ms = 5000},
                                          .tick_ms = 125,
                                          .term = ++world.term,
                                          .first_session_number = 1,
                                          .first_cut = 1,
                                          .generation = 1,
                                          .wait_ms = 60000,
                                          .cuts = true,
                                          .lends_written = true,
                                          .plant = world.plant};
}

static void make_pool(struct ps_lease_pool *pool, const struct ps_lease_progress *progress)
{
    struct ps_lease_plan plan;
    struct ps_error err;
    ck_assert_int_eq(ps_lease_plan_make(&life_jobs[world.averaging], &plan, &err), PS_OK);
    ck_assert_uint_le(plan.n_leases, LEASES_MOST);
    memset(world.memory, 0, world.memory_bytes);
    ps_lease_pool_init(pool, &plan, world.memory);
    CHECK(ps_lease_pool_resume(pool, progress, &err) == PS_OK);
}

static void resume_sessions(const struct ps_coord_core *old)
{
    for (uint32_t i = 0; i < old->n_members; i++) {
        const struct ps_coord_member *m = &old->members[i];
        struct ps_error err;
        if (m->kind == PS_COORD_SERVER || (ps_member_ended(&m->life) && !m->closing)) {
            continue;
        }
        struct ps_coord_stored_session session = {
            .kind = m->kind,
            .session = m->session,
            .number = m->number,
            .name = m->name,
            .opened = m->life.state != PS_MEMBER_JOINING,
            .closing = m->closing,
            .opened_version = m->opened_version,
            .closed_version = m->closed_version,
            .clock = m->clock,
            .lease = m->lease,
            .lease_clock = m->lease_clock,
            .lease_units = m->lease_units,
            .staged = m->staged,
        };
        CHECK(ps_coord_resume_session(CORE, world.bench.now_ms, &session, &err) == PS_OK);
    }
}

static void resume_places(const struct ps_coord_core *old)
{
    struct ps_coord_stored_place places[SERVERS];
    for (uint32_t i = 0; i < SERVERS; i++) {
        const struct ps_coord_member *m = &old->members[old->servers[i]];
        places[i] = (struct ps_coord_stored_place){.id = old->places[i].id,
                                                   .incarnation = m->session,
                                                   .number = m->number,
                                                   .durability = old->places[i].durability,
                                                   .placed = old->places[i].placed,
                                                   .gone = ps_member_ended(&m->life),
                                                   .name = m->name,
                                                   .address = m->address};
    }
    ps_coord_resume_places(CORE, world.bench.now_ms, places);
}

/* The coordinator dies; the next one knows what the store has. */
void take_over(void)
{
    static struct ps_coord_core old;
    static struct ps_lease_range ranges[PS_LEASE_RANGES_MAX];
    static struct ps_lease_begun begun[LEASES_MOST];
    old = world.store;
    memcpy(world.memory, world.store_pool, world.memory_bytes); /* As `old.pool` points to it. */
    struct ps_lease_progress progress = {.finished = ranges, .begun = begun};
    progress.n_finished = ps_lease_pool_finished(&old.pool, ranges);
    progress.n_begun = ps_lease_pool_begun(&old.pool, begun, LEASES_MOST);
    struct ps_coord_core_options options = core_options();
    options.first_session_number = old.next_session_number;
    options.first_sessions_version = old.sessions_version + 1;
    options.first_cut = old.cut.next;
    options.generation = old.generation;
    ps_coord_core_init(CORE, world.bench.now_ms, &options);
    CORE->has_job = true;
    CORE->job = old.job;
    CORE->started = old.started;
    CORE->min_clock = old.min_clock;
    CORE->finished_version = old.finished_version;
    CORE->base = old.base;
    CORE->has_cut = old.has_cut;
    CORE->placement = old.placement;
    CORE->close = old.close;
    CORE->close.pending = old.close.decided && old.close.step + 1 > old.min_clock;
    make_pool(&CORE->pool, &progress);
    resume_places(&old);
    resume_sessions(&old);
    ps_coord_resumed(CORE);
    flush();
    world.n_takeovers++;
}

/* ---- Cuts and the way back ----------------------------------------------------------------- */

struct taken *cut_at(uint64_t generation, uint64_t number)
{
    for (uint32_t i = 0; i < world.n_cuts; i++) {
        if (world.cuts[i].generation == generation && world.cuts[i].number == number) {
            return &world.cuts[i];
        }
    }
    return NULL;
}

static void record(struct taken *cut)
{
    cut->min_clock = CORE->min_clock;
    cut->n_finished = ps_lease_pool_finished(&CORE->pool, cut->finished);
    cut->n_begun = ps_lease_pool_begun(&CORE->pool, cut->begun, LEASES_MOST);
}

static void note_cut(void)
{
    if (world.n_cuts == CUTS_MOST) { /* The oldest but what the generation stands on. */
        memmove(&world.cuts[1], &world.cuts[2], (CUTS_MOST - 2) * sizeof(world.cuts[0]));
        world.n_cuts--;
    }
    struct taken *cut = &world.cuts[world.n_cuts++];
    *cut = (struct taken){.generation = CORE->generation, .number = CORE->cut.number};
    if (world.plant != PS_COORD_PLANT_PROGRESS_AFTER_CUT) {
        record(cut);
    }
    ps_coord_cut_noted(&CORE->cut);
}

/* What the record calls done lies in every part. */
static void check_cut(const struct taken *cut)
{
    const struct ps_lease_plan *plan = &CORE->pool.plan;
    for (uint32_t s = 0; s < SERVERS; s++) {
        for (size_t i = 0; i < cut->n_finished; i++) {
            for (uint64_t id = cut->finished[i].first; id <= cut->finished[i].last; id++) {
                for (uint32_t unit = 0; unit < ps_lease_at(plan, id).n_units; unit++) {
                    CHECK(cut->parts[s].applied[id][unit] == 1);
                }
            }
        }
        for (size_t i = 0; i < cut->n_begun; i++) {
            for (uint32_t unit = 0; unit < cut->begun[i].units_done; unit++) {
                CHECK(cut->parts[s].applied[cut->begun[i].id][unit] == 1);
            }
        }
        for (uint32_t id = 1; id <= plan->n_leases && world.averaging; id++) {
            for (uint32_t unit = 0; unit < UNITS_MOST; unit++) { /* Between two steps. */
                CHECK(cut->parts[s].applied[id][unit] == cut->parts[0].applied[id][unit]);
            }
        }
    }
}

static void complete_cut(void)
{
    struct taken *cut = cut_at(CORE->generation, CORE->cut.number);
    CHECK(cut != NULL);
    if (cut != NULL) {
        if (world.plant == PS_COORD_PLANT_PROGRESS_AFTER_CUT) {
            record(cut);
        }
        check_cut(cut);
        cut->complete = true;
        world.n_complete++;
    }
    ps_coord_cut_completed(&CORE->cut, world.bench.now_ms);
    CORE->has_cut = true;
    CORE->dirty = true;
}

static struct taken *last_cut(void)
{
    for (uint32_t i = world.n_cuts; i > 0; i--) {
        if (world.cuts[i - 1].complete && world.cuts[i - 1].generation == CORE->generation) {
            return &world.cuts[i - 1];
        }
    }
    return cut_at(CORE->base.generation, CORE->base.cut);
}

static void go_back(void)
{
    struct taken *cut = last_cut();
    CHECK(cut != NULL && cut->complete);
    if (cut == NULL) {
        return;
    }
    struct ps_lease_progress progress = {.finished = cut->finished,
                                         .n_finished = cut->n_finished,
                                         .begun = cut->begun,
                                         .n_begun = cut->n_begun};
    struct ps_lease_pool pool;
    make_pool(&pool, &progress);
    struct ps_coord_back back = {.cut_generation = cut->generation,
                                 .cut = cut->number,
                                 .min_clock = cut->min_clock,
                                 .started = true,
                                 .pool = &pool};
    uint64_t generation = CORE->generation;
    ps_coord_go_back(CORE, world.bench.now_ms, &back, "data are lost");
    CHECK(CORE->generation > generation);
    CHECK(CORE->state == PS_COORD_RESTORING);
    world.cuts[0] = *cut; /* What the generation stands on stays. */
    world.n_cuts = world.n_cuts > 0 ? world.n_cuts : 1;
    world.n_backs++;
}

/* The shell's part of every flush. */
void work_and_flush(void)
{
    if (CORE->wants_back) {
        go_back();
    }
    if (CORE->cut.state == PS_COORD_CUT_NOTE) {
        note_cut();
    }
    if (CORE->cut.state == PS_COORD_CUT_FINISH) {
        complete_cut();
    }
    flush();
}
