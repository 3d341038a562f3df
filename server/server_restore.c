/*
 * server_restore.c — the way back: every slot of this server becomes what a snapshot says.
 *
 *   lanes are emptied ─> all that they have appended is behind them: the log says that a generation
 *   begins, and names the tables again ─> the snapshot is opened ─> each lane loads its slots
 *
 * In this order a server that ends in between is either still of the generation before, and is
 * told once more to go back, or finds in its log what to load.
 */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "obs/log.h"
#include "server_impl.h"

/* ---- Loading -------------------------------------------------------------------------------- */

struct load {
    struct ps_server *server;
    bool new_generation;
    bool has_line[PS_LANES_MAX]; /* A slot of this lane has got its line, and no tables yet. */
};

static struct ps_lane *lane_of(const struct load *load, uint32_t slot)
{
    return load->server->lanes[ps_lane_of(slot, load->server->options.n_lanes)];
}

static enum ps_status load_slot(void *arg, const struct ps_snap_slot *slot, const uint8_t *state,
                                size_t n_bytes, struct ps_error *err)
{
    struct load *load = arg;
    load->has_line[ps_lane_of(slot->slot, load->server->options.n_lanes)] = true;
    return ps_lane_restore_state(lane_of(load, slot->slot), slot->slot,
                                 (struct ps_slice){.data = state, .n_bytes = n_bytes},
                                 load->new_generation, err);
}

/* All slots come before all tables: what has a line now holds what follows. */
static enum ps_status hold_tables(struct load *load, uint32_t slot, struct ps_error *err)
{
    struct ps_server *server = load->server;
    uint32_t lane = ps_lane_of(slot, server->options.n_lanes);
    if (!load->has_line[lane]) {
        return PS_OK;
    }
    load->has_line[lane] = false;
    return ps_lane_hold_tables(server->lanes[lane], server->lasting.n_tables, err);
}

static enum ps_status load_block(void *arg, const struct ps_snap_block *block, struct ps_error *err)
{
    enum ps_status status = hold_tables(arg, block->slot, err);
    return status == PS_OK ? ps_lane_restore_block(lane_of(arg, block->slot), block->table,
                                                   block->block, &block->saved, err)
                           : status;
}

static enum ps_status load_rest(void *arg, uint32_t slot, uint32_t table,
                                const struct ps_sparse_rest *rest, uint32_t n_counts,
                                struct ps_error *err)
{
    enum ps_status status = hold_tables(arg, slot, err);
    return status == PS_OK
               ? ps_lane_restore_rest(lane_of(arg, slot), table, slot, rest, n_counts, err)
               : status;
}

/* The lane copies as many floats as its table has, so there must be as many. */
static bool row_fits(const struct load *load, const struct ps_snap_row *row)
{
    const struct ps_server *server = load->server;
    if (row->table >= server->lasting.n_tables) {
        return false;
    }
    const struct ps_table_info *info = &server->catalogue.tables[row->table];
    return info->sparse && row->width == info->rows.width &&
           row->state_per_elem == info->rows.state_per_elem &&
           (row->saved.weights != NULL || info->optim->derive != NULL);
}

static enum ps_status load_row(void *arg, const struct ps_snap_row *row, struct ps_error *err)
{
    if (!row_fits(arg, row)) {
        return ps_fail(err, PS_ERR_CORRUPT,
                       "slot %" PRIu32 ": rows of %" PRIu32
                       " floats are not those of table %" PRIu32,
                       row->slot, row->width, row->table);
    }
    return ps_lane_restore_row(lane_of(arg, row->slot), row->table, row->slot, &row->saved, err);
}

static enum ps_status load_staged(void *arg, const struct ps_record *record, struct ps_error *err)
{
    const struct load *load = arg;
    return load->new_generation ? PS_OK
                                : ps_lane_restore_staged(lane_of(load, record->slot), record, err);
}

enum ps_status server_load(struct ps_server *server, const struct ps_snap *snap, uint64_t slots,
                           bool new_generation, struct ps_error *err)
{
    struct load load = {.server = server, .new_generation = new_generation};
    struct ps_snap_visitor visitor = {.arg = &load,
                                      .slot = load_slot,
                                      .block = load_block,
                                      .rest = load_rest,
                                      .row = load_row,
                                      .staged = load_staged};
    return ps_snap_load(snap, slots, &visitor, err);
}

struct ps_snap_place server_snap_place(const struct ps_server *server, const char *dir,
                                       const char *dirs[3])
{
    const struct server_lasting *last = &server->lasting;
    const char *const all[3] = {last->snapshot_dir, last->restore_dir, dir};
    struct ps_snap_place place = {
        .disk = server->options.disk, .mem = server->options.mem, .dirs = dirs};
    for (uint32_t i = 0; i < 3; i++) {
        bool known = all[i] == NULL || all[i][0] == '\0';
        for (uint32_t j = 0; j < place.n_dirs && !known; j++) {
            known = strcmp(all[i], dirs[j]) == 0;
        }
        if (!known) {
            dirs[place.n_dirs++] = all[i];
        }
    }
    return place;
}

/*
 * The whole of it, if it is there; else our own part, if that has all our slots: servers may have
 * a directory each, and only the coordinator's has the list of all parts.
 */
enum ps_status server_snap_open(const struct ps_server *server, const struct ps_snap_place *place,
                                const struct ps_lasting_restore *order, struct ps_snap **ret,
                                struct ps_error *err)
{
    enum ps_status status = ps_snap_open(place, order->cut_generation, order->cut, ret, err);
    if (status != PS_ERR_NOT_FOUND) {
        return status;
    }
    struct ps_snap_own own = {.cluster = server->lasting.identity.cluster,
                              .generation = order->cut_generation,
                              .server = server->lasting.identity.index,
                              .below = order->cut + 1};
    struct ps_error ignored;
    if (ps_snap_open_part(place, &own, NULL, NULL, ret, &ignored) != PS_OK) {
        return status; /* That the whole is not there says more. */
    }
    if (ps_snap_part(*ret, 0)->cut == order->cut && (order->slots & ~ps_snap_slots(*ret)) == 0) {
        return PS_OK;
    }
    ps_snap_close(*ret);
    *ret = NULL;
    return status;
}

/* ---- One step after the other --------------------------------------------------------------- */

static struct ps_server *server_of(struct server_restoring *restoring)
{
    struct server_lasting *last = PS_CONTAINER_OF(restoring, struct server_lasting, restoring);
    return PS_CONTAINER_OF(last, struct ps_server, lasting);
}

static void fail(struct server_restoring *restoring, const struct ps_error *err)
{
    if (!atomic_exchange(&restoring->failed, true)) {
        restoring->err = *err;
    }
}

/* The log loses the record of it one day. Without one, what an older log has is of the former. */
static void note_generation(struct server_restoring *restoring)
{
    struct ps_server *server = server_of(restoring);
    struct server_lasting *last = &server->lasting;
    if (last->wal == NULL) {
        return;
    }
    last->identity.generation = restoring->order.generation;
    last->identity.begin = restoring->generation_logged.lsn;
    last->void_below = 0;
    struct ps_error err;
    if (ps_identity_write(server->options.disk, last->data_dir, &last->identity, &err) != PS_OK) {
        fail(restoring, &err);
    }
}

static void finish(struct server_restoring *restoring)
{
    struct ps_server *server = server_of(restoring);
    if (restoring->err.status == PS_OK) {
        note_generation(restoring);
    }
    ps_snap_close(restoring->snap);
    restoring->snap = NULL;
    restoring->busy = false;
    uint64_t ms = ps_exec_now_ms(server->options.exec) - restoring->began_ms;
    if (restoring->err.status == PS_OK) {
        ps_log(PS_LOG_INFO, "server.restored",
               "msg=\"went back to snapshot %s in %" PRIu64 ".%03" PRIu64
               " s\" generation=%" PRIu64,
               restoring->order.name, ms / 1000, ms % 1000, restoring->order.generation);
    } else {
        (void)ps_wrap(&restoring->err, restoring->err.status, "snapshot %s", restoring->order.name);
    }
    ps_attend_restored(server->attend, &restoring->err);
}

/* On each lane; the last one sends it home. */
static void lane_done(struct server_load_mail *mail, void (*run)(struct ps_mail *mail))
{
    struct server_restoring *restoring = &mail->server->lasting.restoring;
    if (atomic_fetch_sub(&restoring->n_pending, 1) == 1) {
        restoring->home.run = run;
        ps_exec_post(mail->server->options.exec, &restoring->home);
    }
}

static void post_lanes(struct server_restoring *restoring, void (*run)(struct ps_mail *mail))
{
    struct ps_server *server = server_of(restoring);
    atomic_store(&restoring->n_pending, server->options.n_lanes);
    for (uint32_t i = 0; i < server->options.n_lanes; i++) {
        restoring->lanes[i] =
            (struct server_load_mail){.mail = {.run = run}, .server = server, .lane = i};
        ps_exec_post(server->options.lanes[i], &restoring->lanes[i].mail);
    }
}

static void run_loaded(struct ps_mail *mail)
{
    finish(PS_CONTAINER_OF(mail, struct server_restoring, home));
}

static void run_load(struct ps_mail *mail)
{
    struct server_load_mail *load = PS_CONTAINER_OF(mail, struct server_load_mail, mail);
    struct ps_server *server = load->server;
    struct server_restoring *restoring = &server->lasting.restoring;
    struct ps_error err;
    uint64_t slots = 0;
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        bool mine = ps_lane_of(slot, server->options.n_lanes) == load->lane;
        slots |= (uint64_t)mine << slot;
    }
    slots &= restoring->order.slots;
    enum ps_status status = server_load(server, restoring->snap, slots, true, &err);
    if (status == PS_OK) {
        status = ps_lane_hold_tables(server->lanes[load->lane], server->lasting.n_tables, &err);
    }
    if (status != PS_OK) {
        fail(restoring, &err);
    }
    lane_done(load, run_loaded);
}

static void run_opened(struct ps_mail *mail)
{
    struct server_restoring *restoring = PS_CONTAINER_OF(mail, struct server_restoring, home);
    if (restoring->err.status != PS_OK) {
        finish(restoring);
        return;
    }
    post_lanes(restoring, run_load);
}

/* On the snapshots' executor. */
static void run_open(struct ps_mail *mail)
{
    struct server_restoring *restoring = PS_CONTAINER_OF(mail, struct server_restoring, open);
    struct ps_server *server = server_of(restoring);
    const char *dirs[3];
    struct ps_snap_place place = server_snap_place(server, restoring->order.dir, dirs);
    struct ps_error err;
    if (server_snap_open(server, &place, &restoring->order, &restoring->snap, &err) != PS_OK) {
        fail(restoring, &err);
    }
    restoring->home.run = run_opened;
    ps_exec_post(server->options.exec, &restoring->home);
}

static void open_snap(struct server_restoring *restoring)
{
    struct ps_server *server = server_of(restoring);
    atomic_store_explicit(&server->catalogue.n_tables, server->lasting.n_tables,
                          memory_order_release);
    restoring->open.run = run_open;
    ps_exec_post(server->options.snap_exec, &restoring->open);
}

static void logged(struct server_restoring *restoring, enum ps_status status)
{
    PS_ASSERT(restoring->n_logging > 0);
    if (status != PS_OK) {
        struct ps_error err;
        (void)ps_fail(&err, status, "the log does not take the new generation");
        fail(restoring, &err);
    }
    if (--restoring->n_logging > 0) {
        return;
    }
    if (restoring->err.status != PS_OK) {
        finish(restoring);
        return;
    }
    open_snap(restoring);
}

static void run_generation_logged(struct ps_mail *mail)
{
    struct ps_wal_done *done = PS_CONTAINER_OF(mail, struct ps_wal_done, mail);
    logged(PS_CONTAINER_OF(done, struct server_restoring, generation_logged), done->status);
}

static void run_table_logged(struct ps_mail *mail)
{
    struct ps_wal_done *done = PS_CONTAINER_OF(mail, struct ps_wal_done, mail);
    struct server_logging *table = PS_CONTAINER_OF(done, struct server_logging, done);
    logged(&table->server->lasting.restoring, done->status);
}

/* Nothing of the generation before can be appended any more. */
static void run_cleared(struct ps_mail *mail)
{
    struct server_restoring *restoring = PS_CONTAINER_OF(mail, struct server_restoring, home);
    struct ps_server *server = server_of(restoring);
    struct server_lasting *last = &server->lasting;
    if (last->wal == NULL) {
        open_snap(restoring);
        return;
    }
    restoring->n_logging = 1 + last->n_tables;
    restoring->generation_logged =
        (struct ps_wal_done){.mail = {.run = run_generation_logged}, .exec = server->options.exec};
    ps_wal_generation(last->wal, restoring->order.generation, restoring->order.dir,
                      restoring->order.name, &restoring->generation_logged);
    for (uint32_t i = 0; i < last->n_tables; i++) {
        restoring->tables[i] = (struct server_logging){
            .done = {.mail = {.run = run_table_logged}, .exec = server->options.exec},
            .server = server};
        ps_wal_table(last->wal, i, last->tables[i].bytes, last->tables[i].n_bytes,
                     &restoring->tables[i].done);
    }
}

static void run_clear(struct ps_mail *mail)
{
    struct server_load_mail *load = PS_CONTAINER_OF(mail, struct server_load_mail, mail);
    ps_lane_clear(load->server->lanes[load->lane]);
    lane_done(load, run_cleared);
}

enum ps_lasting_when server_restore(struct ps_server *server,
                                    const struct ps_lasting_restore *order, struct ps_error *err)
{
    struct server_lasting *last = &server->lasting;
    struct server_restoring *restoring = &last->restoring;
    PS_ASSERT(!restoring->busy);
    if (server->options.disk == NULL || server->options.snap_exec == NULL) {
        (void)ps_fail(err, PS_ERR_UNSUPPORTED, "this server has no disk to load snapshot %s from",
                      order->name);
        return PS_LASTING_NEVER;
    }
    server_cut_call_off(server);
    last->n_bases = 0; /* Their places in the log are void. */
    last->log_mark = 0;
    restoring->busy = true;
    restoring->order = *order;
    restoring->err = (struct ps_error){.status = PS_OK};
    atomic_store(&restoring->failed, false);
    restoring->began_ms = ps_exec_now_ms(server->options.exec);
    post_lanes(restoring, run_clear);
    return PS_LASTING_LATER;
}
