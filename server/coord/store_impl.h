#ifndef PS_SERVER_COORD_STORE_IMPL_H
#define PS_SERVER_COORD_STORE_IMPL_H
/*
 * coord/store_impl.h — for the kinds of stores only: the one rule that all of them keep.
 */
#include <stdbool.h>
#include <stdint.h>

#include "coord/store.h"

/** Whether a write may replace what stands in the store; the words name the other coordinator. */
PS_MUST_CHECK enum ps_status ps_store_may_replace(const struct ps_store_stamp *stored,
                                                  const struct ps_store_stamp *expected,
                                                  uint64_t term, struct ps_error *err);

#endif
