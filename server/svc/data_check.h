#ifndef PS_SERVER_SVC_DATA_CHECK_H
#define PS_SERVER_SVC_DATA_CHECK_H
/*
 * svc/data_check.h — is this call one that a lane can take as it stands?
 *
 * Everything that a call says of itself is compared with the catalogue and with its own bytes here,
 * before any lane sees it: lanes and tables assert it. Whether its session may, and whether it is
 * new, is the slot's to say.
 */
#include "base/error.h"
#include "slot/catalogue.h"
#include "slot/data_call.h"

struct ps_data_check {
    const struct ps_catalogue *catalogue;
    uint64_t generation; /* 0: not known yet. */
    uint64_t key_seed;   /* Of the cluster. */
    bool not_finite;     /* Set: it was refused for a value that is NaN or infinite. */
};

/** Is the generation that a call says the present one? Either may be 0, not known. */
PS_MUST_CHECK enum ps_status ps_data_check_generation(uint64_t generation, uint64_t said,
                                                      struct ps_error *err);

/** What the call says of itself; drops fields that are another method's. Cheap. */
PS_MUST_CHECK enum ps_status ps_data_check_head(const struct ps_data_check *check,
                                                struct ps_data_call *call, struct ps_error *err);

/**
 * Check the rest of `call->request`, its keys and values included, and cut its payload by slots.
 *
 * @return PS_ERR_INVALID, NOT_FOUND, UNSUPPORTED or FENCED with words; nothing may be applied then
 */
PS_MUST_CHECK enum ps_status ps_data_check(struct ps_data_check *check, struct ps_data_call *call,
                                           struct ps_error *err);

#endif
