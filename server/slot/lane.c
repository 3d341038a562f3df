/* lane.c — see lane.h. A lane's life, its mail, and the tables it holds. */
#include "slot/lane.h"

#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "slot/lane_impl.h"

uint32_t ps_lane_of(uint32_t slot, uint32_t n_lanes)
{
    return (uint32_t)(ps_mix64(slot) % n_lanes);
}

bool ps_lane_mine(const struct ps_lane *lane, uint32_t slot)
{
    return ps_lane_of(slot, lane->options.n_lanes) == lane->options.index;
}

/* ---- Calls ---------------------------------------------------------------------------------- */

void ps_data_call_share_done(struct ps_data_call *call)
{
    if (atomic_fetch_sub_explicit(&call->n_pending, 1, memory_order_acq_rel) == 1) {
        call->finish(call);
    }
}

struct ps_claim ps_lane_claim(const struct ps_data_request *request,
                              const struct ps_slot_part *part)
{
    return (struct ps_claim){
        .session = request->session,
        .session_number = request->session_number,
        .epoch = part->epoch,
        .seen_epoch = part->seen_epoch,
        .seen_position = part->seen_position,
    };
}

enum ps_status ps_lane_note_lost(struct ps_lane *lane, uint32_t slot, enum ps_status status)
{
    if (status == PS_ERR_LOST) {
        atomic_store_explicit(&lane->lost_slot, slot + 1, memory_order_relaxed);
    }
    return status;
}

enum ps_status ps_lane_admit(struct ps_lane *lane, uint32_t slot, const struct ps_claim *claim)
{
    return ps_lane_note_lost(lane, slot, ps_slot_admit(lane->slots[slot], claim));
}

static void run_share(struct ps_mail *mail)
{
    struct ps_share_mail *share = PS_CONTAINER_OF(mail, struct ps_share_mail, mail);
    ps_lane_push(share->lane, share);
    ps_lane_share_waits(share->lane, share);
}

void ps_lane_post_share(struct ps_lane *lane, struct ps_share_mail *share)
{
    share->lane = lane;
    share->mail.run = run_share;
    ps_exec_post(lane->options.exec, &share->mail);
}

/* ---- Tables --------------------------------------------------------------------------------- */

bool ps_lane_holds(const struct ps_lane *lane, uint32_t slot)
{
    return lane->slots[slot] != NULL &&
           (lane->slots[slot]->primary || lane->slots[slot]->n_epochs > 0);
}

enum ps_status ps_lane_make_table(struct ps_lane *lane, uint32_t table, struct ps_error *err)
{
    const struct ps_catalogue *catalogue = lane->options.catalogue;
    const struct ps_layout *layout = &catalogue->layouts[table];
    if (catalogue->tables[table].sparse) {
        return ps_lane_rows_make(lane, table, err);
    }
    if (lane->tables[table] == NULL) {
        enum ps_status status = ps_dense_create(&catalogue->tables[table].spec, lane->options.mem,
                                                &lane->tables[table], err);
        if (status != PS_OK) {
            return status;
        }
    }
    for (uint32_t block = 0; block < layout->n_blocks; block++) {
        uint32_t slot = ps_layout_slot(layout, block);
        if (ps_lane_holds(lane, slot) && ps_dense_page(lane->tables[table], block) == NULL) {
            enum ps_status status = ps_dense_add_block(lane->tables[table], block, err);
            if (status != PS_OK) {
                return status;
            }
        }
    }
    return PS_OK;
}

void ps_lane_drop_tables(struct ps_lane *lane)
{
    ps_list_for_each_safe (node, after, &lane->staged) {
        ps_staged_free(PS_CONTAINER_OF(node, struct ps_staged, node));
    }
    for (uint32_t t = 0; t < PS_TABLES_MAX; t++) {
        ps_dense_destroy(lane->tables[t]);
        lane->tables[t] = NULL;
    }
    ps_lane_rows_drop(lane);
    lane->n_tables = 0;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void post_stopped(struct ps_lane *lane)
{
    ps_exec_post(lane->stop_home, lane->stop_done);
}

static void run_stop(struct ps_mail *mail)
{
    struct ps_lane *lane = PS_CONTAINER_OF(mail, struct ps_lane, stop_mail);
    lane->stopping = true;
    ps_lane_unpark_all(lane);
    ps_timer_stop(lane->options.exec, &lane->timer);
    post_stopped(lane);
}

static void run_end(struct ps_mail *mail)
{
    struct ps_lane *lane = PS_CONTAINER_OF(mail, struct ps_lane, stop_mail);
    PS_ASSERT(lane->stopping);
    ps_lane_pipe_end(lane);
    ps_lane_cut_cancel(lane);
    post_stopped(lane);
}

static void post_stop(struct ps_lane *lane, void (*run)(struct ps_mail *mail),
                      struct ps_mail *done_mail, struct ps_exec *home)
{
    lane->stop_done = done_mail;
    lane->stop_home = home;
    lane->stop_mail.run = run;
    ps_exec_post(lane->options.exec, &lane->stop_mail);
}

void ps_lane_post_stop(struct ps_lane *lane, struct ps_mail *done_mail, struct ps_exec *home)
{
    post_stop(lane, run_stop, done_mail, home);
}

void ps_lane_post_end(struct ps_lane *lane, struct ps_mail *done_mail, struct ps_exec *home)
{
    post_stop(lane, run_end, done_mail, home);
}

void ps_lane_commit_by(struct ps_lane *lane, struct ps_committer *committer)
{
    lane->options.committer = committer;
}

enum ps_status ps_lane_create(const struct ps_lane_options *options, struct ps_lane **ret,
                              struct ps_error *err)
{
    PS_ASSERT(options->n_lanes > 0 && options->n_lanes <= PS_LANES_MAX);
    PS_ASSERT(options->index < options->n_lanes);
    struct ps_lane *lane = ps_mem_alloc(options->mem, PS_MEM_SESSIONS, sizeof(*lane));
    if (lane == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for lane %u", options->index);
    }
    lane->options = *options;
    ps_gate_init(&lane->gate);
    lane->gate.off_by_one = options->plant == PS_SLOT_PLANT_GATE_OFF_BY_ONE;
    ps_list_init(&lane->staged);
    ps_timer_init(&lane->timer, ps_lane_look_after);
    if (!ps_lane_pipe_init(lane)) {
        ps_lane_destroy(lane);
        return ps_fail(err, PS_ERR_NOMEM, "no memory for lane %u", options->index);
    }
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        if (!ps_lane_mine(lane, s)) {
            continue;
        }
        struct slot_memory {
            struct ps_slot slot;
            struct ps_seen_stream streams[PS_SEEN_STREAMS_MAX];
        };
        struct slot_memory *memory = ps_mem_alloc(options->mem, PS_MEM_SESSIONS, sizeof(*memory));
        if (memory == NULL) {
            ps_lane_destroy(lane);
            return ps_fail(err, PS_ERR_NOMEM, "no memory for slot %u", s);
        }
        ps_slot_init(&memory->slot, s, memory->streams);
        memory->slot.plant = options->plant;
        lane->slots[s] = &memory->slot;
    }
    *ret = lane;
    return PS_OK;
}

void ps_lane_destroy(struct ps_lane *lane)
{
    if (lane == NULL) {
        return;
    }
    PS_ASSERT(lane->gate.n_parked == 0);
    ps_lane_pipe_destroy(lane);
    ps_lane_drop_tables(lane);
    ps_lane_rows_destroy(lane);
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        ps_mem_free(lane->slots[s]);
    }
    ps_mem_free(lane->state_scratch);
    ps_mem_free(lane->scratch);
    ps_mem_free(lane);
}
