/* failpoint.c — see failpoint.h. Nothing in builds without -Dplant=true. */
#include "base/failpoint.h"

#ifdef PS_PLANT
#    include <signal.h>
#    include <stddef.h>
#    include <string.h>

#    include "base/assert.h"

static const char *const names[] = {
#    define X(name, text) name,
    PS_FAILPOINT_LIST(X)
#    undef X
};

static struct ps_failpoint_hook present;

static bool known(const char *name)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

void ps_failpoint_hook(const struct ps_failpoint_hook *hook)
{
    present = hook == NULL ? (struct ps_failpoint_hook){0} : *hook;
}

void ps_failpoint(const char *name)
{
    PS_ASSERT(known(name));
    if (present.met != NULL) {
        present.met(present.arg, name);
    }
}

static void count(void *arg, const char *name)
{
    struct ps_failpoint_nth *nth = arg;
    if (strcmp(nth->name, name) != 0 ||
        atomic_fetch_add_explicit(&nth->n_met, 1, memory_order_relaxed) + 1 != nth->at) {
        return;
    }
    if (nth->say != NULL) {
        nth->say(nth);
    }
    (void)raise(nth->stops ? SIGSTOP : SIGKILL);
}

bool ps_failpoint_set_nth(struct ps_failpoint_nth *nth)
{
    if (!known(nth->name)) {
        return false;
    }
    struct ps_failpoint_hook hook = {.met = count, .arg = nth};
    ps_failpoint_hook(&hook);
    return true;
}
#endif
