/* fuzz_data_reply.c — byte 0: length of slices; the rest: a reply, as a client reads it. */
#include "fuzz.h"
#include "wire/data_msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static struct ps_data_reply reply;
    static struct fuzz_cut cut;
    if (n_bytes == 0) {
        return 0;
    }
    fuzz_cut(&cut, data + 1, n_bytes - 1, data[0]);
    if (ps_data_reply_read(ps_cursor_over(cut.slices, cut.n_slices), &reply, NULL) != PS_OK) {
        return 0;
    }
    PS_ASSERT(reply.n_push <= PS_CALL_SLOTS_MAX && reply.n_pull <= PS_CALL_SLOTS_MAX);
    struct ps_cursor payload = reply.payload;
    for (uint32_t i = 0; i < reply.n_pull; i++) {
        PS_ASSERT(reply.pull[i].slot < PS_SLOTS);
        (void)ps_cursor_split(&payload, reply.pull[i].n_bytes);
    }
    PS_ASSERT(!payload.failed && payload.n_left == 0);
    return 0;
}
