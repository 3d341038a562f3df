/*
 * fuzz_attend_state.c — what a coordinator may say to a server: states, one after the other, into
 * a lane. u16 bytes of a message | the message | and so on.
 */
#include <string.h>

#include "fuzz.h"
#include "obs/log.h"
#include "port/inline_exec.h"
#include "svc/attend_impl.h"
#include "wire/pack.h"

#define LANES       16u /* Of which there is one: it owns a few slots. */
#define PAGES_BYTES (1u << 20)

static struct ps_mem mem;
static struct ps_inline_exec exec;
static struct ps_catalogue catalogue;
static struct ps_svc_data svc;
static struct ps_attend attend;
static struct ps_lane *lane;

static uint64_t clock_ns(void *arg)
{
    (void)arg;
    return 1;
}

static void open_all(void)
{
    ps_mem_init(&mem);
    mem.limit[PS_MEM_PAGES] = PAGES_BYTES;
    ps_inline_exec_init(&exec, clock_ns, NULL);
    memset(&attend, 0, sizeof(attend));
    ps_list_init(&attend.waiting);
    atomic_store(&catalogue.n_tables, 0);
    struct ps_lane_options options = {.exec = &exec.base,
                                      .mem = &mem,
                                      .committer = &ps_commit_at_once,
                                      .catalogue = &catalogue,
                                      .n_lanes = LANES};
    PS_ASSERT(ps_lane_create(&options, &lane, NULL) == PS_OK);
    svc.ledger = ps_ledger_create(&mem, &(struct ps_ledger_limits){0});
    PS_ASSERT(svc.ledger != NULL);
    attend.options = (struct ps_attend_options){.exec = &exec.base,
                                                .mem = &mem,
                                                .catalogue = &catalogue,
                                                .lanes = &lane,
                                                .n_lanes = 1,
                                                .svc = &svc};
}

static bool take(const uint8_t *data, size_t n_bytes)
{
    struct ps_slice slice = {.data = data, .n_bytes = n_bytes};
    Ps__V1__AttendState *state =
        (Ps__V1__AttendState *)ps_wire_unpack(&ps__v1__attend_state__descriptor, &slice, 1, &mem);
    if (state == NULL) {
        return false;
    }
    ps_attend_hold_state(&attend, state);
    ps_inline_exec_pump(&exec);
    PS_ASSERT(attend.held == NULL); /* Nothing lasts here that it could wait for. */
    PS_ASSERT(attend.n_updates == 0);
    PS_ASSERT(attend.n_sessions <= PS_SESSIONS_MAX && attend.n_ranges <= PS_SEEN_FINISHED_MAX);
    return !attend.deaf && attend.view.lost.status == PS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    ps_log_level_set(PS_LOG_NONE);
    open_all();
    bool going = true;
    while (going && n_bytes >= 2) {
        size_t n = data[0] | (size_t)data[1] << 8;
        n = n < n_bytes - 2 ? n : n_bytes - 2;
        going = take(data + 2, n);
        data += 2 + n;
        n_bytes -= 2 + n;
    }
    ps_lane_destroy(lane);
    ps_ledger_unref(svc.ledger);
    for (uint32_t c = 0; c < PS_MEM_CLASS_COUNT; c++) {
        PS_ASSERT(atomic_load(&mem.used[c]) == 0);
    }
    return 0;
}
