/* twin.c — see twin.h. */
#include "twin.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "lib/test_main.h"
#include "slot/lane_impl.h"

/* ---- Lanes ---------------------------------------------------------------------------------- */

static uint64_t twin_clock(void *arg)
{
    (void)arg;
    return rig.now_ns;
}

void twin_open(struct twin *twin, uint32_t n_lanes)
{
    memset(twin, 0, sizeof(*twin));
    ps_inline_exec_init(&twin->exec, twin_clock, NULL);
    twin->n_lanes = n_lanes;
    for (uint32_t i = 0; i < n_lanes; i++) {
        struct ps_lane_options options = {.exec = &twin->exec.base,
                                          .mem = &rig.mem,
                                          .committer = &ps_commit_at_once,
                                          .catalogue = &rig.catalogue,
                                          .index_seed = 99, /* Rows lie elsewhere. */
                                          .index = i,
                                          .n_lanes = n_lanes,
                                          .plant = rig.plant};
        ck_assert_int_eq(ps_lane_create(&options, &twin->lanes[i], NULL), PS_OK);
    }
}

void twin_close(struct twin *twin)
{
    ps_inline_exec_pump(&twin->exec);
    for (uint32_t i = 0; i < twin->n_lanes; i++) {
        ps_lane_destroy(twin->lanes[i]);
    }
}

struct ps_lane *twin_lane(const struct twin *twin, uint32_t slot)
{
    return twin->lanes[ps_lane_of(slot, twin->n_lanes)];
}

static void hold_tables(struct twin *twin)
{
    for (uint32_t i = 0; i < twin->n_lanes; i++) {
        uint32_t n_tables = atomic_load(&rig.catalogue.n_tables);
        ck_assert_int_eq(ps_lane_hold_tables(twin->lanes[i], n_tables, NULL), PS_OK);
    }
}

/* ---- Records -------------------------------------------------------------------------------- */

/* A record with all that it points to. */
struct kept {
    struct ps_record record;
    struct ps_msg msg;
    struct ps_slice slice;
    void *list;
    void *more;
    uint8_t *bytes;
};

static struct kept **all;
static uint32_t n_all;

static void *copy_of(const void *from, size_t n_bytes)
{
    void *to = malloc(n_bytes + 1);
    PS_ASSERT(to != NULL);
    if (n_bytes > 0) {
        memcpy(to, from, n_bytes);
    }
    return to;
}

static void stay(struct ps_msg *msg)
{
    (void)msg; /* Of `all`. */
}

static void copy_push(struct kept *kept)
{
    struct ps_record_push *push = &kept->record.push;
    size_t n_bytes = push->payload.n_left;
    kept->list = copy_of(push->parts, push->n_parts * sizeof(push->parts[0]));
    kept->bytes = copy_of(NULL, 0);
    kept->bytes = realloc(kept->bytes, n_bytes + 1);
    PS_ASSERT(kept->bytes != NULL);
    struct ps_cursor payload = push->payload;
    ps_cursor_copy(&payload, kept->bytes, n_bytes);
    kept->slice = (struct ps_slice){.data = kept->bytes, .n_bytes = n_bytes};
    kept->msg.destroy = stay;
    atomic_init(&kept->msg.n_refs, 1);
    push->parts = kept->list;
    push->payload = ps_cursor_over(&kept->slice, 1);
    push->msg = &kept->msg;
}

static void keep(void *arg, const struct ps_record *record)
{
    struct kept *kept = calloc(1, sizeof(*kept));
    PS_ASSERT(kept != NULL && arg == NULL);
    kept->record = *record;
    struct ps_record *r = &kept->record;
    switch (record->kind) {
    case PS_RECORD_PUSH:
    case PS_RECORD_STAGE: copy_push(kept); break;
    case PS_RECORD_CLOSE:
        kept->list = copy_of(r->close.entries, r->close.n_entries * sizeof(r->close.entries[0]));
        r->close.entries = kept->list;
        break;
    case PS_RECORD_SESSIONS:
        kept->list =
            copy_of(r->sessions.sessions, r->sessions.n_sessions * sizeof(struct ps_open_session));
        kept->more = copy_of(r->sessions.staged, r->sessions.n_staged * sizeof(uint64_t));
        r->sessions.sessions = kept->list;
        r->sessions.staged = kept->more;
        break;
    case PS_RECORD_FINISH:
        kept->list = copy_of(r->finish.ranges, r->finish.n_ranges * sizeof(struct ps_seen_range));
        r->finish.ranges = kept->list;
        break;
    case PS_RECORD_EPOCH: break;
    }
    if ((n_all & (n_all + 1)) == 0) {
        all = realloc((void *)all, 2 * (n_all + 1) * sizeof(all[0]));
        PS_ASSERT(all != NULL);
    }
    all[n_all++] = kept;
}

void records_keep(void)
{
    n_all = 0;
    rig.committer.seen = keep;
}

uint32_t records_kept(void)
{
    return n_all;
}

struct ps_record *records_at(uint32_t nth)
{
    return &all[nth]->record;
}

void records_drop(void)
{
    for (uint32_t i = 0; i < n_all; i++) {
        PS_ASSERT(all[i]->bytes == NULL || atomic_load(&all[i]->msg.n_refs) == 1);
        free(all[i]->list);
        free(all[i]->more);
        free(all[i]->bytes);
        free(all[i]);
    }
    free((void *)all);
    all = NULL;
    n_all = 0;
}

void twin_replay(struct twin *twin, const uint64_t *positions)
{
    hold_tables(twin);
    for (uint32_t i = 0; i < n_all; i++) {
        const struct ps_record *record = &all[i]->record;
        if (positions != NULL && record->position > positions[record->slot]) {
            continue;
        }
        for (uint32_t k = 0; k < twin->n_lanes; k++) { /* All are asked: one takes it. */
            struct ps_error err = {0};
            enum ps_status status = ps_lane_replay(twin->lanes[k], record, &err);
            ck_assert_msg(status == PS_OK, "record %u: %s", i, err.text);
        }
    }
}

/* ---- Cuts ----------------------------------------------------------------------------------- */

static bool done;

static void run_done(struct ps_mail *mail)
{
    (void)mail;
    PS_ASSERT(!done);
    done = true;
}

static struct ps_cut *post(struct ps_lane *const *lanes, uint32_t n_lanes)
{
    static struct ps_mail mail;
    mail.run = run_done;
    done = false;
    struct ps_cut *cut = ps_cut_create(&rig.mem);
    ck_assert_ptr_nonnull(cut);
    atomic_init(&cut->n_pending, n_lanes);
    cut->done = &mail;
    cut->home = &rig.home.base;
    for (uint32_t i = 0; i < n_lanes; i++) {
        ps_lane_post_cut(lanes[i], cut);
    }
    return cut;
}

struct ps_cut *cut_post(void)
{
    return post(rig.svc.lanes, rig.svc.n_lanes);
}

bool cut_done(void)
{
    return done;
}

struct ps_cut *cut_of_rig(void)
{
    struct ps_cut *cut = cut_post();
    rig_pump();
    ck_assert(done);
    ck_assert_int_eq(atomic_load(&cut->status), PS_OK);
    return cut;
}

/* Nobody has placed a twin's slots: they are its own for the moment. */
struct ps_cut *cut_of_twin(struct twin *twin)
{
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        struct ps_slot *slot = twin_lane(twin, s)->slots[s];
        slot->primary = slot->n_epochs > 0;
    }
    struct ps_cut *cut = post(twin->lanes, twin->n_lanes);
    ps_inline_exec_pump(&twin->exec);
    ps_inline_exec_pump(&rig.home);
    ck_assert(done);
    ck_assert_int_eq(atomic_load(&cut->status), PS_OK);
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        twin_lane(twin, s)->slots[s]->primary = false;
    }
    return cut;
}

static void restore_rows(struct ps_lane *lane, uint32_t slot, const struct ps_cut_rows *rows)
{
    ck_assert_int_eq(
        ps_lane_restore_rest(lane, rows->table, slot, &rows->rest, rows->n_counts, NULL), PS_OK);
    if (rows->view->order == NULL) {
        ck_assert(ps_sparse_view_order(rows->view, false));
    }
    for (uint64_t i = rows->view->n_rows; i > 0; i--) {
        struct ps_sparse_row row = ps_sparse_view_row(rows->view, i - 1);
        ck_assert_int_eq(ps_lane_restore_row(lane, rows->table, slot, &row, NULL), PS_OK);
    }
}

static void restore_slot(struct ps_lane *lane, uint32_t slot, const struct ps_slot_cut *cut,
                         bool new_generation)
{
    for (uint32_t i = 0; i < cut->n_blocks; i++) {
        const struct ps_page *page = cut->blocks[i].page;
        struct ps_dense_saved saved = {.weights = page->weights,
                                       .state = page->state,
                                       .n = page->n,
                                       .version = page->version,
                                       .t = page->t,
                                       .power = {page->power[0], page->power[1]}};
        ck_assert_int_eq(
            ps_lane_restore_block(lane, cut->blocks[i].table, cut->blocks[i].block, &saved, NULL),
            PS_OK);
    }
    for (uint32_t i = 0; i < cut->n_rows; i++) {
        restore_rows(lane, slot, &cut->rows[i]);
    }
    for (uint32_t i = 0; i < cut->n_staged && !new_generation; i++) {
        ck_assert_int_eq(ps_lane_restore_staged(lane, &cut->staged[i], NULL), PS_OK);
    }
}

void twin_restore(struct twin *twin, const struct ps_cut *cut, bool new_generation)
{
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        const struct ps_slot_cut *slot = &cut->slots[s];
        struct ps_slice state = {.data = slot->state, .n_bytes = slot->n_state_bytes};
        struct ps_error err = {0};
        if (slot->taken) {
            ck_assert_msg(
                ps_lane_restore_state(twin_lane(twin, s), s, state, new_generation, &err) == PS_OK,
                "%s", err.text);
        }
    }
    hold_tables(twin);
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        restore_slot(twin_lane(twin, s), s, &cut->slots[s], new_generation);
    }
}

/* ---- Comparing ------------------------------------------------------------------------------ */

static void expect_blocks(const struct ps_slot_cut *a, const struct ps_slot_cut *b)
{
    ck_assert_uint_eq(a->n_blocks, b->n_blocks);
    for (uint32_t i = 0; i < a->n_blocks; i++) {
        const struct ps_cut_block *x = &a->blocks[i];
        const struct ps_cut_block *y = &b->blocks[i];
        uint32_t n_state = rig.catalogue.tables[x->table].spec.state_per_elem * x->page->n;
        ck_assert_uint_eq(x->table, y->table);
        ck_assert_uint_eq(x->block, y->block);
        ck_assert_uint_eq(x->page->n, y->page->n);
        ck_assert_uint_eq(x->page->version, y->page->version);
        ck_assert_uint_eq(x->page->t, y->page->t);
        ck_assert_mem_eq(x->page->power, y->page->power, sizeof(x->page->power));
        ck_assert_mem_eq(x->page->weights, y->page->weights, x->page->n * sizeof(float));
        if (n_state > 0) {
            ck_assert_mem_eq(x->page->state, y->page->state, n_state * sizeof(float));
        }
    }
}

static void expect_views(struct ps_sparse_view *a, struct ps_sparse_view *b)
{
    if (a->order == NULL) {
        ck_assert(ps_sparse_view_order(a, false));
    }
    if (b->order == NULL) {
        ck_assert(ps_sparse_view_order(b, false));
    }
    ck_assert_uint_eq(a->n_rows, b->n_rows);
    size_t n_bytes = a->shape.width * sizeof(float);
    for (uint64_t i = 0; i < a->n_rows; i++) {
        struct ps_sparse_row x = ps_sparse_view_row(a, i);
        struct ps_sparse_row y = ps_sparse_view_row(b, i);
        ck_assert_uint_eq(x.key, y.key);
        ck_assert_uint_eq(x.t, y.t);
        ck_assert_uint_eq(x.touched, y.touched);
        ck_assert_mem_eq(x.weights, y.weights, n_bytes);
        if (a->shape.state_per_elem > 0) {
            ck_assert_mem_eq(x.state, y.state, a->shape.state_per_elem * n_bytes);
        }
    }
}

static void expect_rows(const struct ps_slot_cut *a, const struct ps_slot_cut *b)
{
    ck_assert_uint_eq(a->n_rows, b->n_rows);
    for (uint32_t i = 0; i < a->n_rows; i++) {
        const struct ps_cut_rows *x = &a->rows[i];
        const struct ps_cut_rows *y = &b->rows[i];
        ck_assert_uint_eq(x->table, y->table);
        ck_assert_uint_eq(x->rest.clock, y->rest.clock);
        ck_assert(x->rest.rate == y->rest.rate);
        ck_assert_uint_eq(x->rest.aged, y->rest.aged);
        ck_assert_uint_eq(x->n_counts, y->n_counts);
        if (x->n_counts > 0) {
            ck_assert_mem_eq(x->counts, y->counts, x->n_counts);
        }
        expect_views(x->view, y->view);
    }
}

static void expect_staged(const struct ps_slot_cut *a, const struct ps_slot_cut *b)
{
    ck_assert_uint_eq(a->n_staged, b->n_staged);
    for (uint32_t i = 0; i < a->n_staged; i++) {
        const struct ps_record *x = &a->staged[i];
        const struct ps_record *y = &b->staged[i];
        ck_assert_uint_eq(x->position, y->position);
        ck_assert_uint_eq(x->epoch, y->epoch);
        ck_assert_uint_eq(x->push.session, y->push.session);
        ck_assert_uint_eq(x->push.step, y->push.step);
        ck_assert_mem_eq(&x->push.item, &y->push.item, sizeof(x->push.item));
        ck_assert_uint_eq(x->push.n_parts, y->push.n_parts);
        ck_assert_uint_eq(x->push.payload.n_left, y->push.payload.n_left);
    }
}

void cut_expect_equal(struct ps_cut *a, struct ps_cut *b)
{
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        struct ps_slot_cut *x = &a->slots[s];
        struct ps_slot_cut *y = &b->slots[s];
        ck_assert_int_eq(x->taken, y->taken);
        ck_assert_uint_eq(x->epoch, y->epoch);
        ck_assert_uint_eq(x->position, y->position);
        ck_assert_uint_eq(x->n_state_bytes, y->n_state_bytes);
        if (x->taken) {
            ck_assert_mem_eq(x->state, y->state, x->n_state_bytes);
        }
        expect_blocks(x, y);
        expect_rows(x, y);
        expect_staged(x, y);
    }
}
