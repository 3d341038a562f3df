/*
 * fuzz_data_call.c — whole calls through svc and lanes: whatever arrives, each call gets exactly
 * one reply, every page comes back, and no assertion is met. Beside the rig's tables there is a
 * sparse one, RIG_TABLES: adam on rows of 3.
 *
 * byte 0: bit 0 aggregated bsp, bit 1 an open gate. Then any number of calls:
 * method (mod 4; 3: Scan) | length of slices | u16 bytes of the message | the message.
 */
#include "base/assert.h"
#include "base/bytes.h"
#include "fuzz.h"
#include "unit/svc/rig.h"
#include "wire/scan_msg.h"

#define CALLS_MAX   32u
#define LIFE_INPUTS 64u /* Then everything is closed, checked and made anew. */

static struct fake_call *calls[CALLS_MAX];
static uint32_t n_calls;

/* Deliver the first call of the input; the number of bytes that it took, 0 at the end. */
static size_t deliver_one(const uint8_t *data, size_t n_bytes)
{
    static struct fuzz_cut cut;
    if (n_bytes < 4 || n_calls == CALLS_MAX) {
        return 0;
    }
    size_t n_message = data[2] | (size_t)data[3] << 8;
    n_message = n_message < n_bytes - 4 ? n_message : n_bytes - 4;
    fuzz_cut(&cut, data + 4, n_message, data[1]);
    uint8_t method = data[0] % 4u;
    calls[n_calls++] = method == 3
                           ? rig_deliver_to(PS_METHOD_SCAN, cut.slices, cut.n_slices)
                           : rig_deliver_bytes((enum ps_data_kind)method, cut.slices, cut.n_slices);
    return 4 + n_message;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static uint32_t n_inputs;
    static uint64_t step;
    if (n_inputs++ % LIFE_INPUTS == 0) {
        if (n_inputs > 1) {
            rig_close();
        }
        rig_open(2);
        PS_ASSERT(rig_define_rows(&(struct rig_rows){
                      .optim = "adam", .width = 3, .admit_after = 2, .expire_after = 5}) ==
                  RIG_TABLES);
        rig.n_straddlers_max = UINT32_MAX; /* Messages are cut by chance. */
        step = 0;
    }
    if (n_bytes == 0) {
        return 0;
    }
    rig_consistency((data[0] & 2u) != 0 ? PS_GATE_UNBOUNDED : PS_GATE_BOUNDED, 0,
                    (data[0] & 1u) != 0);
    n_calls = 0;
    size_t n_taken = 1;
    for (size_t n = deliver_one(data + 1, n_bytes - 1); n > 0;
         n = deliver_one(data + n_taken, n_bytes - n_taken)) {
        n_taken += n;
        if (n_calls % 2 == 0) {
            rig_pump(); /* Some calls wait in the mailbox together. */
        }
    }
    rig_pump();
    struct ps_close_entry entries[] = {{.session = 1, .lease = 100, .unit = 0, .rows = 8}};
    rig_close_step(step++, entries, 1);
    for (uint32_t i = 0; i < n_calls; i++) {
        if (!fake_call_finished(calls[i])) {
            fake_call_give_up(calls[i]); /* Parked: the lanes look after it. */
        }
    }
    rig_pass_ms(100);
    for (uint32_t i = 0; i < n_calls; i++) {
        fake_call_settle(calls[i]);
    }
    return 0;
}
