/*
 * test_mailbox.c — the mailbox under several posting threads: every piece of mail is taken once,
 * and that of one poster in its order. Counts, so that each run says what it proves.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <sched.h>

#include <check.h>

#include "base/attr.h"
#include "lib/test_main.h"
#include "os/clock.h"
#include "os/mailbox.h"
#include "unit/os/suites.h"

#define N_POSTERS 4
#define N_RING    1024 /* Mail that one poster may have under way. */

struct letter {
    struct ps_mail mail;
    uint64_t number; /* Per poster, from 0. */
    struct poster *poster;
};

struct poster {
    struct ps_mailbox *mailbox;
    uint64_t n_posts;
    struct letter ring[N_RING];
    _Atomic uint64_t n_read; /* By the owner. */
    uint64_t n_reordered;    /* The owner's. */
    pthread_t thread;
};

static void *post_all(void *arg)
{
    struct poster *poster = arg;
    for (uint64_t i = 0; i < poster->n_posts; i++) {
        struct letter *letter = &poster->ring[i % N_RING];
        while (i >= atomic_load(&poster->n_read) + N_RING) {
            (void)sched_yield(); /* Its place is still in the mailbox. */
        }
        letter->number = i;
        letter->poster = poster;
        (void)ps_mailbox_post(poster->mailbox, &letter->mail);
    }
    return NULL;
}

static void read_letter(struct ps_mail *mail)
{
    struct letter *letter = PS_CONTAINER_OF(mail, struct letter, mail);
    struct poster *poster = letter->poster;
    uint64_t want = atomic_load_explicit(&poster->n_read, memory_order_relaxed);
    poster->n_reordered += letter->number != want ? 1 : 0;
    atomic_store(&poster->n_read, want + 1);
}

START_TEST(no_mail_is_lost_doubled_or_reordered)
{
    static struct poster posters[N_POSTERS];
    uint64_t n_posts = test_count("PS_TEST_POSTS", 1000000) / N_POSTERS;
    struct ps_mailbox mailbox;
    ps_mailbox_init(&mailbox);
    for (int i = 0; i < N_POSTERS; i++) {
        posters[i].mailbox = &mailbox;
        posters[i].n_posts = n_posts;
        for (int k = 0; k < N_RING; k++) {
            posters[i].ring[k].mail.run = read_letter;
        }
        ck_assert_int_eq(pthread_create(&posters[i].thread, NULL, post_all, &posters[i]), 0);
    }
    uint64_t n_taken = 0;
    while (n_taken < n_posts * N_POSTERS) {
        struct ps_mail *first = ps_mailbox_wait(&mailbox, ps_clock_ms() + 20000);
        ck_assert_msg(first != NULL, "lost: %" PRIu64 " of %" PRIu64 " taken", n_taken,
                      n_posts * N_POSTERS);
        for (struct ps_mail *at = first; at != NULL; at = at->next) {
            n_taken++;
        }
        ps_mailbox_run(first);
    }
    ck_assert_ptr_null(ps_mailbox_take(&mailbox));
    for (int i = 0; i < N_POSTERS; i++) {
        ck_assert_int_eq(pthread_join(posters[i].thread, NULL), 0);
        ck_assert_uint_eq(atomic_load(&posters[i].n_read), n_posts);
        ck_assert_uint_eq(posters[i].n_reordered, 0);
    }
    ps_mailbox_deinit(&mailbox);
}
END_TEST

START_TEST(a_wait_ends_at_its_time)
{
    struct ps_mailbox mailbox;
    ps_mailbox_init(&mailbox);
    uint64_t until_ms = ps_clock_ms() + 20;
    ck_assert_ptr_null(ps_mailbox_wait(&mailbox, until_ms));
    ck_assert_uint_ge(ps_clock_ms(), until_ms);
    ck_assert_ptr_null(ps_mailbox_wait(&mailbox, 0)); /* Long past. */
    ps_mailbox_deinit(&mailbox);
}
END_TEST

START_TEST(only_the_first_post_asks_for_a_nudge)
{
    struct ps_mailbox mailbox;
    struct ps_mail mail[3] = {{0}};
    ps_mailbox_init(&mailbox);
    ck_assert(ps_mailbox_post(&mailbox, &mail[0]));
    ck_assert(!ps_mailbox_post(&mailbox, &mail[1]));
    ck_assert_ptr_eq(ps_mailbox_take(&mailbox), &mail[0]);
    ck_assert_ptr_eq(mail[0].next, &mail[1]);
    ck_assert_ptr_null(mail[1].next);
    ck_assert(ps_mailbox_post(&mailbox, &mail[2]));
    ck_assert_ptr_eq(ps_mailbox_take(&mailbox), &mail[2]);
    ps_mailbox_deinit(&mailbox);
}
END_TEST

Suite *suite_mailbox(void)
{
    Suite *suite = suite_create("mailbox");
    TCase *tcase = tcase_create("mailbox");
    tcase_set_timeout(tcase, 600);
    tcase_add_test(tcase, no_mail_is_lost_doubled_or_reordered);
    tcase_add_test(tcase, a_wait_ends_at_its_time);
    tcase_add_test(tcase, only_the_first_post_asks_for_a_nudge);
    suite_add_tcase(suite, tcase);
    return suite;
}
