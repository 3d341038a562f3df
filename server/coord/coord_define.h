#ifndef PS_SERVER_COORD_COORD_DEFINE_H
#define PS_SERVER_COORD_COORD_DEFINE_H
/*
 * coord/coord_define.h — are definitions well formed, and do two of them say the same? Pure.
 *
 * The first definition of a table or of the job wins; an equal one changes nothing, another one is
 * refused with the name of the first field that differs.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "coord/lease_core.h"
#include "coordinator.pb-c.h"

/** @return PS_ERR_INVALID with the field and its value. Shapes are left to cluster/layout. */
PS_MUST_CHECK enum ps_status coord_check_table(const Ps__V1__TableDefinition *table,
                                               struct ps_error *err);

/** The name of a field in which the two differ; NULL when they are equal. */
const char *coord_table_difference(const Ps__V1__TableDefinition *a,
                                   const Ps__V1__TableDefinition *b);

/** Check a job, and cut its data. @return PS_ERR_INVALID with the field and its value */
PS_MUST_CHECK enum ps_status coord_check_job(const Ps__V1__JobDefinition *job,
                                             struct ps_lease_plan *ret, struct ps_error *err);

/** As for tables; units_per_lease, which the coordinator may choose, is left out. */
const char *coord_job_difference(const Ps__V1__JobDefinition *a, const Ps__V1__JobDefinition *b);

/** The value of a field that coord_job_difference named; false: it is not a number. */
bool coord_job_number(const Ps__V1__JobDefinition *job, const char *field, uint64_t *ret);

#endif
