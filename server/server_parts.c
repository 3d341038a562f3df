/* server_parts.c — the parts of a server, made one by one. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator.pb-c.h"
#include "server_impl.h"
#include "snap/keeper.h"
#include "svc/table_def.h"

static const char *const served_names[SERVED_COUNT] = {
    [SERVED_ALL] = "",
    [SERVED_DATA] = "ps.v1.ParameterServer",
    [SERVED_COORD] = "ps.v1.Coordinator",
};

static enum ps_slot_plant slot_plant(enum ps_plant plant)
{
    static const enum ps_slot_plant plants[PS_PLANT_SERVERS_END] = {
        [PS_PLANT_GATE_OFF_BY_ONE] = PS_SLOT_PLANT_GATE_OFF_BY_ONE,
        [PS_PLANT_DEDUPE_OFF] = PS_SLOT_PLANT_DEDUPE_OFF,
        [PS_PLANT_REPEAT_BEFORE_DURABLE] = PS_SLOT_PLANT_REPEAT_BEFORE_DURABLE,
        [PS_PLANT_SESSIONS_NOT_IN_CUT] = PS_SLOT_PLANT_SESSIONS_NOT_IN_CUT,
        [PS_PLANT_SESSIONS_NOT_REPLAYED] = PS_SLOT_PLANT_SESSIONS_NOT_REPLAYED,
        [PS_PLANT_DEDUPE_WITHOUT_STREAM] = PS_SLOT_PLANT_DEDUPE_WITHOUT_STREAM,
        [PS_PLANT_HALF_APPLIED] = PS_SLOT_PLANT_HALF_APPLIED,
        [PS_PLANT_FENCE_AT_APPLIED] = PS_SLOT_PLANT_FENCE_AT_APPLIED,
        [PS_PLANT_STREAM_FORGOTTEN] = PS_SLOT_PLANT_STREAM_FORGOTTEN,
    };
    return plant < PS_PLANT_SERVERS_END ? plants[plant] : PS_SLOT_PLANT_NONE;
}

enum ps_status server_make_lanes(struct ps_server *server, struct ps_error *err)
{
    const struct ps_server_options *options = &server->options;
    for (uint32_t i = 0; i < options->n_lanes; i++) {
        struct ps_lane_options lane = {
            .exec = options->lanes[i],
            .mem = options->mem,
            .metrics = options->metrics,
            .committer = &ps_commit_at_once,
            .catalogue = &server->catalogue,
            .index_seed = options->index_seed,
            .index = i,
            .n_lanes = options->n_lanes,
            .plant = slot_plant(options->plant),
        };
        enum ps_status status = ps_lane_create(&lane, &server->lanes[i], err);
        if (status != PS_OK) {
            return status;
        }
        server->svc.lanes[i] = server->lanes[i];
    }
    server->svc.ledger = ps_ledger_create(options->mem, &options->limits);
    if (server->svc.ledger == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the ledger of calls");
    }
    server->svc.mem = options->mem;
    server->svc.metrics = options->metrics;
    server->svc.exec = options->exec;
    server->svc.catalogue = &server->catalogue;
    server->svc.n_lanes = options->n_lanes;
    /* The listener opens before attending begins: who calls in between must wait, too. */
    atomic_store_explicit(&server->svc.unplaced, true, memory_order_relaxed);
    return PS_OK;
}

/* The coordinator's file lies in the data directory; without one it is in memory. */
static struct ps_store *make_store(const struct ps_server_options *options, struct ps_error *err)
{
    struct ps_store *store;
    if (options->data_dir == NULL) {
        store = ps_store_memory_create(options->mem);
    } else {
        char path[PS_DIR_BYTES_MAX + sizeof("/coordinator")];
        int n = snprintf(path, sizeof(path), "%s/coordinator", options->data_dir);
        PS_ASSERT(n > 0 && (size_t)n < sizeof(path)); /* server_check_words. */
        if (ps_disk_make_dir(options->disk, options->data_dir, err) != PS_OK) {
            return NULL;
        }
        store = ps_store_file_create(options->mem, options->disk, path);
    }
    if (store == NULL) {
        (void)ps_fail(err, PS_ERR_NOMEM, "no memory for the coordinator's store");
    }
    return store;
}

/* Cuts become complete, and are found again, in a directory of the coordinator's. */
static enum ps_status make_keeper(struct ps_server *server, struct ps_error *err)
{
    const struct ps_server_options *options = &server->options;
    if (options->snapshot_dir == NULL && options->restore_dir == NULL) {
        return PS_OK;
    }
    struct ps_snap_keeper_options keeper = {
        .disk = options->disk,
        .mem = options->mem,
        .dir = options->snapshot_dir != NULL ? options->snapshot_dir : options->restore_dir,
        .also = options->restore_dir,
        .n_keep = options->snapshot_keep,
        .wall_ms = options->wall_ms,
    };
    return ps_snap_keeper_create(&keeper, &server->keeper, err);
}

static enum ps_coord_plant coord_plant(enum ps_plant plant)
{
    switch ((int)plant) {
    case PS_PLANT_DEAD_IN_MINIMUM: return PS_COORD_PLANT_DEAD_IN_MINIMUM;
    case PS_PLANT_PROGRESS_AFTER_CUT: return PS_COORD_PLANT_PROGRESS_AFTER_CUT;
    case PS_PLANT_TAKEOVER_CLOCKS: return PS_COORD_PLANT_TAKEOVER_CLOCKS;
    case PS_PLANT_TAKEOVER_LENDS: return PS_COORD_PLANT_TAKEOVER_LENDS;
    case PS_PLANT_RESTORE_TWO_WRITES: return PS_COORD_PLANT_RESTORE_TWO_WRITES;
    case PS_PLANT_EPOCH_KEPT: return PS_COORD_PLANT_EPOCH_KEPT;
    default: return PS_COORD_PLANT_NONE;
    }
}

/* The coordinator cannot make its changes durable: the process ends, as with a failed log. */
static void store_failed(void *arg, const struct ps_error *err)
{
    struct ps_server *server = arg;
    if (server->attend != NULL) {
        ps_attend_broke(server->attend, err);
    }
}

enum ps_status server_make_coord(struct ps_server *server, struct ps_error *err)
{
    const struct ps_server_options *options = &server->options;
    server->store = make_store(options, err);
    if (server->store == NULL) {
        return err->status;
    }
    enum ps_status status = make_keeper(server, err);
    if (status != PS_OK) {
        return status;
    }
    uint32_t every_ms =
        (uint32_t)(options->snapshot_every_ms < UINT32_MAX ? options->snapshot_every_ms
                                                           : UINT32_MAX);
    struct ps_coord_options coord = {
        .exec = options->exec,
        .mem = options->mem,
        .metrics = options->metrics,
        .store = server->store,
        .new_cluster_id = options->new_cluster_id,
        .new_key_seed = options->new_key_seed,
        .n_servers = options->n_servers,
        .grace_ms = options->grace_ms,
        .silence_ms = options->silence_ms,
        .check_table = ps_table_def_check,
        .durable = options->durability != PS_DURABILITY_MEMORY,
        .wait_ms = options->wait_ms,
        .keeper = server->keeper,
        .snapshot_every_ms = options->snapshot_dir != NULL ? every_ms : 0,
        .restore_dir = options->restore_dir,
        .failed = store_failed,
        .arg = server,
        .plant = coord_plant(options->plant),
    };
    return ps_coord_create(&coord, &server->coord, err);
}

enum ps_status server_make_health(struct ps_server *server, struct ps_error *err)
{
    struct ps_health_options options = {
        .exec = server->options.exec,
        .mem = server->options.mem,
        .services = served_names,
        .n_services = server->coord != NULL ? SERVED_COUNT : SERVED_COORD,
    };
    enum ps_status status = ps_health_create(&options, &server->health, err);
    if (status == PS_OK && server->coord != NULL) { /* It lets members in from the start. */
        ps_health_set(server->health, SERVED_COORD, true);
    }
    return status;
}

enum ps_status server_open_listener(struct ps_server *server, struct ps_error *err)
{
    const struct ps_server_options *options = &server->options;
    uint32_t n_methods = PS_SVC_DATA_METHODS;
    ps_svc_data_methods(&server->svc, server->methods);
    if (server->coord != NULL) {
        ps_coord_methods(server->coord, server->methods + n_methods);
        n_methods += PS_COORD_METHODS;
    }
    if (options->snapshot_dir != NULL) {
        server->parts = (struct ps_svc_part){.exec = options->snap_exec,
                                             .mem = options->mem,
                                             .metrics = options->metrics,
                                             .disk = options->disk,
                                             .dir = server->lasting.snapshot_dir};
        ps_svc_part_methods(&server->parts, server->methods + n_methods);
        n_methods += PS_SVC_PART_METHODS;
    }
    ps_health_methods(server->health, server->methods + n_methods);
    n_methods += PS_HEALTH_METHODS;
    ps_reflection_methods(&server->reflection, server->methods + n_methods);
    n_methods += PS_REFLECTION_METHODS;
    server->reflection.mem = options->mem;
    server->reflection.methods = server->methods;
    server->reflection.n_methods = n_methods; /* What follows is answered, but not served here. */
    if (server->coord == NULL) {
        memcpy(server->coordinator, options->coordinator, strlen(options->coordinator) + 1);
        server->elsewhere.coordinator = server->coordinator;
        ps_svc_elsewhere_methods(&server->elsewhere, server->methods + n_methods);
        n_methods += PS_SVC_ELSEWHERE_METHODS;
    }
    PS_ASSERT(n_methods <= PS_SERVER_METHODS_MAX);
    return ps_listener_open(options->transport,
                            &(struct ps_service){.address = options->listen,
                                                 .creds = options->creds,
                                                 .methods = server->methods,
                                                 .n_methods = n_methods},
                            &server->listener, err);
}

enum ps_status server_check_words(const struct ps_server_options *options, struct ps_error *err)
{
    const struct {
        const char *what, *text;
        size_t n_bytes_max;
    } words[] = {
        {"coordinator's address", options->coordinator, PS_ADDRESS_BYTES_MAX},
        {"advertised address", options->advertise, PS_ADDRESS_BYTES_MAX},
        {"name", options->name, PS_NAME_BYTES_MAX},
        {"data directory", options->data_dir, PS_DIR_BYTES_MAX},
        {"snapshot directory", options->snapshot_dir, PS_DIR_BYTES_MAX + sizeof("/snapshots")},
        {"directory to restore from", options->restore_dir, PS_DIR_BYTES_MAX},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(words); i++) {
        size_t n_bytes = words[i].text == NULL ? 1 : strlen(words[i].text);
        if (n_bytes == 0 || n_bytes > words[i].n_bytes_max) {
            return ps_fail(err, PS_ERR_INVALID, "the %s must have 1 to %zu bytes, got %zu",
                           words[i].what, words[i].n_bytes_max, n_bytes);
        }
    }
    return PS_OK;
}

/* What others dial: as advertised, where port 0 is the port that is served. */
static enum ps_status find_address(struct ps_server *server, struct ps_error *err)
{
    const char *served = ps_listener_address(server->listener);
    const char *advertise = server->options.advertise;
    const char *text = advertise != NULL ? advertise : served;
    size_t n_host = strlen(text);
    const char *port = "";
    if (n_host > 2 && strcmp(text + n_host - 2, ":0") == 0 && strrchr(served, ':') != NULL) {
        n_host -= 2;
        port = strrchr(served, ':');
    }
    int n = snprintf(server->address, sizeof(server->address), "%.*s%s", (int)n_host, text, port);
    return (size_t)n < sizeof(server->address)
               ? PS_OK
               : ps_fail(err, PS_ERR_INVALID, "the advertised address is too long");
}

static uint32_t durability_on_wire(enum ps_durability durability)
{
    switch (durability) {
    case PS_DURABILITY_LOG: return PS__V1__DURABILITY__LOG;
    case PS_DURABILITY_FSYNC: return PS__V1__DURABILITY__FSYNC;
    case PS_DURABILITY_MEMORY:
    default: return PS__V1__DURABILITY__MEMORY;
    }
}

enum ps_status server_start_attending(struct ps_server *server, struct ps_error *err)
{
    const struct ps_server_options *options = &server->options;
    enum ps_status status = find_address(server, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_attend_options attend = {
        .transport = options->transport,
        .exec = options->exec,
        .mem = options->mem,
        .metrics = options->metrics,
        .creds = options->creds,
        .coordinator = options->coordinator != NULL ? options->coordinator
                                                    : ps_listener_address(server->listener),
        .address = server->address,
        .name = options->name,
        .session = options->session,
        .cluster_id = !ps_id_none(&options->cluster_id) ? options->cluster_id
                                                        : server->lasting.identity.cluster,
        .server = server->lasting.identity.server,
        .generation = server->lasting.generation,
        .durability = durability_on_wire(options->durability),
        .lasting = &server->lasting.base,
        .give_up_ms = options->give_up_ms,
        .seed = options->seed,
        .catalogue = &server->catalogue,
        .lanes = server->lanes,
        .n_lanes = options->n_lanes,
        .svc = &server->svc,
        .changed = server_attend_changed,
        .arg = server,
    };
    return ps_attend_create(&attend, &server->attend, err);
}
