/*
 * test_life.c — the shell over the death of its coordinator, servers that return, cuts and the way
 * back: what is told, what is refused, and how often the store is written.
 */
#include <stdio.h>
#include <string.h>

#include "coord_rig.h"

static struct rig rig;
static struct rig_call call;
static struct rig_disk disk;
static char sgd[] = "sgd";
static char words[] = "words";

/* ---- A keeper of cuts in memory ------------------------------------------------------------ */

struct keeper {
    struct ps_cut_keeper base;
    struct ps_cut_found cuts[8];
    uint32_t n;
    bool full;
    uint32_t n_kept; /* So often it was told to make room. */
};

static struct keeper keeper;

static enum ps_status give(const struct ps_cut_found *from, struct ps_cut_found *ret)
{
    *ret = *from;
    ret->job = ps_mem_alloc(NULL, PS_MEM_OTHER, from->n_job_bytes);
    memcpy(ret->job, from->job, from->n_job_bytes);
    return PS_OK;
}

static enum ps_status keep_finish(struct ps_cut_keeper *base, const struct ps_cut_whole *whole,
                                  struct ps_cut_found *ret, struct ps_error *err)
{
    (void)base;
    if (keeper.full) {
        return ps_fail(err, PS_ERR_NO_SPACE, "the disk is full");
    }
    ck_assert_uint_lt(keeper.n, 8);
    struct ps_cut_found *cut = &keeper.cuts[keeper.n++];
    *cut = (struct ps_cut_found){.generation = whole->generation, .cut = whole->cut};
    (void)snprintf(cut->name, sizeof(cut->name), "%06u-%010u", (unsigned)whole->generation,
                   (unsigned)whole->cut);
    (void)snprintf(cut->dir, sizeof(cut->dir), "/snaps");
    for (uint32_t i = 0; i < whole->n_parts; i++) {
        cut->n_bytes += whole->parts[i].n_bytes;
    }
    cut->n_job_bytes = whole->n_job_bytes;
    cut->job = ps_mem_alloc(NULL, PS_MEM_OTHER, whole->n_job_bytes);
    memcpy(cut->job, whole->job, whole->n_job_bytes);
    *ret = *cut;
    ret->job = NULL;
    return PS_OK;
}

static enum ps_status keep_find(struct ps_cut_keeper *base, uint64_t generation, uint64_t number,
                                struct ps_cut_found *ret, struct ps_error *err)
{
    (void)base;
    for (uint32_t i = 0; i < keeper.n; i++) {
        if (keeper.cuts[i].generation == generation && keeper.cuts[i].cut == number) {
            return give(&keeper.cuts[i], ret);
        }
    }
    return ps_fail(err, PS_ERR_NOT_FOUND, "there is no such cut");
}

static enum ps_status keep_newest(struct ps_cut_keeper *base, const char *dir,
                                  struct ps_cut_found *ret, struct ps_error *err)
{
    (void)base;
    (void)dir;
    return keeper.n > 0 ? give(&keeper.cuts[keeper.n - 1], ret)
                        : ps_fail(err, PS_ERR_NOT_FOUND, "no complete snapshot");
}

static enum ps_status keep_keep(struct ps_cut_keeper *base, struct ps_cut_kept *kept,
                                struct ps_error *err)
{
    (void)base;
    (void)err;
    keeper.n_kept++;
    kept->oldest_generation = keeper.cuts[0].generation;
    kept->oldest_cut = keeper.cuts[0].cut;
    return PS_OK;
}

/* ---- A cluster ----------------------------------------------------------------------------- */

static void setup(bool cuts)
{
    static const struct ps_cut_keeper_ops ops = {
        .finish = keep_finish, .find = keep_find, .newest = keep_newest, .keep = keep_keep};
    keeper = (struct keeper){.base = {.ops = &ops}};
    rig_setup.durable = true;
    rig_setup.keeper = cuts ? &keeper.base : NULL;
}

static void end(void)
{
    rig_stop(&rig);
    for (uint32_t i = 0; i < keeper.n; i++) {
        ps_mem_free(keeper.cuts[i].job);
    }
    keeper.n = 0;
}

static void define(void)
{
    static uint64_t shape[1] = {1000};
    Ps__V1__Optimizer optimizer = PS__V1__OPTIMIZER__INIT;
    Ps__V1__TableDefinition table = PS__V1__TABLE_DEFINITION__INIT;
    Ps__V1__Consistency consistency = PS__V1__CONSISTENCY__INIT;
    Ps__V1__JobDefinition job = PS__V1__JOB_DEFINITION__INIT;
    optimizer.name = sgd;
    table.name = words;
    table.n_shape = 1;
    table.shape = shape;
    table.optimizer = &optimizer;
    consistency.mode = PS__V1__CONSISTENCY_MODE__SSP;
    consistency.bound = 1;
    job.model = words;
    job.data = words;
    job.rows = 40;
    job.batch = 5;
    job.epochs = 1;
    job.workers = 2;
    job.units_per_lease = 2;
    job.consistency = &consistency;
    ck_assert_int_eq(rig_define_table(&rig, &rig.members[2], &table, &call), PS_OK);
    rig_call_free(&call);
    ck_assert_int_eq(rig_define_job(&rig, &rig.members[2], &job, &call), PS_OK);
    rig_call_free(&call);
    ps_inline_exec_pump(&rig.exec);
}

/* Two servers, two workers with leases 1 and 2 of four. */
static void begin(bool cuts)
{
    setup(cuts);
    rig_disk_init(&disk);
    rig_start(&rig, ps_store_file_create(NULL, &disk.base, "coord.state"), 2);
    rig_cluster(&rig, 2);
    define();
    ck_assert_uint_eq(rig.members[2].lease, 1);
    ck_assert_uint_eq(rig.members[3].lease, 2);
}

static void report(struct rig_member *member, uint64_t clock, uint64_t lease, uint32_t units_done)
{
    Ps__V1__WorkerReport progress = PS__V1__WORKER_REPORT__INIT;
    progress.clock = clock;
    progress.lease = lease;
    progress.units_done = units_done;
    rig_report(member, &progress);
    ps_inline_exec_pump(&rig.exec);
}

static void attend_again(uint32_t first, uint32_t end_)
{
    for (uint32_t i = first; i < end_; i++) {
        rig.members[i].closed = false;
        rig_attend(&rig.members[i]);
    }
}

static uint64_t writes(void)
{
    struct ps_store_stamp stamp;
    struct ps_error err;
    ck_assert_int_eq(ps_store_stamp(rig.store, &stamp, &err), PS_OK);
    return stamp.version;
}

/* ---- Takeover ------------------------------------------------------------------------------ */

START_TEST(a_new_coordinator_goes_on_with_everybody)
{
    begin(false);
    report(&rig.members[2], 2, 1, 2); /* Lease 1 is finished; 3 is lent. */
    report(&rig.members[3], 1, 2, 1);
    ck_assert_uint_eq(rig.members[2].lease, 3);
    report(&rig.members[2], 3, 3, 1);
    rig_pass(&rig, 300);
    uint64_t min_clock = rig.members[2].min_clock;
    ck_assert_uint_eq(min_clock, 1);
    rig_takeover(&rig, 2);
    attend_again(0, 3);
    rig_pass(&rig, 500);
    ck_assert_uint_eq(rig.members[2].term, 2);
    ck_assert(!rig.members[2].fenced);
    ck_assert_uint_eq(rig.members[2].lease, 3); /* Its own, as before. */
    ck_assert_uint_eq(rig.members[2].lease_clock, 2);
    report(&rig.members[2], 4, 3, 2); /* Finished; but nothing is lent as long as 3 is silent. */
    rig_pass(&rig, 500);
    ck_assert_uint_eq(rig.members[2].lease, 0);
    ck_assert_uint_le(rig.members[2].min_clock, min_clock);
    attend_again(3, 4);
    ck_assert_uint_eq(rig.members[3].lease, 2);
    report(&rig.members[3], 1, 2, 1);
    rig_pass(&rig, 300);
    ck_assert_uint_eq(rig.members[2].lease, 4);
    ck_assert_uint_eq(rig.members[3].min_clock, 1);
    report(&rig.members[3], 2, 2, 2);
    report(&rig.members[2], rig.members[2].lease_clock + 2, 4, 2);
    rig_pass(&rig, 300);
    Ps__V1__DescribeReply *all = rig_describe(&rig, &call);
    ck_assert_int_eq(all->job, PS__V1__JOB_STATE__DONE);
    ck_assert_uint_eq(all->rows_trained_min, 1);
    ck_assert_uint_eq(all->rows_trained_max, 1);
    ck_assert_uint_eq(all->steps, 8);
    ck_assert_uint_eq(all->catalogue->n_tables, 1);
    ck_assert_int_eq(all->durability, PS__V1__DURABILITY__LOG);
    rig_call_free(&call);
    end();
}
END_TEST

/* Its tables are gone with it, and others will have their numbers. */
START_TEST(a_coordinator_that_comes_back_with_nothing_begins_another_generation)
{
    rig_setup.durable = false;
    rig_setup.keeper = NULL;
    rig_disk_init(&disk);
    rig_start(&rig, ps_store_file_create(NULL, &disk.base, "coord.state"), 2);
    rig_cluster(&rig, 1);
    ck_assert_uint_eq(rig.members[2].generation, 1);
    ck_assert_uint_eq(rig.members[2].patience_ms, PS_PATIENCE_MS); /* There is no way back. */
    rig_takeover(&rig, 2);
    for (uint32_t i = 0; i < 3; i++) {
        rig.members[i].closed = false;
        rig_attend(&rig.members[i]);
        ck_assert(rig.members[i].fenced);
        ck_assert_uint_eq(rig.members[i].generation, 2);
        ck_assert_ptr_nonnull(strstr(rig.members[i].reason, "not known"));
        rig_break(&rig.members[i]);
    }
    rig.n_members = 0;
    rig_cluster(&rig, 1);
    ck_assert_uint_eq(rig.members[2].generation, 2);
    rig_takeover(&rig, 2);
    ck_assert_uint_eq(rig_describe(&rig, &call)->generation, 3);
    rig_call_free(&call);
    rig_stop(&rig);
}
END_TEST

START_TEST(a_worker_that_does_not_come_back_is_closed_and_its_lease_passes)
{
    begin(false);
    rig_takeover(&rig, 2);
    attend_again(0, 3);
    report(&rig.members[2], 2, 1, 2);
    for (uint32_t i = 0; i < 12; i++) {
        rig_pass(&rig, 500);
        for (uint32_t k = 0; k < 3; k++) {
            rig_report(&rig.members[k], NULL);
        }
    }
    rig_pass(&rig, 100);
    ck_assert_uint_eq(rig.members[2].lease, 2); /* The other one's. */
    end();
}
END_TEST

START_TEST(a_store_of_another_number_of_servers_is_refused)
{
    begin(false);
    ps_coord_stop(rig.coord);
    struct ps_coord_options options = {
        .exec = &rig.exec.base, .store = rig.store, .new_cluster_id = {{1}}, .n_servers = 3};
    struct ps_coord *coord = NULL;
    struct ps_error err;
    ck_assert_int_eq(ps_coord_create(&options, &coord, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "2 servers"));
    end();
}
END_TEST

static uint64_t no_time(void *arg)
{
    (void)arg;
    return 1000000000;
}

START_TEST(every_damaged_byte_of_a_state_is_read_or_refused)
{
    begin(true);
    report(&rig.members[2], 2, 1, 2);
    rig_pass(&rig, 300);
    uint8_t *good = NULL;
    size_t n = 0;
    struct ps_store_stamp stamp;
    struct ps_error err;
    ck_assert_int_eq(ps_store_load(rig.store, &good, &n, &stamp, &err), PS_OK);
    for (size_t i = 4; i < n; i++) {
        good[i] ^= (uint8_t)(1u << (i % 8));
        struct ps_store *store = ps_store_memory_create(NULL);
        struct ps_store_stamp none = {0};
        ck_assert_int_eq(ps_store_write(store, &none, 1, good, n, &err), PS_OK);
        struct ps_inline_exec exec;
        ps_inline_exec_init(&exec, no_time, NULL);
        struct ps_coord_options options = {
            .exec = &exec.base, .store = store, .new_cluster_id = {{1}}, .n_servers = 2};
        struct ps_coord *coord = NULL;
        if (ps_coord_create(&options, &coord, &err) == PS_OK) {
            ps_coord_stop(coord);
            ps_inline_exec_pump(&exec);
            ps_coord_destroy(coord);
        }
        ps_store_destroy(store);
        good[i] ^= (uint8_t)(1u << (i % 8));
    }
    ps_mem_free(good);
    end();
}
END_TEST

START_TEST(a_server_that_returns_elsewhere_is_placed_again)
{
    begin(false);
    uint64_t placement = rig.members[2].placement;
    rig_break(&rig.members[1]);
    rig_pass(&rig, 1500);
    Ps__V1__DescribeReply *all = rig_describe(&rig, &call);
    ck_assert_uint_eq(all->n_away, 1);
    ck_assert_uint_eq(all->away[0]->index, 1);
    ck_assert_uint_gt(all->away[0]->left_ms, 15000);
    rig_call_free(&call);
    ck_assert_int_eq(rig_rejoin(&rig.members[1]), PS_OK);
    ck_assert_uint_eq(rig.members[2].placement, placement + 1);
    ck_assert_int_eq(ps_coord_job_state(rig.coord), PS_COORD_RUNNING);
    end();
}
END_TEST

START_TEST(a_full_disk_holds_up_what_is_told_and_no_more)
{
    begin(false);
    disk.full = true;
    report(&rig.members[2], 2, 1, 2);
    rig_pass(&rig, 1000);
    ck_assert_uint_eq(rig.members[2].lease, 1); /* The finish is not durable, so nobody hears. */
    ck_assert_int_eq(ps_coord_job_state(rig.coord), PS_COORD_RUNNING);
    disk.full = false;
    rig_pass(&rig, 300);
    ck_assert_uint_eq(rig.members[2].lease, 3);
    end();
}
END_TEST

START_TEST(a_coordinator_that_was_followed_stops_though_it_has_nothing_to_write)
{
    struct ps_store_stamp stamp;
    struct ps_error err;
    uint8_t *data = NULL;
    size_t n = 0;
    begin(false);
    ck_assert_int_eq(ps_store_load(rig.store, &data, &n, &stamp, &err), PS_OK);
    ck_assert_int_eq(ps_store_write(rig.store, &stamp, 9, data, n, &err), PS_OK);
    ps_mem_free(data);
    for (uint32_t i = 0; i < 3; i++) {
        rig_pass(&rig, 500);
        rig_report(&rig.members[0], NULL);
    }
    ck_assert_int_eq(ps_coord_job_state(rig.coord), PS_COORD_STOPPED);
    end();
}
END_TEST

/* ---- Cuts ---------------------------------------------------------------------------------- */

static enum ps_status snapshot(void)
{
    Ps__V1__SnapshotRequest request = PS__V1__SNAPSHOT_REQUEST__INIT;
    rig_call_start(&rig, &call, "/ps.v1.Coordinator/Snapshot", &request.base,
                   &ps__v1__snapshot_reply__descriptor);
    rig_pass(&rig, 300);
    return call.done ? call.request.err.status : PS_ERR_NOT_YET;
}

START_TEST(a_snapshot_is_answered_when_it_is_complete)
{
    begin(true);
    report(&rig.members[2], 1, 1, 1);
    ck_assert_int_eq(snapshot(), PS_OK);
    const Ps__V1__Cut *cut = ((const Ps__V1__SnapshotReply *)call.reply)->cut;
    ck_assert_str_eq(cut->name, "000001-0000000001");
    ck_assert_uint_eq(cut->bytes, 200);
    ck_assert(cut->all_held);
    rig_call_free(&call);
    rig_pass(&rig, 300);
    ck_assert_uint_eq(rig.members[0].kept, 1);
    ck_assert_uint_eq(rig.members[2].hold, 0);
    ck_assert_uint_eq(rig.members[2].patience_ms, 20000 + PS_PATIENCE_MORE_MS);
    ck_assert_uint_eq(keeper.n, 1);
    Ps__V1__DescribeReply *all = rig_describe(&rig, &call);
    ck_assert_uint_eq(all->n_cuts, 1);
    ck_assert_str_eq(all->cuts[0]->dir, "/snaps");
    rig_call_free(&call);
    keeper.full = true;
    uint32_t n_kept = keeper.n_kept;
    ck_assert_int_eq(snapshot(), PS_ERR_UNAVAIL);
    ck_assert_ptr_nonnull(strstr(call.request.err.text, "the disk is full"));
    rig_pass(&rig, 300);
    ck_assert_uint_eq(keeper.n_kept, n_kept + 1); /* What was written for it lies there. */
    ck_assert_uint_eq(keeper.n, 1);
    keeper.full = false;
    ck_assert_int_eq(snapshot(), PS_OK);
    ck_assert_str_eq(((const Ps__V1__SnapshotReply *)call.reply)->cut->name, "000001-0000000003");
    rig_call_free(&call);
    end();
}
END_TEST

START_TEST(without_a_directory_there_are_no_snapshots)
{
    begin(false);
    ck_assert_int_eq(snapshot(), PS_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(call.request.err.text, "--snapshot-dir"));
    end();
}
END_TEST

/* A server loses its data: the whole job is back at the cut, after one write. */
static uint64_t lose_data(void)
{
    begin(true);
    report(&rig.members[2], 2, 1, 2);
    ck_assert_int_eq(snapshot(), PS_OK);
    rig_call_free(&call);
    report(&rig.members[2], 4, 3, 2); /* After the cut: void. */
    rig_pass(&rig, 300);
    ck_assert_uint_eq(rig.members[2].lease, 4);
    for (uint32_t i = 0; i < 2; i++) {
        rig.members[i].slow = true;
    }
    rig_break(&rig.members[1]);
    rig_pass(&rig, 1500);
    rig.members[1].position = 0;
    uint64_t before = writes();
    ck_assert_int_eq(rig_rejoin(&rig.members[1]), PS_OK);
    return writes() - before;
}

START_TEST(data_lost_takes_the_whole_job_back_in_one_write)
{
    ck_assert_uint_eq(lose_data(), 1);
    ck_assert_int_eq(ps_coord_job_state(rig.coord), PS_COORD_RESTORING);
    ck_assert(rig.members[2].fenced && rig.members[3].fenced);
    ck_assert_ptr_nonnull(strstr(rig.members[2].reason, "went back"));
    ck_assert_uint_eq(rig.members[0].restore, 2);
    rig_takeover(&rig, 2); /* The store names the cut: whoever coordinates, it is loaded. */
    ck_assert_int_eq(ps_coord_job_state(rig.coord), PS_COORD_RESTORING);
    for (uint32_t i = 0; i < 2; i++) {
        rig.members[i].slow = false;
    }
    attend_again(0, 2);
    rig_pass(&rig, 300);
    ck_assert_int_eq(ps_coord_job_state(rig.coord), PS_COORD_RUNNING);
    struct rig_member *worker = NULL;
    ck_assert_int_eq(rig_join(&rig, PS__V1__SESSION_KIND__WORKER, &worker), PS_OK);
    rig_attend(worker);
    rig_pass(&rig, 100);
    ck_assert_uint_eq(worker->lease, 2); /* 1 was finished then, 3 was not. */
    ck_assert_uint_eq(worker->generation, 2);
    Ps__V1__DescribeReply *all = rig_describe(&rig, &call);
    ck_assert_uint_eq(all->steps, 2);
    rig_call_free(&call);
    end();
}
END_TEST

/* Both are heard before anything follows from either. */
START_TEST(a_job_that_is_stopped_when_data_are_lost_does_not_go_back)
{
    begin(true);
    ck_assert_int_eq(snapshot(), PS_OK);
    rig_call_free(&call);
    rig.members[1].lost_slot = 2;
    rig_report(&rig.members[1], NULL);
    Ps__V1__ShutdownRequest request = PS__V1__SHUTDOWN_REQUEST__INIT;
    rig_call_start(&rig, &call, "/ps.v1.Coordinator/Shutdown", &request.base,
                   &ps__v1__shutdown_reply__descriptor);
    rig_pass(&rig, 100);
    ck_assert(call.done);
    ck_assert_int_eq(call.request.err.status, PS_OK);
    rig_call_free(&call);
    ck_assert_int_eq(ps_coord_job_state(rig.coord), PS_COORD_STOPPED);
    end();
}
END_TEST

START_TEST(a_cut_that_a_server_cannot_load_is_not_tried_for_ever)
{
    (void)lose_data();
    enum ps_status status = PS_OK;
    uint32_t n = 0;
    while (status == PS_OK && n < 100) {
        ck_assert_int_eq(ps_coord_job_state(rig.coord), PS_COORD_RESTORING);
        rig_break(&rig.members[1]);
        status = rig_rejoin(&rig.members[1]);
        n++;
        if (ps_coord_job_state(rig.coord) == PS_COORD_LOST) {
            break;
        }
    }
    ck_assert_uint_eq(n, PS_LOAD_TRIES_MAX);
    ck_assert_ptr_nonnull(strstr(ps_coord_reason(rig.coord), "snapshot 000001-0000000001"));
    end();
}
END_TEST

#ifdef PS_PLANT
START_TEST(a_planted_second_write_is_found)
{
    rig_setup.plant = PS_COORD_PLANT_RESTORE_TWO_WRITES;
    ck_assert_uint_ne(lose_data(), 1);
    end();
}
END_TEST
#endif

static enum ps_status restore(char *name)
{
    Ps__V1__RestoreRequest request = PS__V1__RESTORE_REQUEST__INIT;
    request.cut = name;
    rig_call_start(&rig, &call, "/ps.v1.Coordinator/Restore", &request.base,
                   &ps__v1__restore_reply__descriptor);
    rig_pass(&rig, 300);
    return call.done ? call.request.err.status : PS_ERR_NOT_YET;
}

START_TEST(a_restore_goes_where_it_is_asked_to)
{
    static char nothing[] = "", bad[] = "yesterday", unknown[] = "000007-0000000001",
                first[] = "000001-0000000001";
    begin(true);
    ck_assert_int_eq(restore(nothing), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(snapshot(), PS_OK);
    rig_call_free(&call);
    report(&rig.members[2], 2, 1, 2);
    ck_assert_int_eq(snapshot(), PS_OK);
    rig_call_free(&call);
    ck_assert_int_eq(restore(bad), PS_ERR_INVALID);
    ck_assert_int_eq(restore(unknown), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(restore(first), PS_OK);
    ck_assert_uint_eq(((const Ps__V1__RestoreReply *)call.reply)->generation, 2);
    rig_call_free(&call);
    Ps__V1__DescribeReply *all = rig_describe(&rig, &call);
    ck_assert_uint_eq(all->steps, 0);
    rig_call_free(&call);
    /* From here on "the latest" is what this generation stands on, not what was given up. */
    ck_assert_int_eq(restore(nothing), PS_OK);
    ck_assert_str_eq(((const Ps__V1__RestoreReply *)call.reply)->cut->name, first);
    rig_call_free(&call);
    end();
}
END_TEST

/* Its sums are right, and what it says is not. */
static void spoil_job(struct ps_cut_found *cut)
{
    Ps__V1__CutState *state = ps__v1__cut_state__unpack(NULL, cut->n_job_bytes, cut->job);
    ck_assert_ptr_nonnull(state);
    ps__v1__consistency__free_unpacked(state->definition->consistency, NULL);
    state->definition->consistency = NULL;
    cut->n_job_bytes = ps__v1__cut_state__pack(state, cut->job);
    ps__v1__cut_state__free_unpacked(state, NULL);
}

START_TEST(a_cut_with_a_job_that_cannot_be_is_refused)
{
    static char name[] = "000001-0000000001";
    begin(true);
    ck_assert_int_eq(snapshot(), PS_OK);
    rig_call_free(&call);
    spoil_job(&keeper.cuts[0]);
    ck_assert_int_eq(restore(name), PS_ERR_CORRUPT);
    rig_call_free(&call);
    ck_assert_int_eq(ps_coord_job_state(rig.coord), PS_COORD_RUNNING);
    end();
}
END_TEST

START_TEST(a_cluster_of_another_size_begins_with_a_snapshot)
{
    begin(true);
    report(&rig.members[2], 2, 1, 2);
    ck_assert_int_eq(snapshot(), PS_OK);
    rig_call_free(&call);
    uint64_t placement = rig.members[0].placement;
    uint64_t sessions = rig.members[0].sessions;
    rig_stop(&rig);
    rig_setup.restore_dir = "/snaps";
    rig_start(&rig, ps_store_memory_create(NULL), 3);
    ck_assert_int_eq(ps_coord_job_state(rig.coord), PS_COORD_RESTORING);
    struct rig_member *member = NULL;
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(rig_join(&rig, PS__V1__SESSION_KIND__SERVER, &member), PS_OK);
        ck_assert_uint_eq(member->key_seed, 1000); /* The cut's. */
        rig_attend(member);
    }
    rig_pass(&rig, 300);
    ck_assert_uint_eq(member->loaded, 2);
    ck_assert_uint_gt(member->placement, placement);
    ck_assert_int_eq(ps_coord_job_state(rig.coord), PS_COORD_RUNNING);
    ck_assert_int_eq(rig_join(&rig, PS__V1__SESSION_KIND__WORKER, &member), PS_OK);
    rig_attend(member);
    ck_assert_uint_eq(member->lease, 2);
    ck_assert_uint_gt(rig.members[0].sessions, sessions);
    end();
}
END_TEST

/* Every allocation may fail: it waits, or gives up in words, and leaks nothing. */
START_TEST(memory_may_run_out_over_cut_and_return)
{
    for (int64_t k = 0; k < 40; k++) {
        begin(true);
        atomic_store(&rig.mem.fail_after, k);
        enum ps_status status = snapshot();
        atomic_store(&rig.mem.fail_after, -1);
        rig_pass(&rig, 2100);
        ck_assert(call.done);
        if (call.reply != NULL) {
            rig_call_free(&call);
        }
        (void)status;
        end();
    }
}
END_TEST

Suite *suite_life(void)
{
    Suite *suite = suite_create("life");
    TCase *tcase = tcase_create("life");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_new_coordinator_goes_on_with_everybody);
    tcase_add_test(tcase, a_coordinator_that_comes_back_with_nothing_begins_another_generation);
    tcase_add_test(tcase, a_worker_that_does_not_come_back_is_closed_and_its_lease_passes);
    tcase_add_test(tcase, a_store_of_another_number_of_servers_is_refused);
    tcase_add_test(tcase, every_damaged_byte_of_a_state_is_read_or_refused);
    tcase_add_test(tcase, a_server_that_returns_elsewhere_is_placed_again);
    tcase_add_test(tcase, a_full_disk_holds_up_what_is_told_and_no_more);
    tcase_add_test(tcase, a_coordinator_that_was_followed_stops_though_it_has_nothing_to_write);
    tcase_add_test(tcase, a_snapshot_is_answered_when_it_is_complete);
    tcase_add_test(tcase, without_a_directory_there_are_no_snapshots);
    tcase_add_test(tcase, data_lost_takes_the_whole_job_back_in_one_write);
#ifdef PS_PLANT
    tcase_add_test(tcase, a_planted_second_write_is_found);
#endif
    tcase_add_test(tcase, a_job_that_is_stopped_when_data_are_lost_does_not_go_back);
    tcase_add_test(tcase, a_cut_that_a_server_cannot_load_is_not_tried_for_ever);
    tcase_add_test(tcase, a_restore_goes_where_it_is_asked_to);
    tcase_add_test(tcase, a_cut_with_a_job_that_cannot_be_is_refused);
    tcase_add_test(tcase, a_cluster_of_another_size_begins_with_a_snapshot);
    tcase_add_test(tcase, memory_may_run_out_over_cut_and_return);
    suite_add_tcase(suite, tcase);
    return suite;
}
