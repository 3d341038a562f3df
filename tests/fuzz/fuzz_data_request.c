/*
 * fuzz_data_request.c — byte 0: length of slices; the rest: a request. What the reader accepts is
 * within its bounds, and reads the same again after it was written.
 */
#include <string.h>

#include "fuzz.h"
#include "wire/data_msg.h"

static void check_share(const struct ps_share *share)
{
    PS_ASSERT(share->n_slots <= PS_CALL_SLOTS_MAX && share->n_parts <= PS_CALL_PARTS_MAX);
    uint32_t n_parts = 0;
    for (uint32_t i = 0; i < share->n_slots; i++) {
        PS_ASSERT(share->slots[i].first_part == n_parts);
        n_parts += share->slots[i].n_parts;
    }
    PS_ASSERT(n_parts == share->n_parts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static struct ps_data_request request;
    static struct ps_data_request again;
    static uint8_t head[PS_HEAD_BYTES_MAX];
    static struct fuzz_cut cut;
    if (n_bytes == 0) {
        return 0;
    }
    fuzz_cut(&cut, data + 1, n_bytes - 1, data[0]);
    if (ps_data_request_read(ps_cursor_over(cut.slices, cut.n_slices), &request, NULL) != PS_OK) {
        return 0;
    }
    check_share(&request.push);
    check_share(&request.pull);
    PS_ASSERT(request.payload.n_left == request.n_payload_bytes);
    struct ps_cursor payload = request.payload;
    ps_cursor_skip(&payload, request.n_payload_bytes);
    PS_ASSERT(!payload.failed);
    size_t n_head = ps_data_request_write(&request, head, sizeof(head));
    PS_ASSERT(n_head > 0);
    struct ps_slice slices[] = {{head, n_head}, {data, 0}, {data, request.n_payload_bytes}};
    PS_ASSERT(ps_data_request_read(ps_cursor_over(slices, 3), &again, NULL) == PS_OK);
    PS_ASSERT(again.push.n_parts == request.push.n_parts);
    PS_ASSERT(again.sequence == request.sequence && again.pull_step == request.pull_step);
    return 0;
}
