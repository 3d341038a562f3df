/*
 * fuzz_cold_message.c — one cold message of any type: u8 type, u8 bytes per slice (0: one), bytes.
 *
 * What is read ends at its budget, and packed and read again it is the same.
 */
#include "coordinator.pb-c.h"
#include "fuzz.h"
#include "wire/pack.h"

static const ProtobufCMessageDescriptor *const types[] = {
    &ps__v1__join_request__descriptor,         &ps__v1__join_reply__descriptor,
    &ps__v1__define_table_request__descriptor, &ps__v1__define_table_reply__descriptor,
    &ps__v1__define_job_request__descriptor,   &ps__v1__define_job_reply__descriptor,
    &ps__v1__attend_report__descriptor,        &ps__v1__attend_state__descriptor,
    &ps__v1__tick_request__descriptor,         &ps__v1__tick_reply__descriptor,
    &ps__v1__wait_clock_request__descriptor,   &ps__v1__wait_clock_reply__descriptor,
    &ps__v1__describe_request__descriptor,     &ps__v1__describe_reply__descriptor,
    &ps__v1__leave_request__descriptor,        &ps__v1__shutdown_request__descriptor,
};

static struct ps_mem mem;

static void again(const ProtobufCMessage *message)
{
    ProtobufCMessage *copy = ps_wire_copy(message, &mem);
    if (copy != NULL) { /* What is small on the wire may be too large for the budget of its own. */
        PS_ASSERT(protobuf_c_message_get_packed_size(copy) ==
                  protobuf_c_message_get_packed_size(message));
        ps_wire_unpacked_free(copy);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes < 2) {
        return 0;
    }
    const ProtobufCMessageDescriptor *type = types[data[0] % PS_ARRAY_LEN(types)];
    struct fuzz_cut cut;
    fuzz_cut(&cut, data + 2, n_bytes - 2, data[1]);
    ps_mem_init(&mem);
    /* Its own budget ends it first: with an eighth more, and the copy of its bytes, nothing else
     * does. */
    size_t n_most = PS_WIRE_BUDGET(n_bytes) + PS_WIRE_BUDGET(n_bytes) / 8 + n_bytes + 4096;
    mem.limit[PS_MEM_CALLS] = n_most;
    ProtobufCMessage *message = ps_wire_unpack(type, cut.slices, cut.n_slices, &mem);
    mem.limit[PS_MEM_CALLS] = 0;
    ProtobufCMessage *free_message = ps_wire_unpack(type, cut.slices, cut.n_slices, &mem);
    PS_ASSERT((message == NULL) == (free_message == NULL));
    if (message != NULL) {
        PS_ASSERT(protobuf_c_message_check(message));
        again(message);
    }
    ps_wire_unpacked_free(message);
    ps_wire_unpacked_free(free_message);
    PS_ASSERT(atomic_load(&mem.used[PS_MEM_CALLS]) == 0);
    return 0;
}
