#ifndef PS_SERVER_SVC_TABLE_DEF_H
#define PS_SERVER_SVC_TABLE_DEF_H
/*
 * svc/table_def.h — a table's definition on the wire, as layout, optimizer and pages want it.
 *
 * The one place that judges a definition: the coordinator asks before it accepts one, each server
 * when it makes the blocks.
 */
#include "base/error.h"
#include "cluster/layout.h"
#include "slot/catalogue.h"

struct Ps__V1__Table;
struct Ps__V1__TableDefinition;

/**
 * Could servers make this table? `ret_bytes` (may be NULL): what its weights and optimizer state
 * take, over all servers; of a sparse one what it takes before the first row.
 * @return PS_ERR_INVALID with words that name the field
 */
PS_MUST_CHECK enum ps_status ps_table_def_check(const struct Ps__V1__TableDefinition *definition,
                                                uint64_t *ret_bytes, struct ps_error *err);

/** Fill a catalogue entry from the coordinator's. */
PS_MUST_CHECK enum ps_status ps_table_def_read(const struct Ps__V1__Table *table,
                                               struct ps_layout *ret_layout,
                                               struct ps_table_info *ret_info,
                                               struct ps_error *err);

#endif
