#ifndef PS_TESTS_UNIT_SVC_FAKE_CALL_H
#define PS_TESTS_UNIT_SVC_FAKE_CALL_H
/*
 * svc/fake_call.h — a call as a handler sees it, and what became of it.
 *
 * The request arrives in slices of the test's choice; the reply is kept with its pieces on loan
 * until fake_call_settle, as a transport that is still sending would. Finishing twice, or settling
 * a call that was never finished, fails the test.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "port/transport.h"
#include "wire/data_msg.h"

struct fake_call;

/** A call with `n_bytes` of request, in `n_slices` slices that are copied one by one. */
struct fake_call *fake_call_create(const struct ps_slice *slices, size_t n_slices);

/** What the handler gets. */
struct ps_call *fake_call_base(struct fake_call *call);

void fake_call_give_up(struct fake_call *call);
void fake_call_time_left(struct fake_call *call, uint32_t ms);

/** How often it was finished: 0 or 1. */
bool fake_call_finished(const struct fake_call *call);
enum ps_status fake_call_status(const struct fake_call *call);
const char *fake_call_reason(const struct fake_call *call);
/** The wait that the handler asked for; 0: it left that to the transport. */
uint32_t fake_call_retry_ms(const struct fake_call *call);

/** The reply, read as a client reads it. The call must be finished with PS_OK. */
const struct ps_data_reply *fake_call_reply(struct fake_call *call);

/** Its bytes, for whoever reads them otherwise. As above; until the call is settled. */
struct ps_cursor fake_call_bytes(struct fake_call *call);

/** Where the bytes of piece `at` lie; NULL beyond the last. */
const uint8_t *fake_call_piece(const struct fake_call *call, size_t at);

/** Copy the reply's payload to `to` and return its length. */
size_t fake_call_payload(struct fake_call *call, void *to, size_t n_room);

/** Give the pieces back and free the call; the request lives as long as somebody refers to it. */
void fake_call_settle(struct fake_call *call);

/** Requests that somebody still refers to, over all calls. */
uint32_t fake_call_requests_alive(void);

#endif
