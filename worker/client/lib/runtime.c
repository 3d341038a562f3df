/* runtime.c — gRPC with its threads, shared by the clients that count themselves in. */
#include <stdatomic.h>

#include "base/error.h"
#include "base/mem.h"
#include "client/lib/client_impl.h"
#include "rpc/rpc.h"

struct ps_runtime {
    _Atomic uint32_t n_refs; /* The creator, until destroy, and each client. */
    struct ps_rpc *rpc;
};

enum ps_status ps_runtime_create(struct ps_runtime **ret, struct ps_error *err)
{
    enum ps_status status = PS_CLIENT_CHECK(err, ret);
    if (status != PS_OK) {
        return status;
    }
    struct ps_runtime *runtime = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*runtime));
    if (runtime == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a runtime");
    }
    status = ps_rpc_create(&(struct ps_rpc_options){0}, &runtime->rpc, err);
    if (status != PS_OK) {
        ps_mem_free(runtime);
        return status;
    }
    atomic_store(&runtime->n_refs, 1);
    *ret = runtime;
    return PS_OK;
}

struct ps_transport *ps_runtime_transport(struct ps_runtime *runtime)
{
    return ps_rpc_transport(runtime->rpc);
}

void ps_runtime_ref(struct ps_runtime *runtime)
{
    (void)atomic_fetch_add(&runtime->n_refs, 1);
}

void ps_runtime_unref(struct ps_runtime *runtime)
{
    if (runtime != NULL && atomic_fetch_sub(&runtime->n_refs, 1) == 1) {
        ps_rpc_destroy(runtime->rpc);
        ps_mem_free(runtime);
    }
}

void ps_runtime_destroy(struct ps_runtime *runtime)
{
    ps_runtime_unref(runtime);
}
