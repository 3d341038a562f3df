#ifndef PS_TESTS_UNIT_WIRE_CHANCE_H
#define PS_TESTS_UNIT_WIRE_CHANCE_H
/*
 * wire/chance.h — data messages by chance, their twins of protobuf-c, and comparisons.
 *
 * The generated structs are the judge: they were written by other people, from the same .proto.
 */
#include "base/rng.h"
#include "parameter_server.pb-c.h"
#include "wire/data_msg.h"

#define CHANCE_BYTES_MAX (64u * 1024u)
#define CHANCE_SLOTS_MAX 6u
#define CHANCE_PARTS_MAX 5u /* Of one slot. */

/** A request of all fields (a PushPull), lengths that agree, numbers of all widths. */
void chance_request(struct ps_rng *rng, struct ps_data_request *ret);

/** A reply with slots of both directions. */
void chance_reply(struct ps_rng *rng, struct ps_data_reply *ret);

/** Bytes of the payload: `n_bytes` of a fixed pattern. */
const uint8_t *chance_payload(void);

/** The same message, packed by protobuf-c into `to` [CHANCE_BYTES_MAX], payload included. */
size_t chance_pack_request(const struct ps_data_request *request, uint8_t *to);
size_t chance_pack_reply(const struct ps_data_reply *reply, uint8_t *to);

/** Fail the test unless both say the same and the payload is the pattern. */
void chance_same_request(const struct ps_data_request *want, const struct ps_data_request *got);
void chance_same_reply(const struct ps_data_reply *want, const struct ps_data_reply *got);

#endif
