/* bench.c — see test_coord.h. */
#include "base/mem.h"
#include "test_coord.h"

uint32_t bench_join(struct bench *bench, enum ps_coord_kind kind, uint32_t number,
                    enum ps_status *ret_status)
{
    uint32_t member = PS_COORD_NOBODY;
    struct ps_error err;
    struct ps_coord_join join = {.kind = kind, .name = "somebody", .address = ""};
    char address[] = "host:0";
    join.session.bytes[0] = (uint8_t)(1 + number);
    join.session.bytes[1] = (uint8_t)(number >> 8);
    join.session.bytes[2] = (uint8_t)kind;
    if (kind == PS_COORD_SERVER) {
        address[5] = (char)('0' + number);
        join.address = address;
    }
    *ret_status = ps_coord_core_join(&bench->core, bench->now_ms, &join, &member, &err);
    return member;
}

void bench_init(struct bench *bench, bool placed)
{
    struct ps_coord_core_options options = {
        .n_servers = BENCH_SERVERS,
        .times = {.grace_ms = 1000, .silence_ms = 5000},
        .tick_ms = 125,
        .term = 1,
        .first_session_number = 1,
        .first_cut = 1,
        .generation = 1,
        .wait_ms = 20000,
        .lends_written = true,
    };
    *bench = (struct bench){.now_ms = 1000};
    ps_coord_core_init(&bench->core, bench->now_ms, &options);
    for (uint32_t i = 0; placed && i < BENCH_SERVERS; i++) {
        enum ps_status status;
        bench->server[i] = bench_join(bench, PS_COORD_SERVER, i, &status);
        ck_assert_int_eq(status, PS_OK);
    }
}

void bench_deinit(struct bench *bench)
{
    ps_mem_free(bench->pool_memory);
}

void bench_ack(struct bench *bench, uint32_t i)
{
    const struct ps_coord_core *core = &bench->core;
    struct ps_coord_acks acks = {
        .placement = core->placement.version,
        .sessions = core->sessions_version,
        .catalogue = core->catalogue_version,
        .finished = core->finished_version,
        .closed_steps = core->close.decided ? core->close.step + 1 : 0,
    };
    ps_coord_core_acks(&bench->core, bench->now_ms, bench->server[i], &acks);
}

/* Until nothing new comes of it: an acknowledged close may decide the next. */
void bench_ack_all(struct bench *bench)
{
    for (uint32_t i = 0; i < BENCH_SERVERS; i++) {
        bench_ack(bench, i);
    }
}

uint32_t bench_worker(struct bench *bench, uint32_t number)
{
    enum ps_status status;
    uint32_t member = bench_join(bench, PS_COORD_WORKER, number, &status);
    ck_assert_int_eq(status, PS_OK);
    bench_ack_all(bench);
    ck_assert(ps_coord_core_open(&bench->core, member));
    return member;
}

void bench_define(struct bench *bench, const struct ps_lease_job *job,
                  const struct ps_coord_consistency *consistency)
{
    struct ps_lease_plan plan;
    struct ps_error err;
    ck_assert_int_eq(ps_lease_plan_make(job, &plan, &err), PS_OK);
    bench->pool_memory = ps_mem_alloc(NULL, PS_MEM_OTHER, ps_lease_pool_bytes(&plan));
    ck_assert_ptr_nonnull(bench->pool_memory);
    struct ps_coord_job definition = {.workers = job->workers, .consistency = *consistency};
    ps_coord_core_job(&bench->core, bench->now_ms, &definition, &plan, bench->pool_memory);
}

void bench_pass(struct bench *bench, uint32_t ms, uint32_t silent)
{
    for (uint32_t passed = 0; passed < ms; passed += 125) {
        bench->now_ms += 125;
        for (uint32_t i = 0; i < bench->core.n_members; i++) {
            if (i != silent && bench->core.members[i].used) {
                (void)ps_coord_core_heard(&bench->core, bench->now_ms, i);
            }
        }
        ps_coord_core_tick(&bench->core, bench->now_ms);
    }
}

void bench_report(struct bench *bench, uint32_t member, uint64_t clock, uint64_t lease,
                  uint32_t units_done)
{
    struct ps_coord_progress progress = {.clock = clock, .lease = lease, .units_done = units_done};
    ps_coord_core_progress(&bench->core, bench->now_ms, member, &progress);
}

void bench_stage(struct bench *bench, uint32_t member, uint32_t rows)
{
    const struct ps_coord_member *who = &bench->core.members[member];
    ck_assert_uint_ne(who->lease, 0);
    struct ps_coord_progress progress = {
        .clock = who->clock,
        .lease = who->lease,
        .staged_step = who->clock + 1,
        .staged_unit = ps_lease_units_done(&bench->core.pool, who->lease),
        .staged_rows = rows,
    };
    ps_coord_core_progress(&bench->core, bench->now_ms, member, &progress);
}
