/*
 * fuzz_slot_state.c — byte 0: length of slices; the rest: a slot's state as a snapshot has it. What
 * is accepted is a state: written again it is read as the same one.
 */
#include <string.h>

#include "fuzz.h"
#include "slot/slot_state.h"

#define NUMBER 7u

static struct ps_slot slot;
static struct ps_seen_stream streams[PS_SEEN_STREAMS_MAX];
static uint8_t first[PS_SLOT_STATE_BYTES_MAX];
static uint8_t second[PS_SLOT_STATE_BYTES_MAX];

static enum ps_status read_state(struct ps_cursor bytes)
{
    memset(streams, 0, sizeof(streams));
    ps_slot_init(&slot, NUMBER, streams);
    return ps_slot_state_read(&slot, bytes, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct fuzz_cut cut;
    if (n_bytes == 0) {
        return 0;
    }
    fuzz_cut(&cut, data + 1, n_bytes - 1, data[0]);
    if (read_state(ps_cursor_over(cut.slices, cut.n_slices)) != PS_OK) {
        return 0;
    }
    struct ps_slice slice = {.data = first, .n_bytes = ps_slot_state_write(&slot, first)};
    PS_ASSERT(read_state(ps_cursor_over(&slice, 1)) == PS_OK);
    size_t n_again = ps_slot_state_write(&slot, second);
    PS_ASSERT(n_again == slice.n_bytes && memcmp(first, second, n_again) == 0);
    ps_slot_state_forget(&slot);
    return 0;
}
