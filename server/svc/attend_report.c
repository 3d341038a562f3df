/* attend_report.c — what a server tells its coordinator. */
#include "base/assert.h"
#include "svc/attend_impl.h"
#include "wire/pack.h"

/* What the ledger says at this moment, as gauges too. */
static void fill_gauges(const struct ps_attend *attend, Ps__V1__ServerStats *stats)
{
    struct ps_metrics *m = attend->options.metrics;
    const struct ps_ledger *ledger = attend->options.svc->ledger;
    stats->open_calls = atomic_load_explicit(&ledger->n_calls, memory_order_relaxed);
    stats->open_bytes = atomic_load_explicit(&ledger->bytes, memory_order_relaxed);
    stats->lent_bytes = atomic_load_explicit(&ledger->lent_bytes, memory_order_relaxed);
    ps_metric_set(m, PS_METRIC_calls_open, stats->open_calls);
    ps_metric_set(m, PS_METRIC_calls_open_bytes, stats->open_bytes);
    ps_metric_set(m, PS_METRIC_pages_lent_bytes, stats->lent_bytes);
}

static void fill_stats(const struct ps_attend *attend, Ps__V1__ServerStats *stats)
{
    const struct ps_metrics *m = attend->options.metrics;
    if (m == NULL) {
        return;
    }
    fill_gauges(attend, stats);
    stats->pushes = ps_metric_get(m, PS_METRIC_push_total);
    stats->pulls = ps_metric_get(m, PS_METRIC_pull_total);
    stats->bytes_pushed = ps_metric_get(m, PS_METRIC_bytes_pushed_total);
    stats->bytes_pulled = ps_metric_get(m, PS_METRIC_bytes_pulled_total);
    stats->repeats = ps_metric_get(m, PS_METRIC_pushes_repeated_total);
    stats->parked_now = ps_metric_get(m, PS_METRIC_pulls_parked);
    stats->parked = ps_metric_get(m, PS_METRIC_pulls_parked_total);
    stats->copied_push_bytes = ps_metric_get(m, PS_METRIC_bytes_copied_push_total);
    stats->copied_pull_bytes = ps_metric_get(m, PS_METRIC_bytes_copied_pull_total);
    stats->busy = ps_metric_get(m, PS_METRIC_calls_busy_total) +
                  ps_metric_get(m, PS_METRIC_pushes_refused_total) +
                  ps_metric_get(m, PS_METRIC_pulls_refused_total);
    stats->not_finite = ps_metric_get(m, PS_METRIC_not_finite_total);
    if (attend->options.mem != NULL) {
        const _Atomic uint64_t *used = attend->options.mem->used;
        stats->memory_bytes = atomic_load(&used[PS_MEM_PAGES]);
        stats->memory_limit = attend->options.mem->limit[PS_MEM_PAGES];
        stats->staged_bytes = atomic_load(&used[PS_MEM_STAGED]);
        stats->calls_bytes = atomic_load(&used[PS_MEM_CALLS]);
        stats->sessions_bytes = atomic_load(&used[PS_MEM_SESSIONS]);
        stats->other_bytes = atomic_load(&used[PS_MEM_DATA]) + atomic_load(&used[PS_MEM_OTHER]);
    }
}

/* What the lanes hold of sparse tables: those that all of them have made. */
static size_t fill_rows(struct ps_attend *attend)
{
    size_t n = 0;
    for (uint32_t table = 0; table < attend->acked.catalogue_version; table++) {
        struct ps_sparse_stats sum = {0};
        uint64_t n_refused = 0;
        bool sparse = attend->options.catalogue->tables[table].sparse;
        for (uint32_t i = 0; i < attend->options.n_lanes && sparse; i++) {
            (void)ps_lane_figures(attend->options.lanes[i], table, &sum, &n_refused);
        }
        if (sparse) {
            Ps__V1__RowStats *to = &attend->rows[n];
            ps__v1__row_stats__init(to);
            to->table = table;
            to->rows = sum.n_rows;
            to->bytes = sum.n_bytes;
            to->created = sum.n_created;
            to->updated = sum.n_updated;
            to->dropped = sum.n_dropped;
            to->expired = sum.n_expired;
            to->refused = n_refused;
            attend->row_list[n++] = to;
        }
    }
    return n;
}

size_t ps_attend_fill_positions(struct ps_attend *attend)
{
    size_t n = 0;
    for (uint32_t i = 0; i < attend->options.n_lanes; i++) {
        struct ps_lane_position lane[PS_SLOTS];
        uint32_t n_lane = ps_lane_positions(attend->options.lanes[i], lane);
        for (uint32_t j = 0; j < n_lane; j++) {
            Ps__V1__SlotPosition *to = &attend->positions[n];
            ps__v1__slot_position__init(to);
            to->slot = lane[j].slot;
            to->epoch = lane[j].epoch;
            to->position = lane[j].position;
            attend->position_list[n++] = to;
        }
    }
    return n;
}

static uint32_t find_lost_slot(const struct ps_attend *attend)
{
    uint32_t lost = 0;
    for (uint32_t i = 0; i < attend->options.n_lanes && lost == 0; i++) {
        lost = ps_lane_lost_slot(attend->options.lanes[i]);
    }
    return lost;
}

static void fill_written(struct ps_attend *attend, Ps__V1__CutWritten *ret)
{
    ps__v1__cut_written__init(ret);
    ret->cut = attend->written.cut;
    ret->status = (uint32_t)attend->written.err.status;
    if (attend->written.err.status != PS_OK) {
        ret->text = attend->written.err.text;
    }
    ret->bytes = attend->written.n_bytes;
    ret->checksum.len = sizeof(attend->written.checksum);
    ret->checksum.data = attend->written.checksum;
    ret->ms = attend->written.ms;
}

/* Of what outlives the process. */
static void fill_lasting(struct ps_attend *attend, Ps__V1__ServerReport *report,
                         Ps__V1__CutWritten *written)
{
    struct ps_lasting *lasting = attend->options.lasting;
    report->n_positions = ps_attend_fill_positions(attend);
    report->positions = attend->position_list;
    report->generation_loaded = attend->generation_loaded;
    report->lost_slot = find_lost_slot(attend);
    report->min_clock = attend->min_clock;
    report->wants_cut = lasting != NULL && lasting->ops->wants_cut(lasting);
    report->cut_taken = attend->cut_taken;
    if (attend->written.cut != 0) {
        fill_written(attend, written);
        report->cut_written = written;
    }
}

void ps_attend_send_report(struct ps_attend *attend)
{
    if (attend->stream == NULL) {
        return;
    }
    Ps__V1__ServerStats stats = PS__V1__SERVER_STATS__INIT;
    Ps__V1__ServerReport server = PS__V1__SERVER_REPORT__INIT;
    Ps__V1__AttendReport report = PS__V1__ATTEND_REPORT__INIT;
    fill_stats(attend, &stats);
    server.placement_version = attend->acked.placement_version;
    server.sessions_version = attend->acked.sessions_version;
    server.catalogue_version = attend->acked.catalogue_version;
    server.finished_version = attend->acked.finished_version;
    server.closed_steps = attend->acked.closed_steps;
    server.stats = &stats;
    server.n_row_stats = fill_rows(attend);
    server.row_stats = attend->row_list;
    Ps__V1__CutWritten written;
    fill_lasting(attend, &server, &written);
    report.session.len = sizeof(attend->options.session.bytes);
    report.session.data = attend->options.session.bytes;
    report.session_number = attend->session_number;
    report.term = attend->term;
    report.generation = attend->generation;
    report.server = &server;
    bool fits = false;
    size_t n_bytes = ps_wire_pack(&report.base, attend->report, sizeof(attend->report), &fits);
    PS_ASSERT(fits);
    struct ps_out out = {.head = attend->report, .n_head_bytes = n_bytes};
    (void)ps_stream_send(attend->stream, &out); /* Refused: the next heartbeat repeats it. */
}

/* ---- Cuts ----------------------------------------------------------------------------------- */

void ps_attend_cut_taken(struct ps_attend *attend, uint64_t cut)
{
    attend->cut_taken = cut;
    ps_attend_send_report(attend);
}

void ps_attend_cut_written(struct ps_attend *attend, const struct ps_attend_written *written)
{
    attend->written = *written;
    ps_attend_send_report(attend);
}

static void order_cut(struct ps_attend *attend, uint64_t cut)
{
    struct ps_lasting *lasting = attend->options.lasting;
    struct ps_attend_written never = {.cut = cut};
    attend->cut_ordered = cut;
    enum ps_lasting_when when = PS_LASTING_NEVER;
    if (lasting == NULL) {
        (void)ps_fail(&never.err, PS_ERR_UNSUPPORTED, "it has no place for snapshots");
    } else {
        when = lasting->ops->cut(lasting, cut, &never.err);
    }
    if (when == PS_LASTING_NEVER) {
        ps_attend_cut_written(attend, &never);
    }
}

void ps_attend_take_cut(struct ps_attend *attend, const Ps__V1__AttendState *state)
{
    struct ps_lasting *lasting = attend->options.lasting;
    if (state->cut != NULL && state->cut->cut > attend->cut_ordered) {
        order_cut(attend, state->cut->cut);
    }
    if (lasting != NULL && state->cut_kept > attend->cut_kept) {
        attend->cut_kept = state->cut_kept;
        lasting->ops->kept(lasting, state->cut_kept);
    }
    if (lasting != NULL && state->oldest_cut > attend->cut_oldest) {
        attend->cut_oldest = state->oldest_cut;
        lasting->ops->oldest(lasting, state->oldest_generation, state->oldest_cut);
    }
    if (lasting != NULL && state->cut_given_up > attend->cut_given_up) {
        attend->cut_given_up = state->cut_given_up;
        lasting->ops->gave_up(lasting, state->cut_given_up);
    }
}
