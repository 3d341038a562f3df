#ifndef PS_SERVER_SLOT_SLOT_STATE_H
#define PS_SERVER_SLOT_SLOT_STATE_H
/*
 * slot/slot_state.h — a slot's state beside its tables, to bytes and back: epochs, position, open
 * sessions, sequences taken, finished leases, closed steps.
 *
 * The bytes are message SlotState of proto/ps/v1/state.proto. Equal states give equal bytes:
 * streams stand in the order of their keys, wherever the slot keeps them. Pure; nothing allocates.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/slice.h"
#include "slot/slot_core.h"

/** More than any state takes: every bound of a slot reached, each number at its longest. */
#define PS_SLOT_STATE_BYTES_MAX (320u << 10)

/**
 * Write the state as it is at the end of the slot's line, uncommitted records included, into `to`
 * [PS_SLOT_STATE_BYTES_MAX]. @return bytes written
 */
size_t ps_slot_state_write(const struct ps_slot *slot, uint8_t *to);

/** A planted bug: the position alone. */
size_t ps_slot_state_write_bare(const struct ps_slot *slot, uint8_t *to);

/**
 * Read a state into a slot that was just initialised with its number; all of its line is committed
 * and applied then, and it is nobody's until the next placement. Foreign bytes: any are fine.
 *
 * @return PS_ERR_CORRUPT with words; the slot is then of no use
 */
PS_MUST_CHECK enum ps_status ps_slot_state_read(struct ps_slot *slot, struct ps_cursor bytes,
                                                struct ps_error *err);

/** A new generation: sessions and what they streamed without a lease are gone, leases stay. */
void ps_slot_state_forget(struct ps_slot *slot);

#endif
