/*
 * fuzz_scan_msg.c — byte 0: length of slices; the rest: a scan, and the answer to one. What a
 * reader accepts is within its bounds, and reads the same again after it was written; keys end.
 */
#include <string.h>

#include "fuzz.h"
#include "wire/scan_msg.h"

#define KEYS_AT_ONCE 16u

static void read_request(struct ps_cursor c)
{
    uint8_t head[PS_SCAN_HEAD_BYTES_MAX];
    struct ps_scan_request request;
    struct ps_scan_request again;
    if (ps_scan_request_read(c, &request, NULL) != PS_OK) {
        return;
    }
    struct ps_slice slice = {.data = head};
    slice.n_bytes = ps_scan_request_write(&request, head, sizeof(head));
    PS_ASSERT(slice.n_bytes > 0);
    PS_ASSERT(ps_scan_request_read(ps_cursor_over(&slice, 1), &again, NULL) == PS_OK);
    PS_ASSERT(ps_id_equal(&request.session, &again.session) && request.slot == again.slot);
    PS_ASSERT(request.cursor == again.cursor && request.max_bytes == again.max_bytes);
    PS_ASSERT(request.epoch == again.epoch && request.skip_zeros == again.skip_zeros);
}

static void read_reply(struct ps_cursor c)
{
    struct ps_scan_reply reply;
    uint64_t keys[KEYS_AT_ONCE];
    if (ps_scan_reply_read(c, &reply, NULL) != PS_OK) {
        return;
    }
    PS_ASSERT(reply.payload.n_left == reply.n_payload_bytes);
    struct ps_cursor values = reply.payload;
    struct ps_keys_reader reader =
        ps_keys_reader(ps_cursor_split(&values, reply.n_key_bytes), reply.n_keys);
    PS_ASSERT(!values.failed);
    uint64_t n_keys = 0;
    for (size_t n = 0; (n = ps_keys_next(&reader, keys, KEYS_AT_ONCE)) > 0; n_keys += n) {
    }
    PS_ASSERT(n_keys <= reply.n_key_bytes);
    ps_cursor_skip(&values, values.n_left);
    PS_ASSERT(!values.failed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static struct fuzz_cut cut;
    if (n_bytes > 0) {
        fuzz_cut(&cut, data + 1, n_bytes - 1, data[0]);
        read_request(ps_cursor_over(cut.slices, cut.n_slices));
        read_reply(ps_cursor_over(cut.slices, cut.n_slices));
    }
    return 0;
}
