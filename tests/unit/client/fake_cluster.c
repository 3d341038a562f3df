/* fake_cluster.c — see fake_cluster.h. */
#include "fake_cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/attr.h"
#include "cluster/keys.h"
#include "coordinator.pb-c.h"
#include "wire/keys.h"
#include "wire/scan_msg.h"

static struct ps_data_request request;
static struct ps_data_reply reply;

static void answer_message(struct fake_call *call, const ProtobufCMessage *message)
{
    size_t n_bytes = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(n_bytes + 1);
    PS_ASSERT(bytes != NULL);
    (void)protobuf_c_message_pack(message, bytes);
    fake_answer(call, PS_OK, bytes, n_bytes);
    free(bytes);
}

static uint8_t *flatten(const struct ps_msg *msg)
{
    uint8_t *bytes = malloc(msg->n_bytes + 1);
    PS_ASSERT(bytes != NULL);
    struct ps_cursor c = ps_cursor_over(msg->slices, msg->n_slices);
    ps_cursor_copy(&c, bytes, msg->n_bytes);
    return bytes;
}

/* ---- Coordinator --------------------------------------------------------------------------- */

struct placement {
    Ps__V1__Placement message;
    Ps__V1__Server servers[PS_SERVERS_MAX];
    Ps__V1__Server *pointers[PS_SERVERS_MAX];
};

static void fill_placement(struct fake_cluster *cluster, struct placement *to)
{
    ps__v1__placement__init(&to->message);
    to->message.version = cluster->placement_version;
    for (uint32_t i = 0; i < cluster->n_servers; i++) {
        ps__v1__server__init(&to->servers[i]);
        to->servers[i].index = i;
        to->servers[i].address = cluster->addresses[i];
        to->servers[i].live = true;
        to->pointers[i] = &to->servers[i];
    }
    to->message.n_servers = cluster->n_servers;
    to->message.servers = to->pointers;
    to->message.n_primary = PS_SLOTS;
    to->message.primary = cluster->primary;
    to->message.n_epoch = PS_SLOTS;
    to->message.epoch = cluster->epoch;
}

struct catalogue {
    Ps__V1__Catalogue message;
    Ps__V1__Table tables[FAKE_TABLES_MAX];
    Ps__V1__TableDefinition definitions[FAKE_TABLES_MAX];
    uint64_t shapes[FAKE_TABLES_MAX];
    char names[FAKE_TABLES_MAX][PS_NAME_BYTES_MAX + 1];
    Ps__V1__Optimizer optimizer;
    char optimizer_name[8];
    Ps__V1__Table *pointers[FAKE_TABLES_MAX];
};

static void fill_catalogue(struct fake_cluster *cluster, struct catalogue *to)
{
    ps__v1__catalogue__init(&to->message);
    ps__v1__optimizer__init(&to->optimizer);
    (void)snprintf(to->optimizer_name, sizeof(to->optimizer_name), "sgd");
    to->optimizer.name = to->optimizer_name;
    for (uint32_t i = 0; i < cluster->n_tables; i++) {
        ps__v1__table__init(&to->tables[i]);
        ps__v1__table_definition__init(&to->definitions[i]);
        memcpy(to->names[i], cluster->names[i], sizeof(to->names[i]));
        if (cluster->first_letter != '\0') {
            to->names[i][0] = cluster->first_letter;
        }
        to->shapes[i] = cluster->shapes[i] + cluster->shape_off;
        to->definitions[i].name = to->names[i];
        to->definitions[i].n_shape = 1;
        to->definitions[i].shape = &to->shapes[i];
        if (cluster->widths[i] != 0) {
            to->definitions[i].kind = PS__V1__TABLE_KIND__SPARSE;
            to->definitions[i].width = cluster->widths[i];
            to->definitions[i].n_shape = 0;
        }
        to->definitions[i].optimizer = &to->optimizer;
        to->tables[i].number = i + cluster->number_off;
        to->tables[i].first_slot = cluster->layouts[i].first_slot;
        to->tables[i].definition = &to->definitions[i];
        to->pointers[i] = &to->tables[i];
    }
    to->message.version = cluster->n_tables;
    to->message.n_tables = cluster->n_tables;
    to->message.tables = to->pointers;
}

static void send_state(struct fake_cluster *cluster, bool whole, const struct fake_lease *lease)
{
    Ps__V1__AttendState state;
    ps__v1__attend_state__init(&state);
    struct placement placement;
    struct catalogue catalogue;
    Ps__V1__Consistency consistency;
    ps__v1__consistency__init(&consistency);
    Ps__V1__Lease lent;
    ps__v1__lease__init(&lent);
    state.term = cluster->term;
    state.generation = cluster->generation;
    state.min_clock = cluster->min_clock;
    state.patience_ms = cluster->patience_now_ms;
    state.hold = cluster->hold;
    if (whole) {
        fill_placement(cluster, &placement);
        fill_catalogue(cluster, &catalogue);
        consistency.version = 1;
        consistency.mode = (Ps__V1__ConsistencyMode)cluster->mode;
        consistency.bound = cluster->bound;
        consistency.aggregate = cluster->aggregate;
        state.placement = &placement.message;
        state.catalogue = &catalogue.message;
        state.consistency = &consistency;
    }
    char reason[128];
    uint8_t id[16] = {0};
    if (lease != NULL) {
        lent.id = lease->id;
        lent.units = lease->n_units;
        lent.units_done = lease->units_done;
        lent.clock = lease->clock;
        lent.epoch = lease->epoch;
        lent.first_row = lease->first_row;
        lent.unit_rows = lease->unit_rows;
        lent.stride = lease->stride;
        lent.part = lease->part;
        state.has_lease = lease->id != 0;
        state.lease = lease->id != 0 ? &lent : NULL;
        state.job = (Ps__V1__JobState)lease->job;
        state.fenced = lease->fenced;
        id[0] = lease->cluster;
        state.cluster_id = (ProtobufCBinaryData){lease->cluster != 0 ? sizeof(id) : 0, id};
        if (lease->reason != NULL) {
            (void)snprintf(reason, sizeof(reason), "%s", lease->reason);
            state.reason = reason;
        }
    }
    uint8_t bytes[16384];
    PS_ASSERT(protobuf_c_message_get_packed_size(&state.base) <= sizeof(bytes));
    size_t n_bytes = protobuf_c_message_pack(&state.base, bytes);
    fake_stream_send(&cluster->net, bytes, n_bytes);
}

void fake_state(struct fake_cluster *cluster, bool whole)
{
    send_state(cluster, whole, NULL);
}

void fake_state_lease(struct fake_cluster *cluster, const struct fake_lease *lease)
{
    send_state(cluster, false, lease);
}

static void note_worker(struct fake_cluster *cluster, const Ps__V1__WorkerReport *worker)
{
    cluster->last_staged_step = worker->staged_step;
    cluster->last_staged_rows = worker->staged_rows;
    cluster->last_loss_epoch = worker->loss_epoch;
    cluster->last_loss_sum = worker->loss_sum;
    cluster->last_loss_rows = worker->loss_rows;
    if (worker->stats != NULL) {
        cluster->last_stats = (struct ps_worker_stats){
            .units = worker->stats->units,
            .rows = worker->stats->rows,
            .busy_us = worker->stats->busy_us,
            .blocked_bound_us = worker->stats->blocked_bound_us,
            .blocked_network_us = worker->stats->blocked_network_us,
            .blocked_lease_us = worker->stats->blocked_lease_us,
            .staleness_sum = worker->stats->staleness_sum,
            .staleness_max = worker->stats->staleness_max,
        };
    }
}

static void heard(void *arg, const struct ps_msg *msg)
{
    struct fake_cluster *cluster = arg;
    uint8_t *bytes = flatten(msg);
    Ps__V1__AttendReport *report = ps__v1__attend_report__unpack(NULL, msg->n_bytes, bytes);
    PS_ASSERT(report != NULL && report->session.len == 16);
    cluster->last_term = report->term;
    if (report->worker == NULL) {
        cluster->n_hellos++;
        if (!cluster->silent) {
            fake_state(cluster, true);
        }
    } else {
        cluster->n_reports++;
        cluster->last_clock = report->worker->clock;
        cluster->last_lease = report->worker->lease;
        cluster->last_units_done = report->worker->units_done;
        cluster->last_lease_over = report->worker->lease_over;
        cluster->last_lease_rows = report->worker->lease_rows;
        cluster->last_held = report->worker->held;
        note_worker(cluster, report->worker);
    }
    ps__v1__attend_report__free_unpacked(report, NULL);
    free(bytes);
}

uint32_t fake_table(struct fake_cluster *cluster, const char *name, uint64_t n)
{
    uint32_t table = cluster->n_tables++;
    PS_ASSERT(table < FAKE_TABLES_MAX);
    struct ps_layout *layout = &cluster->layouts[table];
    uint32_t first_slot = table == 0 ? 0 : ps_layout_next_slot(&cluster->layouts[table - 1]);
    (void)snprintf(cluster->names[table], sizeof(cluster->names[table]), "%s", name);
    cluster->shapes[table] = n;
    PS_ASSERT(ps_layout_table(&n, 1, first_slot, layout, NULL) == PS_OK);
    cluster->weights[table] = calloc((size_t)n, sizeof(float));
    PS_ASSERT(cluster->weights[table] != NULL);
    return table;
}

static void define_table(struct fake_cluster *cluster, struct fake_call *call)
{
    uint8_t *bytes = flatten(call->msg);
    Ps__V1__DefineTableRequest *define =
        ps__v1__define_table_request__unpack(NULL, call->msg->n_bytes, bytes);
    PS_ASSERT(define != NULL && define->definition != NULL);
    const Ps__V1__Optimizer *optimizer = define->definition->optimizer;
    (void)snprintf(cluster->optimizer, sizeof(cluster->optimizer), "%s", optimizer->name);
    cluster->beta1 = optimizer->beta1;
    cluster->beta2 = optimizer->beta2;
    cluster->epsilon = optimizer->epsilon;
    uint64_t n = 1;
    for (size_t i = 0; i < define->definition->n_shape; i++) {
        n *= define->definition->shape[i];
    }
    uint32_t table = 0;
    while (table < cluster->n_tables &&
           strcmp(cluster->names[table], define->definition->name) != 0) {
        table++;
    }
    if (table == cluster->n_tables) {
        (void)fake_table(cluster, define->definition->name, n);
        cluster->widths[table] = define->definition->width;
        if (define->definition->width != 0) { /* No blocks, and no place among them. */
            cluster->layouts[table] = (struct ps_layout){0};
        }
    }
    struct catalogue catalogue;
    fill_catalogue(cluster, &catalogue);
    Ps__V1__DefineTableReply answer;
    ps__v1__define_table_reply__init(&answer);
    answer.table = &catalogue.tables[table];
    answer_message(call, &answer.base);
    ps__v1__define_table_request__free_unpacked(define, NULL);
    free(bytes);
}

static void join(struct fake_cluster *cluster, struct fake_call *call)
{
    uint8_t *bytes = flatten(call->msg);
    Ps__V1__JoinRequest *ask = ps__v1__join_request__unpack(NULL, call->msg->n_bytes, bytes);
    PS_ASSERT(ask != NULL && ask->session.len == 16 && ask->protocol_max == PS_PROTOCOL_MAX);
    cluster->n_joins++;
    cluster->unleased = ask->unleased;
    Ps__V1__JoinReply answer;
    ps__v1__join_reply__init(&answer);
    uint8_t id[16] = {7};
    answer.protocol = (uint32_t)((int)PS_PROTOCOL_MAX + cluster->protocol_off);
    answer.cluster_id = (ProtobufCBinaryData){.len = sizeof(id), .data = id};
    answer.session_number = 5;
    answer.term = cluster->term;
    answer.generation = cluster->generation;
    answer.key_seed = FAKE_KEY_SEED;
    answer.patience_ms = cluster->patience_ms;
    answer_message(call, &answer.base);
    ps__v1__join_request__free_unpacked(ask, NULL);
    free(bytes);
}

static void describe(struct fake_cluster *cluster, struct fake_call *call)
{
    struct placement placement;
    struct catalogue catalogue;
    fill_placement(cluster, &placement);
    fill_catalogue(cluster, &catalogue);
    PS_ASSERT(cluster->n_undescribed <= cluster->n_tables);
    catalogue.message.n_tables -= cluster->n_undescribed;
    Ps__V1__DescribeReply answer;
    ps__v1__describe_reply__init(&answer);
    answer.term = cluster->term;
    answer.generation = cluster->generation;
    answer.placement = &placement.message;
    answer.catalogue = &catalogue.message;
    char name[] = "server-1";
    char state[] = "live";
    Ps__V1__ServerStats stats = PS__V1__SERVER_STATS__INIT;
    stats.copied_push_bytes = 3;
    stats.copied_pull_bytes = 4;
    Ps__V1__Member member = PS__V1__MEMBER__INIT;
    member.kind = PS__V1__SESSION_KIND__SERVER;
    member.name = name;
    member.state = state;
    member.server = &stats;
    Ps__V1__Member *members[] = {&member};
    answer.members = members;
    answer.n_members = 1;
    char model[] = "mlp";
    Ps__V1__JobDefinition job = PS__V1__JOB_DEFINITION__INIT;
    job.model = model;
    char setup[] = "{\"model\":1}";
    job.parts = 7;
    job.setup = setup;
    answer.definition = &job;
    answer.rows = 60000;
    Ps__V1__EpochProgress epoch = PS__V1__EPOCH_PROGRESS__INIT;
    Ps__V1__EpochProgress *epochs[] = {&epoch};
    epoch.leases = 7;
    epoch.leases_done = 5;
    answer.epochs = epochs;
    answer.n_epochs = 1;
    char cut_name[] = "000000-0000000002";
    char dir[] = "/snapshots";
    Ps__V1__Cut cut = PS__V1__CUT__INIT;
    Ps__V1__Cut *cuts[] = {&cut};
    cut.name = cut_name;
    cut.dir = dir;
    cut.all_held = true;
    answer.cuts = cuts;
    answer.n_cuts = 1;
    Ps__V1__Away gone = PS__V1__AWAY__INIT;
    Ps__V1__Away *away[] = {&gone};
    gone.index = 1;
    gone.address = cluster->addresses[1];
    gone.left_ms = 5000;
    answer.away = away;
    answer.n_away = 1;
    member.durability = PS__V1__DURABILITY__FSYNC;
    answer.durability = PS__V1__DURABILITY__LOG;
    answer.job = PS__V1__JOB_STATE__RUNNING;
    answer_message(call, &answer.base);
}

static void define_job(struct fake_cluster *cluster, struct fake_call *call)
{
    uint8_t *bytes = flatten(call->msg);
    Ps__V1__DefineJobRequest *define =
        ps__v1__define_job_request__unpack(NULL, call->msg->n_bytes, bytes);
    PS_ASSERT(define != NULL && define->definition != NULL);
    cluster->job_mode = (uint32_t)define->definition->consistency->mode;
    cluster->job_parts = define->definition->parts;
    cluster->setup_bytes = strlen(define->definition->setup);
    ps__v1__define_job_request__free_unpacked(define, NULL);
    free(bytes);
    Ps__V1__JobDefinition job;
    ps__v1__job_definition__init(&job);
    job.units_per_lease = 9;
    Ps__V1__DefineJobReply answer;
    ps__v1__define_job_reply__init(&answer);
    answer.definition = &job;
    answer_message(call, &answer.base);
}

static void shut_down(struct fake_cluster *cluster, struct fake_call *call)
{
    uint8_t *bytes = flatten(call->msg);
    Ps__V1__ShutdownRequest *ask =
        ps__v1__shutdown_request__unpack(NULL, call->msg->n_bytes, bytes);
    PS_ASSERT(ask != NULL);
    cluster->n_shutdowns++;
    (void)snprintf(cluster->shutdown_reason, sizeof(cluster->shutdown_reason), "%s", ask->reason);
    fake_answer(call, PS_OK, NULL, 0);
    ps__v1__shutdown_request__free_unpacked(ask, NULL);
    free(bytes);
}

/* ---- Servers ------------------------------------------------------------------------------- */

static bool apply_once(struct fake_cluster *cluster, const struct ps_slot_part *slot)
{
    struct fake_applied key = {.stream = request.stream,
                               .sequence = request.sequence,
                               .slot = slot->slot,
                               .fragment = slot->fragment};
    for (uint32_t i = 0; i < cluster->n_applied; i++) {
        if (memcmp(&cluster->applied[i], &key, sizeof(key)) == 0) {
            cluster->n_repeats++;
            return false;
        }
    }
    PS_ASSERT(cluster->n_applied < FAKE_APPLIED_MAX);
    cluster->applied[cluster->n_applied++] = key;
    cluster->position[slot->slot]++;
    return true;
}

static void note_seen(struct fake_cluster *cluster, uint32_t server, bool push,
                      const struct ps_slot_part *slot)
{
    PS_ASSERT(cluster->n_seen < FAKE_SEEN_MAX);
    cluster->seen[cluster->n_seen++] = (struct fake_seen){.call = cluster->n_data_calls,
                                                          .server = server,
                                                          .push = push,
                                                          .stream = request.stream,
                                                          .sequence = request.sequence,
                                                          .slot = *slot};
}

static enum ps_status judge(struct fake_cluster *cluster, uint32_t server,
                            const struct ps_slot_part *slot, bool push)
{
    note_seen(cluster, server, push, slot);
    if (cluster->primary[slot->slot] != server || slot->epoch != cluster->epoch[slot->slot]) {
        return PS_ERR_NOT_PRIMARY;
    }
    return cluster->judge == NULL ? PS_OK : cluster->judge(cluster, server, slot->slot, push);
}

static bool gate_open(const struct fake_cluster *cluster)
{
    return !cluster->gated || request.no_clock ||
           request.pull_step <= cluster->min_clock + cluster->bound;
}

/* ---- Rows ---------------------------------------------------------------------------------- */

struct fake_row *fake_row(struct fake_cluster *cluster, uint32_t table, uint64_t key)
{
    for (uint32_t i = 0; i < cluster->n_rows; i++) {
        if (cluster->rows[i].table == table && cluster->rows[i].key == key) {
            return &cluster->rows[i];
        }
    }
    PS_ASSERT(cluster->n_rows < FAKE_ROWS_MAX);
    cluster->rows[cluster->n_rows] = (struct fake_row){.table = table, .key = key};
    return &cluster->rows[cluster->n_rows++];
}

/* The keys of a part, which all must be of the slot. @return how many */
static uint32_t read_keys(const struct ps_part *part, uint32_t slot, struct ps_cursor *payload,
                          uint64_t keys[FAKE_ROWS_MAX])
{
    PS_ASSERT(part->n_keys <= FAKE_ROWS_MAX && part->block == 0);
    struct ps_cursor bytes = ps_cursor_split(payload, part->n_key_bytes);
    PS_ASSERT(ps_keys_read(bytes, keys, part->n_keys, NULL) == PS_OK);
    for (uint32_t i = 0; i < part->n_keys; i++) {
        PS_ASSERT(ps_keys_slot(keys[i], FAKE_KEY_SEED) == slot);
    }
    return part->n_keys;
}

static void push_rows(struct fake_cluster *cluster, const struct ps_part *part, uint32_t slot,
                      struct ps_cursor *payload, bool fresh)
{
    static uint64_t keys[FAKE_ROWS_MAX];
    uint32_t width = cluster->widths[part->table];
    PS_ASSERT(width != 0 &&
              part->n_bytes == part->n_key_bytes + part->n_keys * width * sizeof(float));
    uint32_t n = read_keys(part, slot, payload, keys);
    for (uint32_t i = 0; i < n; i++) {
        struct fake_row *row = fake_row(cluster, part->table, keys[i]);
        for (uint32_t e = 0; e < width; e++) {
            float value;
            ps_cursor_copy(payload, &value, sizeof(value));
            row->values[e] -= fresh ? value : 0.0f;
        }
    }
}

/* Appends the rows to `to`, if it is not NULL; `*keys_at` moves behind the keys. How many bytes. */
static uint32_t pull_rows(struct fake_cluster *cluster, const struct ps_part *part, uint32_t slot,
                          struct ps_cursor *keys_at, uint8_t *to)
{
    static uint64_t keys[FAKE_ROWS_MAX];
    uint32_t n_row_bytes = cluster->widths[part->table] * (uint32_t)sizeof(float);
    uint32_t n = read_keys(part, slot, keys_at, keys);
    for (uint32_t i = 0; i < n && to != NULL; i++) {
        memcpy(to + (size_t)i * n_row_bytes, fake_row(cluster, part->table, keys[i])->values,
               n_row_bytes);
    }
    return to == NULL ? 0 : n * n_row_bytes;
}

static void do_push(struct fake_cluster *cluster, uint32_t server)
{
    struct ps_cursor payload = request.payload;
    for (uint32_t i = 0; i < request.push.n_slots; i++) {
        const struct ps_slot_part *slot = &request.push.slots[i];
        enum ps_status status = judge(cluster, server, slot, true);
        bool fresh = status == PS_OK && apply_once(cluster, slot);
        for (uint32_t p = 0; p < slot->n_parts; p++) {
            const struct ps_part *part = &request.push.parts[slot->first_part + p];
            if (part->n_keys > 0) {
                push_rows(cluster, part, slot->slot, &payload, fresh);
                continue;
            }
            const struct ps_layout *layout = &cluster->layouts[part->table];
            float *weights =
                cluster->weights[part->table] + ps_layout_first_element(layout, part->block);
            PS_ASSERT(part->n_bytes == ps_layout_floats(layout, part->block) * sizeof(float));
            for (uint32_t e = 0; e < part->n_bytes / sizeof(float); e++) {
                float value;
                ps_cursor_copy(&payload, &value, sizeof(value));
                weights[e] -= fresh ? value : 0.0f;
            }
        }
        reply.push[reply.n_push++] =
            (struct ps_slot_reply){.slot = slot->slot,
                                   .status = status,
                                   .epoch = cluster->epoch[slot->slot],
                                   .position = cluster->position[slot->slot]};
    }
}

/* Appends the values to `to`; how many bytes. */
static size_t do_pull(struct fake_cluster *cluster, uint32_t server, uint8_t *to)
{
    size_t n_bytes = 0;
    struct ps_cursor keys = request.payload; /* Behind what is pushed. */
    for (uint32_t i = 0; i < request.push.n_parts; i++) {
        ps_cursor_skip(&keys, request.push.parts[i].n_bytes);
    }
    for (uint32_t i = 0; i < request.pull.n_slots; i++) {
        const struct ps_slot_part *slot = &request.pull.slots[i];
        enum ps_status status = judge(cluster, server, slot, false);
        status = status == PS_OK && !gate_open(cluster) ? PS_ERR_NOT_YET : status;
        uint32_t n_slot_bytes = 0;
        for (uint32_t p = 0; p < slot->n_parts; p++) {
            const struct ps_part *part = &request.pull.parts[slot->first_part + p];
            if (part->n_keys > 0) {
                uint8_t *at = status == PS_OK ? to + n_bytes + n_slot_bytes : NULL;
                n_slot_bytes += pull_rows(cluster, part, slot->slot, &keys, at);
            }
            if (part->n_keys > 0 || status != PS_OK) {
                continue;
            }
            const struct ps_layout *layout = &cluster->layouts[part->table];
            uint32_t n_part_bytes = ps_layout_floats(layout, part->block) * (uint32_t)sizeof(float);
            memcpy(to + n_bytes + n_slot_bytes,
                   cluster->weights[part->table] + ps_layout_first_element(layout, part->block),
                   n_part_bytes);
            n_slot_bytes += n_part_bytes;
        }
        n_bytes += n_slot_bytes;
        reply.pull[reply.n_pull++] =
            (struct ps_slot_reply){.slot = slot->slot,
                                   .status = status,
                                   .epoch = cluster->epoch[slot->slot],
                                   .position = cluster->position[slot->slot],
                                   .n_bytes = n_slot_bytes};
    }
    return n_bytes;
}

/* ---- Scans --------------------------------------------------------------------------------- */

struct found {
    uint64_t keys[FAKE_SCAN_STEP];
    float values[FAKE_SCAN_STEP][FAKE_WIDTH_MAX];
    uint32_t n;
};

/* Keep what was found in the order of keys. */
static void add_found(struct found *found, const struct fake_row *row)
{
    uint32_t at = found->n++;
    for (; at > 0 && found->keys[at - 1] > row->key; at--) {
        found->keys[at] = found->keys[at - 1];
        memcpy(found->values[at], found->values[at - 1], sizeof(row->values));
    }
    found->keys[at] = row->key;
    memcpy(found->values[at], row->values, sizeof(row->values));
}

static bool all_zero(const struct fake_row *row, uint32_t width)
{
    bool zero = true;
    for (uint32_t e = 0; e < width; e++) {
        zero = zero && row->values[e] == 0.0f;
    }
    return zero;
}

/* Rows from `cursor` on, at most `n_max` of them; where to go on. Some first steps find none. */
static uint64_t look_for(const struct fake_cluster *cluster, const struct ps_scan_request *ask,
                         uint32_t n_max, struct found *ret)
{
    uint64_t at = ask->cursor;
    uint64_t end = at == 0 && ask->slot % 8 == 0 && cluster->n_rows > 1 ? 1 : cluster->n_rows;
    uint32_t width = cluster->widths[ask->table];
    n_max = n_max < FAKE_SCAN_STEP ? n_max : FAKE_SCAN_STEP;
    for (; at < end && ret->n < n_max; at++) {
        const struct fake_row *row = &cluster->rows[at];
        if (row->table == ask->table && ps_keys_slot(row->key, FAKE_KEY_SEED) == ask->slot &&
            !(ask->skip_zeros && all_zero(row, width))) {
            add_found(ret, row);
        }
    }
    return at;
}

/* Something is wrong with an answer. */
static void lie(enum fake_scan_lie what, const struct ps_scan_request *ask, struct found *found,
                struct ps_scan_reply *answer)
{
    if (what == SCAN_OTHER_SLOT || what == SCAN_TOO_MANY) {
        found->n = what == SCAN_TOO_MANY ? FAKE_SCAN_STEP : 1;
        for (uint32_t i = 0; i < found->n; i++) {
            found->keys[i] = i == 0 ? 0 : found->keys[i - 1] + 1;
            while ((ps_keys_slot(found->keys[i], FAKE_KEY_SEED) == ask->slot) !=
                   (what == SCAN_TOO_MANY)) {
                found->keys[i]++;
            }
        }
    } else if (what == SCAN_STANDS) {
        answer->cursor = ask->cursor;
        answer->done = false;
    }
}

static void serve_scan(struct fake_cluster *cluster, struct fake_call *call, uint32_t server,
                       bool lose)
{
    static uint8_t bytes[PS_SCAN_HEAD_BYTES_MAX + sizeof(struct found) + 100];
    static uint8_t payload[sizeof(struct found) + 100];
    struct ps_scan_request ask;
    struct ps_cursor c = ps_cursor_over(call->msg->slices, call->msg->n_slices);
    PS_ASSERT(ps_scan_request_read(c, &ask, NULL) == PS_OK);
    PS_ASSERT(ask.session_number == 5 && ask.table < cluster->n_tables && ask.slot < PS_SLOTS);
    uint32_t width = cluster->widths[ask.table];
    struct ps_slot_part slot = {.slot = ask.slot, .epoch = ask.epoch};
    struct ps_scan_reply answer = {.status = judge(cluster, server, &slot, false),
                                   .term = cluster->term,
                                   .min_clock = cluster->min_clock,
                                   .retry_ms = cluster->retry_ms,
                                   .epoch = cluster->epoch[ask.slot],
                                   .position = cluster->position[ask.slot]};
    struct found found = {.n = 0};
    cluster->n_scan_calls++;
    if (answer.status == PS_OK) {
        answer.cursor = look_for(cluster, &ask, ask.max_bytes / ps_scan_row_bytes(width), &found);
        answer.done = answer.cursor >= cluster->n_rows;
        lie(cluster->scan_lie, &ask, &found, &answer);
        answer.n_keys = found.n;
        answer.n_key_bytes = (uint32_t)ps_keys_write(found.keys, found.n, payload, sizeof(payload));
        answer.n_payload_bytes = answer.n_key_bytes;
        for (uint32_t i = 0; i < found.n; i++) {
            memcpy(payload + answer.n_payload_bytes, found.values[i], width * sizeof(float));
            answer.n_payload_bytes += width * sizeof(float);
        }
        answer.n_payload_bytes -= cluster->scan_lie == SCAN_SHORT && found.n > 0 ? 1 : 0;
        if (cluster->scan_lie == SCAN_DOUBLED && found.n > 0) {
            payload[0] = 0x80; /* Not the shortest form of anything. */
            payload[1] = 0;
        }
    }
    size_t n_head = ps_scan_reply_write(&answer, bytes, PS_SCAN_HEAD_BYTES_MAX);
    memcpy(bytes + n_head, payload, (size_t)answer.n_payload_bytes);
    if (!lose) {
        fake_answer(call, PS_OK, bytes, n_head + (size_t)answer.n_payload_bytes);
    }
}

static void serve(struct fake_cluster *cluster, struct fake_call *call, bool lose)
{
    uint32_t server = (uint32_t)strtoul(call->address + strlen("server-"), NULL, 10);
    struct ps_cursor c = ps_cursor_over(call->msg->slices, call->msg->n_slices);
    struct ps_error err = {0};
    if (strcmp(call->request->method, PS_METHOD_SCAN) == 0) {
        serve_scan(cluster, call, server, lose);
        return;
    }
    PS_ASSERT(call->msg->n_bytes <= PS_MESSAGE_BYTES_MAX);
    PS_ASSERT(ps_data_request_read(c, &request, &err) == PS_OK);
    PS_ASSERT(request.session_number == 5 && request.generation == cluster->generation);
    reply = (struct ps_data_reply){
        .term = cluster->term, .min_clock = cluster->min_clock, .retry_ms = cluster->retry_ms};
    uint8_t *payload = malloc(PS_MESSAGE_BYTES_MAX);
    uint8_t *bytes = malloc(PS_MESSAGE_BYTES_MAX + PS_HEAD_BYTES_MAX);
    PS_ASSERT(payload != NULL && bytes != NULL);
    enum ps_data_kind kind = PS_DATA_PUSH_PULL;
    if (strcmp(call->request->method, PS_METHOD_PUSH) == 0) {
        kind = PS_DATA_PUSH;
        cluster->n_push_calls++;
    } else if (strcmp(call->request->method, PS_METHOD_PULL) == 0) {
        kind = PS_DATA_PULL;
        cluster->n_pull_calls++;
    } else {
        cluster->n_both_calls++;
    }
    do_push(cluster, server);
    reply.n_payload_bytes = do_pull(cluster, server, payload);
    size_t n_head = ps_data_reply_write(&reply, kind, bytes, PS_HEAD_BYTES_MAX);
    memcpy(bytes + n_head, payload, (size_t)reply.n_payload_bytes);
    if (!lose) {
        fake_answer(call, PS_OK, bytes, n_head + (size_t)reply.n_payload_bytes);
    }
    free(payload);
    free(bytes);
}

static void answer_nonsense(struct fake_call *call)
{
    reply = (struct ps_data_reply){.n_push = 1, .push = {{.slot = 63}, {.slot = 63}}};
    uint8_t bytes[256];
    size_t n_bytes = ps_data_reply_write(&reply, PS_DATA_PUSH, bytes, sizeof(bytes));
    fake_answer(call, PS_OK, bytes, n_bytes);
}

static void handle_data(struct fake_cluster *cluster, struct fake_call *call)
{
    uint32_t server = (uint32_t)strtoul(call->address + strlen("server-"), NULL, 10);
    enum fake_fate fate = cluster->fate == NULL ? FATE_ANSWER : cluster->fate(cluster, server);
    fate = strcmp(call->address, cluster->addresses[server]) == 0 ? fate : FATE_LOSE_REQUEST;
    cluster->n_data_calls++;
    switch (fate) {
    case FATE_ANSWER: serve(cluster, call, false); break;
    case FATE_LOSE_REQUEST: break;
    case FATE_LOSE_REPLY: serve(cluster, call, true); break;
    case FATE_REFUSE:
        call->request->retry_ms = cluster->retry_ms;
        fake_answer(call, cluster->refusal, NULL, 0);
        break;
    case FATE_HOLD: cluster->held[cluster->n_held++] = call; break;
    case FATE_NONSENSE: answer_nonsense(call); break;
    case FATE_NOTHING: fake_answer(call, PS_OK, (const uint8_t *)"", 0); break;
    }
}

void fake_release(struct fake_cluster *cluster, uint32_t index)
{
    serve(cluster, cluster->held[index], false);
}

static void handle(void *arg, struct fake_call *call)
{
    struct fake_cluster *cluster = arg;
    const char *method = call->request->method;
    const char *verb = strrchr(method, '/') + 1;
    if (strstr(method, "ParameterServer") != NULL) {
        handle_data(cluster, call);
    } else if (cluster->silent) {
        return;
    } else if (strcmp(verb, "Join") == 0) {
        join(cluster, call);
    } else if (strcmp(verb, "DefineTable") == 0) {
        define_table(cluster, call);
    } else if (strcmp(verb, "DefineJob") == 0) {
        define_job(cluster, call);
    } else if (strcmp(verb, "Shutdown") == 0) {
        shut_down(cluster, call);
    } else if (strcmp(verb, "Describe") == 0) {
        describe(cluster, call);
    } else {
        PS_ASSERT(strcmp(verb, "Leave") == 0);
        cluster->n_leaves++;
        fake_answer(call, PS_OK, NULL, 0);
    }
}

struct fake_cluster *fake_cluster_create(uint32_t n_servers)
{
    struct fake_cluster *cluster = calloc(1, sizeof(*cluster));
    PS_ASSERT(cluster != NULL);
    fake_transport_init(&cluster->net);
    cluster->net.handle = handle;
    cluster->net.heard = heard;
    cluster->net.arg = cluster;
    cluster->n_servers = n_servers;
    cluster->term = 1;
    for (uint32_t i = 0; i < n_servers; i++) {
        (void)snprintf(cluster->addresses[i], FAKE_ADDRESS_BYTES, "server-%u:1", i);
    }
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        cluster->primary[slot] = slot % n_servers;
        cluster->epoch[slot] = 1;
    }
    return cluster;
}

void fake_cluster_destroy(struct fake_cluster *cluster)
{
    fake_transport_deinit(&cluster->net);
    for (uint32_t i = 0; i < cluster->n_tables; i++) {
        free(cluster->weights[i]);
    }
    free(cluster);
}
