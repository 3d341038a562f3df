/* rig.c — see rig.h. */
#include "rig.h"

#include <string.h>

#include "base/assert.h"
#include "base/rng.h"

#define ALL_SLOTS ((1u << RIG_SLOTS) - 1)

struct rig rig;

static uint64_t clock_ns(void *arg)
{
    (void)arg;
    return rig.now_ns;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void define(uint32_t table, const char *optim, uint64_t n_elements, uint32_t first_slot)
{
    struct ps_layout *layout = &rig.catalogue.layouts[table];
    struct ps_table_info *info = &rig.catalogue.tables[table];
    PS_ASSERT(ps_layout_table(&n_elements, 1, first_slot, layout, NULL) == PS_OK);
    info->optim = ps_optim_find(optim);
    info->params = info->optim->defaults;
    info->spec =
        (struct ps_dense_spec){.id = table,
                               .dtype = PS_DTYPE_F32,
                               .n_dims = 1,
                               .dims = {n_elements},
                               .n_elements = n_elements,
                               .block_floats = layout->block_floats,
                               .state_per_elem = info->optim->state_per_elem,
                               .init = {.kind = PS_INIT_UNIFORM, .scale = 1.0f, .seed = 5}};
}

static void make_lanes(uint32_t n_lanes)
{
    rig.svc.n_lanes = n_lanes;
    for (uint32_t i = 0; i < n_lanes; i++) {
        ps_inline_exec_init(&rig.execs[i], clock_ns, NULL);
        struct ps_lane_options options = {.exec = &rig.execs[i].base,
                                          .mem = &rig.mem,
                                          .metrics = &rig.metrics,
                                          .committer =
                                              rig.late ? &rig.committer.base : &ps_commit_at_once,
                                          .catalogue = &rig.catalogue,
                                          .index = i,
                                          .n_lanes = n_lanes,
                                          .plant = rig.plant};
        PS_ASSERT(ps_lane_create(&options, &rig.svc.lanes[i], NULL) == PS_OK);
    }
}

static void open_lanes(uint32_t n_lanes, bool late)
{
    bool late_by_default = rig.late_by_default;
    enum ps_slot_plant plant = rig.plant;
    memset(&rig, 0, sizeof(rig));
    rig.late_by_default = late_by_default;
    rig.plant = plant;
    rig.late = late;
    late_commit_init(&rig.committer);
    rig.now_ns = 1000000000;
    ps_mem_init(&rig.mem);
    ps_inline_exec_init(&rig.home, clock_ns, NULL);
    rig.svc.mem = &rig.mem;
    rig.svc.metrics = &rig.metrics;
    rig.svc.exec = &rig.home.base;
    rig.svc.catalogue = &rig.catalogue;
    rig.svc.ledger = ps_ledger_create(&rig.mem, &(struct ps_ledger_limits){0});
    PS_ASSERT(rig.svc.ledger != NULL);
    make_lanes(n_lanes);
    ps_svc_data_methods(&rig.svc, rig.methods);
    define(RIG_WEIGHTS, "sgd", RIG_N_WEIGHTS, 0);
    define(RIG_BIAS, "momentum", RIG_N_BIAS, 3);
    struct ps_lane_update *news = rig_news();
    news->has_placement = true;
    news->placement_version = 1;
    news->n_tables = RIG_TABLES;
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        news->primary[s] = true;
        news->epoch[s] = RIG_EPOCH;
    }
    PS_ASSERT(rig_send() == PS_OK);
    atomic_store(&rig.catalogue.n_tables, RIG_TABLES);
    atomic_store(&rig.svc.generation, RIG_GENERATION);
    atomic_store(&rig.svc.key_seed, RIG_KEY_SEED);
    rig_sessions(1, 1);
    rig_consistency(PS_GATE_BOUNDED, 0, false);
    rig_gradients(1);
}

void rig_open(uint32_t n_lanes)
{
    open_lanes(n_lanes, rig.late_by_default);
}

void rig_open_late(uint32_t n_lanes)
{
    open_lanes(n_lanes, true);
}

void rig_fill_slot(void)
{
    uint32_t n_tables = RIG_TABLES + RIG_FULL_TABLES;
    for (uint32_t table = RIG_TABLES; table < n_tables; table++) {
        define(table, "sgd", RIG_BLOCK, RIG_FULL_SLOT);
    }
    rig_news()->n_tables = n_tables;
    PS_ASSERT(rig_send() == PS_OK);
    atomic_store(&rig.catalogue.n_tables, n_tables);
}

uint32_t rig_define_rows(const struct rig_rows *rows)
{
    uint32_t table = atomic_load(&rig.catalogue.n_tables);
    struct ps_table_info *info = &rig.catalogue.tables[table];
    struct ps_init init = {.kind = PS_INIT_UNIFORM, .scale = 1.0f, .seed = 6};
    rig.catalogue.layouts[table] = (struct ps_layout){0};
    info->sparse = true;
    info->optim = ps_optim_find(rows->optim);
    info->params = info->optim->defaults;
    info->params.l1 = rows->l1;
    init.kind = rows->zeros ? PS_INIT_ZEROS : init.kind;
    info->spec = (struct ps_dense_spec){.id = table, .name = "rows"};
    info->rows = (struct ps_sparse_spec){.id = table,
                                         .name = "rows",
                                         .width = rows->width,
                                         .state_per_elem = info->optim->state_per_elem,
                                         .init = init,
                                         .admit_after = rows->admit_after,
                                         .admit_bytes = PS_ADMIT_BYTES,
                                         .expire_after = rows->expire_after};
    rig_news()->n_tables = table + 1;
    PS_ASSERT(rig_send() == PS_OK);
    atomic_store(&rig.catalogue.n_tables, table + 1);
    return table;
}

void rig_close(void)
{
    rig.hold = false;
    rig_pump();
    PS_ASSERT(atomic_load(&rig.svc.n_open) == 0);
    for (uint32_t i = 0; i < rig.svc.n_lanes; i++) {
        ps_lane_destroy(rig.svc.lanes[i]);
    }
    ps_ledger_unref(rig.svc.ledger);
    for (uint32_t c = 0; c < PS_MEM_CLASS_COUNT; c++) {
        PS_ASSERT(atomic_load(&rig.mem.used[c]) == 0);
    }
    PS_ASSERT(fake_call_requests_alive() == 0);
    uint64_t n_copied = ps_metric_get(&rig.metrics, PS_METRIC_bytes_copied_push_total);
    PS_ASSERT(rig.cuts || n_copied <= rig.n_straddlers_max * sizeof(float));
    PS_ASSERT(ps_metric_get(&rig.metrics, PS_METRIC_bytes_copied_pull_total) == 0);
    PS_ASSERT(rig.cuts || ps_metric_get(&rig.metrics, PS_METRIC_pages_copied_total) == 0);
    PS_ASSERT(ps_metric_get(&rig.metrics, PS_METRIC_pulls_parked) == 0);
}

static void pump(void)
{
    for (uint32_t i = 0; i < rig.svc.n_lanes; i++) {
        ps_inline_exec_pump(&rig.execs[i]);
    }
    ps_inline_exec_pump(&rig.home);
}

void rig_pump(void)
{
    pump();
    while (rig.late && !rig.hold && late_commit_some(&rig.committer, LATE_COMMIT_ALL) > 0) {
        pump();
    }
}

void rig_pump_lane(uint32_t lane)
{
    do {
        ps_inline_exec_pump(&rig.execs[lane]);
    } while (rig.late && !rig.hold && late_commit_some(&rig.committer, LATE_COMMIT_ALL) > 0);
}

void rig_commit(uint32_t n)
{
    (void)late_commit_some(&rig.committer, n);
    pump();
}

void rig_pass_ms(uint64_t ms)
{
    rig.now_ns += ms * 1000000;
    rig_pump();
}

/* ---- News ----------------------------------------------------------------------------------- */

static void updated(struct ps_lane_update *update)
{
    (void)update;
    PS_ASSERT(!rig.updated);
    rig.updated = true;
}

struct ps_lane_update *rig_news(void)
{
    memset(&rig.update, 0, sizeof(rig.update));
    rig.update.term = 1;
    rig.update.generation = RIG_GENERATION;
    rig.update.n_tables = atomic_load(&rig.catalogue.n_tables);
    rig.update.done = updated;
    rig.updated = false;
    return &rig.update;
}

void rig_post(void)
{
    rig.updated = false;
    atomic_init(&rig.update.status, PS_OK);
    atomic_init(&rig.update.stale, false);
    atomic_init(&rig.update.n_pending, rig.svc.n_lanes);
    for (uint32_t i = 0; i < rig.svc.n_lanes; i++) {
        ps_lane_post_update(rig.svc.lanes[i], &rig.update);
    }
    rig_pump();
}

enum ps_status rig_send(void)
{
    rig_post();
    PS_ASSERT(rig.updated);
    return (enum ps_status)atomic_load(&rig.update.status);
}

void rig_min_clock(uint64_t min_clock)
{
    rig_news()->min_clock = min_clock;
    PS_ASSERT(rig_send() == PS_OK);
}

static void list_sessions(uint64_t version, uint64_t first, const uint64_t *staged)
{
    struct ps_open_session sessions[4];
    uint32_t n = 0;
    for (uint64_t number = 1; number <= 4; number++) {
        if (number >= first) {
            sessions[n].number = number;
            sessions[n].id = (struct ps_id){{(uint8_t)number}};
            n++;
        }
    }
    ps_ledger_sessions(rig.svc.ledger, sessions, n);
    struct ps_lane_update *news = rig_news();
    news->has_sessions = true;
    news->sessions = (struct ps_record_sessions){.version = version,
                                                 .sessions = sessions,
                                                 .n_sessions = n,
                                                 .knows_staged = staged != NULL,
                                                 .staged = staged,
                                                 .n_staged = staged != NULL && *staged != 0};
    PS_ASSERT(rig_send() == PS_OK);
}

void rig_sessions(uint64_t version, uint64_t first)
{
    list_sessions(version, first, NULL);
}

void rig_sessions_staged(uint64_t version, uint64_t first, uint64_t staged)
{
    list_sessions(version, first, &staged);
}

void rig_consistency(enum ps_gate_mode mode, uint32_t bound, bool aggregate)
{
    struct ps_lane_update *news = rig_news();
    news->has_consistency = true;
    news->gate_mode = mode;
    news->gate_bound = bound;
    news->aggregate = aggregate;
    PS_ASSERT(rig_send() == PS_OK);
}

void rig_close_step(uint64_t step, const struct ps_close_entry *entries, uint32_t n)
{
    struct ps_lane_update *news = rig_news();
    news->has_close = true;
    news->close = (struct ps_record_close){.step = step, .entries = entries, .n_entries = n};
    news->min_clock = step; /* The clock itself rises with a later message. */
    PS_ASSERT(rig_send() == PS_OK);
}

/* ---- Calls ---------------------------------------------------------------------------------- */

struct ps_data_request *rig_request(uint64_t session)
{
    memset(&rig.request, 0, sizeof(rig.request));
    rig.request.session.bytes[0] = (uint8_t)session;
    rig.request.session_number = session;
    rig.request.generation = RIG_GENERATION;
    rig.request.rate = 0.5f;
    rig.request.rows = 8;
    return &rig.request;
}

/* Slot s < 3 holds block s of `weights`, slot 3 the block of `bias`. */
static struct ps_part part_of(uint32_t slot)
{
    return slot < 3 ? (struct ps_part){.table = RIG_WEIGHTS, .block = slot}
                    : (struct ps_part){.table = RIG_BIAS};
}

static uint32_t floats_of(uint32_t slot)
{
    static const uint32_t floats[RIG_SLOTS] = {RIG_BLOCK, RIG_BLOCK, RIG_LAST, RIG_N_BIAS};
    return floats[slot];
}

static struct ps_part *add_slot(struct ps_share *share, uint32_t slot)
{
    share->slots[share->n_slots++] = (struct ps_slot_part){.slot = slot,
                                                           .n_fragments = 1,
                                                           .first_part = share->n_parts,
                                                           .n_parts = 1,
                                                           .epoch = RIG_EPOCH};
    struct ps_part *part = &share->parts[share->n_parts++];
    *part = part_of(slot);
    return part;
}

void rig_add_push(uint64_t stream, uint64_t sequence, uint32_t slots)
{
    rig.request.stream = stream;
    rig.request.sequence = sequence;
    for (uint32_t s = 0; s < RIG_SLOTS; s++) {
        if ((slots >> s & 1) != 0) {
            struct ps_part *part = add_slot(&rig.request.push, s);
            part->dtype = PS_DTYPE_F32;
            part->n_bytes = floats_of(s) * (uint32_t)sizeof(float);
            rig.request.n_payload_bytes += part->n_bytes;
        }
    }
}

void rig_add_pull(uint64_t step, uint32_t slots)
{
    rig.request.pull_step = step;
    for (uint32_t s = 0; s < RIG_SLOTS; s++) {
        if ((slots >> s & 1) != 0) {
            (void)add_slot(&rig.request.pull, s);
        }
    }
}

size_t rig_write(uint8_t *to)
{
    size_t n = ps_data_request_write(&rig.request, to, PS_HEAD_BYTES_MAX);
    PS_ASSERT(n > 0);
    size_t n_left = rig.request.n_payload_bytes;
    for (uint32_t i = 0; i < rig.request.push.n_slots && n_left > 0; i++) {
        uint32_t slot = rig.request.push.slots[i].slot % RIG_SLOTS;
        size_t n_bytes = floats_of(slot) * sizeof(float);
        n_bytes = n_bytes < n_left ? n_bytes : n_left;
        memcpy(to + n, rig.gradients + (slot < 3 ? slot * RIG_BLOCK : RIG_N_WEIGHTS), n_bytes);
        n += n_bytes;
        n_left -= n_bytes;
    }
    return n + n_left;
}

struct fake_call *rig_deliver_to(const char *method, const struct ps_slice *slices, size_t n_slices)
{
    struct fake_call *call = fake_call_create(slices, n_slices);
    for (uint32_t i = 0; i < PS_SVC_DATA_METHODS; i++) {
        if (strcmp(rig.methods[i].path, method) == 0) {
            rig.methods[i].call(rig.methods[i].arg, fake_call_base(call));
            return call;
        }
    }
    PS_UNREACHABLE("no such method");
}

struct fake_call *rig_deliver_bytes(enum ps_data_kind kind, const struct ps_slice *slices,
                                    size_t n_slices)
{
    static const char *const paths[] = {
        [PS_DATA_PULL] = PS_METHOD_PULL,
        [PS_DATA_PUSH] = PS_METHOD_PUSH,
        [PS_DATA_PUSH_PULL] = PS_METHOD_PUSH_PULL,
    };
    return rig_deliver_to(paths[kind], slices, n_slices);
}

struct fake_call *rig_deliver(enum ps_data_kind kind)
{
    static uint8_t bytes[RIG_MSG_BYTES];
    struct ps_slice slice = {.data = bytes, .n_bytes = rig_write(bytes)};
    return rig_deliver_bytes(kind, &slice, 1);
}

enum ps_status rig_push(uint64_t session, uint64_t lease, uint64_t unit)
{
    (void)rig_request(session);
    rig_add_push(lease, unit, ALL_SLOTS);
    struct fake_call *call = rig_deliver(PS_DATA_PUSH);
    rig_pump();
    const struct ps_data_reply *reply = fake_call_reply(call);
    PS_ASSERT(reply->n_push == RIG_SLOTS);
    enum ps_status status = reply->push[0].status;
    for (uint32_t i = 0; i < RIG_SLOTS; i++) {
        PS_ASSERT(reply->push[i].status == status);
    }
    fake_call_settle(call);
    return status;
}

void rig_read(float *to)
{
    rig_request(4)->no_clock = true;
    rig_add_pull(0, ALL_SLOTS);
    struct fake_call *call = rig_deliver(PS_DATA_PULL);
    rig_pump();
    PS_ASSERT(fake_call_payload(call, to, RIG_N_BYTES) == RIG_N_BYTES);
    fake_call_settle(call);
}

void rig_gradients(uint64_t seed)
{
    struct ps_rng rng = ps_rng_from(seed);
    for (uint32_t i = 0; i < RIG_N_FLOATS; i++) {
        rig.gradients[i] = ps_rng_unit(ps_rng_next(&rng)) - 0.5f;
    }
}
