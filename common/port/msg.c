/* msg.c — references to messages, see transport.h. */
#include "base/assert.h"
#include "port/transport.h"

void ps_msg_ref(struct ps_msg *msg)
{
    uint32_t before = atomic_fetch_add_explicit(&msg->n_refs, 1, memory_order_relaxed);
    PS_ASSERT(before > 0);
}

void ps_msg_unref(struct ps_msg *msg)
{
    if (msg == NULL) {
        return;
    }
    uint32_t before = atomic_fetch_sub_explicit(&msg->n_refs, 1, memory_order_acq_rel);
    PS_ASSERT(before > 0);
    if (before == 1) {
        void (*let_go)(void *arg) = msg->let_go;
        void *arg = msg->let_go_arg;
        msg->destroy(msg);
        if (let_go != NULL) {
            let_go(arg);
        }
    }
}
