/*
 * test_member_core.c — the life of one member, as a table of what happens and when.
 */
#include <string.h>

#include "coord/member_core.h"
#include "test_coord.h"

#define GRACE   1000u
#define SILENCE 5000u

static const struct ps_member_times times = {.grace_ms = GRACE, .silence_ms = SILENCE};

enum happening {
    END,
    OPEN,
    HEARD,
    BROKE,
    LEAVE,
    TICK,
    FORGIVE,
    RETURNS
};

struct happens {
    enum happening what;
    uint64_t at_ms;
};

/* clang-format off */
static const struct {
    const char *name;
    struct happens script[8];
    enum ps_member_state state;
    int n_deaths;
} lives[] = {
    {"a newcomer waits", {{TICK, 100}}, PS_MEMBER_JOINING, 0},
    {"a newcomer that is silent dies", {{TICK, SILENCE + 1}}, PS_MEMBER_DEAD, 1},
    {"opening is a sign of life", {{OPEN, 4000}, {TICK, 5001}}, PS_MEMBER_LIVE, 0},
    {"half the silence is suspect", {{OPEN, 0}, {TICK, 2501}}, PS_MEMBER_SUSPECT, 0},
    {"the whole silence is not yet death", {{OPEN, 0}, {TICK, 5000}}, PS_MEMBER_SUSPECT, 0},
    {"more is death, once", {{OPEN, 0}, {TICK, 5001}, {TICK, 5002}}, PS_MEMBER_DEAD, 1},
    {"a suspect that speaks is live", {{OPEN, 0}, {TICK, 2501}, {HEARD, 2600}, {TICK, 2700}},
     PS_MEMBER_LIVE, 0},
    {"a broken stream is suspect", {{OPEN, 0}, {BROKE, 10}}, PS_MEMBER_SUSPECT, 0},
    {"it may return within the grace", {{OPEN, 0}, {BROKE, 10}, {TICK, 1010}, {HEARD, 1011},
     {TICK, 1200}}, PS_MEMBER_LIVE, 0},
    {"else it is dead", {{OPEN, 0}, {BROKE, 10}, {TICK, 1011}}, PS_MEMBER_DEAD, 1},
    {"the dead do not speak", {{OPEN, 0}, {TICK, 5001}, {HEARD, 5002}}, PS_MEMBER_DEAD, 1},
    {"who left is not dead", {{OPEN, 0}, {LEAVE, 10}, {TICK, 9000}}, PS_MEMBER_LEFT, 0},
    {"one may leave while joining", {{LEAVE, 10}}, PS_MEMBER_LEFT, 0},
    {"forgiveness begins anew", {{OPEN, 0}, {FORGIVE, 9000}, {TICK, 9001}}, PS_MEMBER_LIVE, 0},
    {"who returns is away, once", {{OPEN, 0}, {RETURNS, 0}, {TICK, 5001}, {TICK, 5002}},
     PS_MEMBER_AWAY, 1},
    {"and live when it speaks", {{OPEN, 0}, {RETURNS, 0}, {BROKE, 1}, {TICK, 1500}, {HEARD, 9000},
     {TICK, 9100}}, PS_MEMBER_LIVE, 1},
    {"and may leave for good", {{OPEN, 0}, {RETURNS, 0}, {TICK, 5001}, {LEAVE, 6000}},
     PS_MEMBER_LEFT, 1},
    {"also for broken streams", {{OPEN, 0}, {BROKE, 1}, {FORGIVE, 9000}, {TICK, 9900}},
     PS_MEMBER_SUSPECT, 0},
};
/* clang-format on */

static int play(struct ps_member *member, const struct happens *event)
{
    switch (event->what) {
    case END: break;
    case OPEN: ps_member_opened(member, event->at_ms); break;
    case HEARD: (void)ps_member_heard(member, event->at_ms); break;
    case BROKE: ps_member_broke(member, event->at_ms); break;
    case LEAVE: ps_member_leave(member); break;
    case TICK: return ps_member_tick(member, event->at_ms, &times);
    case FORGIVE: ps_member_forgive(member, event->at_ms); break;
    case RETURNS: member->returns = true; break;
    }
    return 0;
}

START_TEST(a_life_follows_the_script)
{
    struct ps_member member = ps_member_joined(0);
    int n_deaths = 0;
    for (size_t i = 0; i < PS_ARRAY_LEN(lives[_i].script); i++) {
        n_deaths += play(&member, &lives[_i].script[i]);
    }
    ck_assert_msg(member.state == lives[_i].state, "%s: is %s", lives[_i].name,
                  ps_member_state_name(member.state));
    ck_assert_msg(n_deaths == lives[_i].n_deaths, "%s: died %d times", lives[_i].name, n_deaths);
}
END_TEST

START_TEST(the_dead_do_not_return)
{
    struct ps_member member = {.state = PS_MEMBER_DEAD};
    ps_member_move(&member, PS_MEMBER_LIVE); /* Must abort. */
}
END_TEST

Suite *suite_member_core(void)
{
    Suite *suite = suite_create("member_core");
    TCase *tcase = tcase_create("life");
    tcase_add_loop_test(tcase, a_life_follows_the_script, 0, (int)PS_ARRAY_LEN(lives));
    tcase_add_test_raise_signal(tcase, the_dead_do_not_return, SIGABRT);
    suite_add_tcase(suite, tcase);
    return suite;
}
