/*
 * coord_attend.c — the streams of members: reports in, states out.
 *
 * A stream is bound to the session of its first report; a second stream of the same session takes
 * the place of the first. Messages are absolute, so one that cannot be taken in for want of memory,
 * or not be sent because the peer is slow, is made good by the next.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "coord/coord_impl.h"
#include "obs/log.h"
#include "wire/pack.h"

struct arrival {
    struct ps_mail mail;
    struct coord_attend *attend;
    struct ps_msg *msg;
};

/* ---- What a member says of itself ---------------------------------------------------------- */

/* The loss of a session is cumulative within its epoch, so what is new is the difference. */
static void note_loss(struct ps_coord *coord, struct coord_peer *peer,
                      const Ps__V1__WorkerReport *report)
{
    if (!coord->core.has_job || report->loss_epoch >= coord->core.pool.plan.epochs) {
        return;
    }
    struct coord_peer_loss *own = &peer->losses[report->loss_epoch % COORD_LOSS_EPOCHS];
    if (own->epoch != report->loss_epoch + 1) {
        *own = (struct coord_peer_loss){.epoch = report->loss_epoch + 1};
    }
    if (report->loss_rows <= own->loss.rows) {
        return; /* A repeat. */
    }
    struct coord_loss *total = &coord->definition.losses[report->loss_epoch];
    double sum = total->sum + (report->loss_sum - own->loss.sum);
    const struct ps_lease_plan *plan = &coord->core.pool.plan;
    uint64_t rows_most = plan->uncounted ? PS_LEASE_ROWS_MAX : 2 * plan->rows;
    if (report->loss_rows > rows_most || !isfinite(sum)) {
        return; /* Nonsense, or a model that diverged: the sum of the others stays readable. */
    }
    total->sum = sum;
    total->rows += report->loss_rows - own->loss.rows;
    own->loss = (struct coord_loss){report->loss_sum, report->loss_rows};
}

static void report_worker(struct ps_coord *coord, uint32_t member,
                          const Ps__V1__WorkerReport *report)
{
    struct coord_peer *peer = &coord->peers[member];
    if (report->stats != NULL) {
        peer->worker = *report->stats;
    }
    note_loss(coord, peer, report);
    struct ps_coord_progress progress = {
        .clock = report->clock,
        .lease = report->lease,
        .units_done = report->units_done,
        .lease_over = report->lease_over,
        .lease_rows = report->lease_rows,
        .staged_step = report->staged_step,
        .staged_unit = report->staged_unit,
        .staged_rows = report->staged_rows,
        .held = report->held,
    };
    ps_coord_core_progress(&coord->core, ps_exec_now_ms(coord->options.exec), member, &progress);
}

/* What a server counts of its rows; of tables that are not there it says nothing that is kept. */
static void report_rows(struct ps_coord *coord, struct coord_peer *peer,
                        const Ps__V1__ServerReport *report)
{
    size_t n = report->n_row_stats;
    if (n > coord->core.catalogue_version) {
        return;
    }
    if (n > peer->n_rows_room) {
        size_t n_bytes = n * sizeof(peer->rows[0]);
        Ps__V1__RowStats *grown =
            peer->rows == NULL
                ? ps_mem_alloc(coord->options.mem, PS_MEM_SESSIONS, n_bytes)
                : ps_mem_grow(coord->options.mem, PS_MEM_SESSIONS, peer->rows, n_bytes);
        if (grown == NULL) {
            return; /* It comes with the next report. */
        }
        peer->rows = grown;
        peer->n_rows_room = (uint32_t)n;
    }
    peer->n_rows = 0;
    for (size_t i = 0; i < n; i++) {
        if (report->row_stats[i]->table < coord->core.catalogue_version) {
            peer->rows[peer->n_rows++] = *report->row_stats[i];
        }
    }
}

static void take_lines(const Ps__V1__ServerReport *report, struct ps_coord_line *lines,
                       struct ps_coord_acks *acks)
{
    acks->lines = lines;
    for (size_t i = 0; i < report->n_positions && acks->n_lines < PS_SLOTS; i++) {
        const Ps__V1__SlotPosition *from = report->positions[i];
        if (from->slot < PS_SLOTS) {
            lines[acks->n_lines++] =
                (struct ps_coord_line){from->slot, {from->epoch, from->position}};
        }
    }
}

static void take_written(const Ps__V1__CutWritten *from, struct ps_coord_cut_report *to)
{
    to->written = from->cut;
    to->failed = from->status != PS_OK;
    to->why = from->text;
    to->n_bytes = from->bytes;
    if (from->checksum.len == sizeof(to->checksum)) {
        memcpy(to->checksum, from->checksum.data, sizeof(to->checksum));
    }
}

static void report_server(struct ps_coord *coord, uint32_t member,
                          const Ps__V1__ServerReport *report)
{
    if (report->stats != NULL) {
        coord->peers[member].server = *report->stats;
        report_rows(coord, &coord->peers[member], report);
    }
    struct ps_coord_acks acks = {
        .placement = report->placement_version,
        .sessions = report->sessions_version,
        .catalogue = report->catalogue_version,
        .finished = report->finished_version,
        .closed_steps = report->closed_steps,
        .loaded = report->generation_loaded,
        .min_clock = report->min_clock,
        .lost_slot = report->lost_slot,
        .cut = {.taken = report->cut_taken, .wanted = report->wants_cut},
    };
    struct ps_coord_line lines[PS_SLOTS];
    take_lines(report, lines, &acks);
    if (report->cut_written != NULL) {
        take_written(report->cut_written, &acks.cut);
    }
    ps_coord_core_acks(&coord->core, ps_exec_now_ms(coord->options.exec), member, &acks);
}

bool coord_report(struct ps_coord *coord, uint32_t member, const Ps__V1__AttendReport *report)
{
    uint64_t now_ms = ps_exec_now_ms(coord->options.exec);
    if (report->term > coord->term && now_ms - coord->proved_ms >= PS_COORD_PROVE_MS) {
        /* Anybody can say so: the store knows. If there is another one, our next write fails. */
        ps_log(PS_LOG_WARN, "coordinator.challenged", "term=%" PRIu64 " claimed=%" PRIu64,
               coord->term, report->term);
        coord->proved_ms = now_ms;
        coord->to_prove = true;
    }
    /* News for an earlier coordinator says nothing about ours; whoever has heard none yet (0) has
     * none to give. */
    bool ours = (report->term == coord->term || report->term == 0) &&
                (report->generation == coord->core.generation || report->generation == 0);
    if (ours && report->worker != NULL) {
        report_worker(coord, member, report->worker);
    } else if (ours && report->server != NULL) {
        report_server(coord, member, report->server);
    } else {
        (void)ps_coord_core_heard(&coord->core, now_ms, member);
    }
    return !ps_member_ended(&coord->core.members[member].life);
}

/* ---- Out ----------------------------------------------------------------------------------- */

static void end_stream(struct coord_attend *attend, enum ps_status status)
{
    if (!attend->ended) {
        attend->ended = true;
        ps_stream_close(attend->stream, status);
    }
}

static void send_state(struct coord_attend *attend, const struct coord_told *now)
{
    struct ps_coord *coord = attend->coord;
    const Ps__V1__AttendState *state = attend->unknown
                                           ? coord_state_unknown(coord)
                                           : coord_state(coord, attend->member, &attend->told, now);
    struct ps_out out;
    attend->told_ms = ps_exec_now_ms(coord->options.exec);
    /* Not sent: it stays untold, and the next heartbeat tries again. */
    if (coord_pack(coord, &state->base, &out) && ps_stream_send(attend->stream, &out) == PS_OK) {
        attend->told = *now;
    }
}

static void tell(struct coord_attend *attend, uint64_t now_ms)
{
    if (attend->ended) {
        return;
    }
    /* Whoever speaks for no session has time to say for which, or to hear that it is none. */
    if (attend->member == PS_COORD_NOBODY &&
        now_ms - attend->arrived_ms > attend->coord->core.options.times.silence_ms) {
        end_stream(attend, PS_ERR_FENCED);
        return;
    }
    if (attend->member == PS_COORD_NOBODY && !attend->unknown) {
        return;
    }
    /* With steps of a tick this comes at least once a heartbeat, and seldom twice. */
    bool due = now_ms - attend->told_ms > PS_HEARTBEAT_MS - PS_COORD_TICK_MS;
    if (attend->unknown) {
        struct coord_told now = {.any = true, .fenced = true};
        if (due || !attend->told.any) {
            send_state(attend, &now);
        }
        return;
    }
    struct coord_told now = coord_told_now(attend->coord, attend->member);
    if (due || coord_told_news(attend->coord, attend->member, &attend->told, &now)) {
        send_state(attend, &now);
    }
}

void coord_attends_tell(struct ps_coord *coord)
{
    uint64_t now_ms = ps_exec_now_ms(coord->options.exec);
    ps_list_for_each (at, &coord->attends) {
        tell(PS_CONTAINER_OF(at, struct coord_attend, node), now_ms);
    }
}

/* ---- In ------------------------------------------------------------------------------------ */

/* Let go of the member, if it is still this stream's. */
static void unbind(struct coord_attend *attend)
{
    struct ps_coord *coord = attend->coord;
    if (attend->member != PS_COORD_NOBODY && coord->peers[attend->member].attend == attend) {
        coord->peers[attend->member].attend = NULL;
        ps_coord_core_stream_down(&coord->core, ps_exec_now_ms(coord->options.exec),
                                  attend->member);
    }
    attend->member = PS_COORD_NOBODY;
}

static void bind(struct coord_attend *attend, uint32_t member)
{
    struct ps_coord *coord = attend->coord;
    struct coord_peer *peer = &coord->peers[member];
    if (peer->attend != NULL) {
        peer->attend->member = PS_COORD_NOBODY;
        end_stream(peer->attend, PS_ERR_CANCELED);
    }
    peer->attend = attend;
    attend->member = member;
    attend->told = (struct coord_told){0};
    ps_coord_core_stream_up(&coord->core, ps_exec_now_ms(coord->options.exec), member);
}

static void take_report(struct coord_attend *attend, const Ps__V1__AttendReport *report)
{
    struct ps_coord *coord = attend->coord;
    struct ps_id session;
    if (!ps_id_from(report->session.data, report->session.len, &session) || ps_id_none(&session)) {
        end_stream(attend, PS_ERR_INVALID);
        return;
    }
    uint32_t member = ps_coord_core_find(&coord->core, &session);
    if (attend->member != PS_COORD_NOBODY && attend->member != member) {
        end_stream(attend, PS_ERR_INVALID); /* A stream speaks for one session. */
        return;
    }
    attend->unknown = member == PS_COORD_NOBODY;
    if (attend->unknown) {
        return;
    }
    if (attend->member == PS_COORD_NOBODY) {
        bind(attend, member);
    }
    if (!coord_report(coord, member, report)) {
        attend->told.fenced = false; /* It seems not to have heard: tell it again. */
    }
}

static void run_message(struct ps_mail *mail)
{
    struct arrival *arrival = PS_CONTAINER_OF(mail, struct arrival, mail);
    struct coord_attend *attend = arrival->attend;
    struct ps_coord *coord = attend->coord;
    if (!attend->ended && !coord->stopped) {
        enum ps_status why;
        ProtobufCMessage *message =
            coord_unpack(coord, &ps__v1__attend_report__descriptor, arrival->msg, &why);
        if (message == NULL && why == PS_ERR_NOMEM) {
            end_stream(attend, PS_ERR_NOMEM); /* Another stream says it all again. */
        } else if (message == NULL) {
            ps_metric_add(coord->options.metrics, PS_METRIC_messages_malformed_total, 1);
            end_stream(attend, PS_ERR_INVALID);
        } else {
            take_report(attend, (const Ps__V1__AttendReport *)message);
            ps_wire_unpacked_free(message);
        }
        coord_changed(coord);
    }
    ps_msg_unref(arrival->msg);
    ps_mem_free(arrival);
}

static void run_left(struct ps_mail *mail)
{
    struct coord_attend *attend = PS_CONTAINER_OF(mail, struct coord_attend, left);
    struct ps_coord *coord = attend->coord;
    unbind(attend);
    ps_list_remove(&attend->node);
    ps_stream_release(attend->stream);
    ps_mem_free(attend);
    coord_changed(coord);
    atomic_fetch_sub_explicit(&coord->n_under_way, 1, memory_order_acq_rel);
}

/* ---- On threads of the transport: arrivals become mail ------------------------------------- */

static void on_message(void *arg, struct ps_msg *msg)
{
    struct coord_attend *attend = arg;
    struct arrival *arrival =
        ps_mem_alloc(attend->coord->options.mem, PS_MEM_CALLS, sizeof(*arrival));
    if (arrival == NULL) {
        ps_msg_unref(msg);
        return;
    }
    arrival->mail.run = run_message;
    arrival->attend = attend;
    arrival->msg = msg;
    ps_exec_post(attend->coord->options.exec, &arrival->mail);
}

static void on_closed(void *arg, enum ps_status status PS_UNUSED)
{
    struct coord_attend *attend = arg;
    ps_exec_post(attend->coord->options.exec, &attend->left);
}

/* On the executor again. */
static void run_arrived(struct ps_mail *mail)
{
    struct coord_attend *attend = PS_CONTAINER_OF(mail, struct coord_attend, arrived);
    static const struct ps_stream_events events = {.message = on_message, .closed = on_closed};
    attend->arrived_ms = ps_exec_now_ms(attend->coord->options.exec);
    ps_list_append(&attend->coord->attends, &attend->node);
    ps_stream_start(attend->stream, &events, attend);
    if (attend->coord->stopped) {
        end_stream(attend, PS_ERR_UNAVAIL);
    }
}

/* A stream that is refused is a debt like any other until it has closed. */
struct refusal {
    struct ps_coord *coord;
    struct ps_stream *stream;
};

static void drop_message(void *arg PS_UNUSED, struct ps_msg *msg)
{
    ps_msg_unref(msg);
}

static void drop_stream(void *arg, enum ps_status status PS_UNUSED)
{
    struct refusal *refusal = arg;
    struct ps_coord *coord = refusal->coord;
    ps_stream_release(refusal->stream);
    ps_mem_free(refusal);
    atomic_fetch_sub_explicit(&coord->n_under_way, 1, memory_order_acq_rel);
}

static void refuse_stream(struct ps_coord *coord, struct ps_stream *stream)
{
    static const struct ps_stream_events refused = {.message = drop_message, .closed = drop_stream};
    struct refusal *refusal =
        ps_mem_alloc_beyond(coord->options.mem, PS_MEM_CALLS, sizeof(*refusal));
    PS_ASSERT(refusal != NULL); /* Tiny and beyond the budget: the machine itself has no memory. */
    *refusal = (struct refusal){.coord = coord, .stream = stream};
    atomic_fetch_add_explicit(&coord->n_under_way, 1, memory_order_relaxed);
    ps_metric_add(coord->options.metrics, PS_METRIC_calls_busy_total, 1);
    ps_stream_start(stream, &refused, refusal);
    ps_stream_close(stream, PS_ERR_BUSY);
}

static void accept_attend(void *arg, struct ps_stream *stream)
{
    struct ps_coord *coord = arg;
    if (!coord_take_hold(coord)) {
        refuse_stream(coord, stream);
        return;
    }
    struct coord_attend *attend = ps_mem_alloc(coord->options.mem, PS_MEM_CALLS, sizeof(*attend));
    if (attend == NULL) {
        refuse_stream(coord, stream);
        atomic_fetch_sub_explicit(&coord->n_under_way, 1, memory_order_acq_rel);
        return;
    }
    attend->coord = coord;
    attend->stream = stream;
    attend->member = PS_COORD_NOBODY;
    attend->arrived.run = run_arrived;
    attend->left.run = run_left;
    ps_list_init(&attend->node);
    ps_exec_post(coord->options.exec, &attend->arrived);
}

void coord_attend_row(struct ps_coord *coord, struct ps_method *method)
{
    *method = (struct ps_method){
        .path = "/ps.v1.Coordinator/Attend",
        .traffic = PS_TRAFFIC_CONTROL,
        .roles = PS_ROLE_ANY,
        .kind = PS_METHOD_STREAM,
        .accept = accept_attend,
        .arg = coord,
    };
}

void coord_attends_close(struct ps_coord *coord)
{
    ps_list_for_each (at, &coord->attends) {
        end_stream(PS_CONTAINER_OF(at, struct coord_attend, node), PS_ERR_UNAVAIL);
    }
}
