/* timers.c — pending wake-ups of one executor as a sorted ring, see exec.h. */
#include "base/attr.h"
#include "port/exec.h"

void ps_timers_init(struct ps_timers *timers)
{
    ps_list_init(&timers->head);
}

/* Most timers are later than those that already wait, so the place is looked for from the end. */
void ps_timers_start(struct ps_timers *timers, struct ps_timer *timer, uint64_t at_ms)
{
    ps_list_remove(&timer->node);
    timer->at_ms = at_ms;
    struct ps_list *before = timers->head.prev;
    while (before != &timers->head &&
           PS_CONTAINER_OF(before, struct ps_timer, node)->at_ms > at_ms) {
        before = before->prev;
    }
    ps_list_append(before->next, &timer->node); /* "Last before the next one". */
}

uint64_t ps_timers_next_ms(const struct ps_timers *timers)
{
    if (ps_list_empty(&timers->head)) {
        return UINT64_MAX;
    }
    return PS_CONTAINER_OF(timers->head.next, struct ps_timer, node)->at_ms;
}

struct ps_timer *ps_timers_take(struct ps_timers *timers, uint64_t now_ms)
{
    if (ps_timers_next_ms(timers) > now_ms || ps_list_empty(&timers->head)) {
        return NULL;
    }
    struct ps_timer *timer = PS_CONTAINER_OF(timers->head.next, struct ps_timer, node);
    ps_list_remove(&timer->node);
    return timer;
}
