/*
 * test_optim_contract.c — what every rule promises, over the list: a new rule is tested by being
 * listed. Equality is exact throughout: a page may be cut, shifted or written in place and must
 * come out with the same bits.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "optim/optim.h"
#include "optim/rows.h"

enum {
    N = 1027,      /* Elements of the page: odd, several vectors and a rest. */
    STATE_MAX = 4, /* Values per element that these arrays have room for. */
    N_STEPS = 5,
};

/* A page on its way through a few updates. */
struct page {
    float weights[N];
    float state[STATE_MAX * N];
    struct ps_optim_page counters;
};

static struct page given; /* Before the first step. */
static struct page want;  /* After all of them, written out of place, in one run, aligned. */
static uint8_t grads[N_STEPS][N * sizeof(float)];

static const struct ps_optim *optim_at(int i)
{
    size_t n = 0;
    const struct ps_optim *const *all = ps_optim_all(&n);
    ck_assert_uint_lt((size_t)i, n);
    ck_assert_uint_le(all[i]->state_per_elem, STATE_MAX);
    return all[i];
}

/* The defaults, an l2, and an l1 where there is one, so that every term is at work. */
static struct ps_optim_params params_of(const struct ps_optim *optim)
{
    struct ps_optim_params params = optim->defaults;
    params.l2 = 0.01f;
    params.l1 = optim->proximal ? 0.02f : 0.0f;
    return params;
}

static struct ps_optim_step next_step(struct page *page, const struct ps_optim_params *params)
{
    ps_optim_page_next(&page->counters, params);
    struct ps_optim_step step = ps_optim_step_of(params, &page->counters, 0.03f, 0.7f);
    step.stride = N;
    return step;
}

/* Fill `given` and `grads` by chance, and `want` by the plainest use of the rule. */
static void make_case(const struct ps_optim *optim, const struct ps_optim_params *params)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    static float old[N];
    memset(&given, 0, sizeof(given));
    for (size_t i = 0; i < N; i++) {
        given.weights[i] = ps_rng_normal(ps_rng_next(&rng));
        for (size_t s = 0; s < N_STEPS; s++) {
            float g = ps_rng_normal(ps_rng_next(&rng));
            memcpy(&grads[s][i * sizeof(g)], &g, sizeof(g));
        }
    }
    want = given;
    for (size_t s = 0; s < N_STEPS; s++) {
        struct ps_optim_step step = next_step(&want, params);
        memcpy(old, want.weights, sizeof(old));
        optim->apply(&step, want.weights, old, want.state, grads[s], N);
    }
    ck_assert_mem_ne(want.weights, given.weights, sizeof(want.weights));
}

static void assert_same(const struct ps_optim *optim, const struct page *got, const char *how)
{
    ck_assert_msg(memcmp(got->weights, want.weights, sizeof(want.weights)) == 0,
                  "%s: weights differ %s", optim->name, how);
    ck_assert_msg(memcmp(got->state, want.state, sizeof(want.state)) == 0, "%s: state differs %s",
                  optim->name, how);
}

START_TEST(every_optim_gives_the_same_bits_in_place)
{
    const struct ps_optim *optim = optim_at(_i);
    struct ps_optim_params params = params_of(optim);
    make_case(optim, &params);
    struct page page = given;
    for (size_t s = 0; s < N_STEPS; s++) {
        struct ps_optim_step step = next_step(&page, &params);
        optim->apply(&step, page.weights, page.weights, page.state, grads[s], N);
    }
    assert_same(optim, &page, "in place");
}
END_TEST

START_TEST(every_optim_gives_the_same_bits_in_odd_runs_from_any_address)
{
    const struct ps_optim *optim = optim_at(_i);
    struct ps_optim_params params = params_of(optim);
    static uint8_t raw[N * sizeof(float) + 4];
    struct ps_rng rng = ps_rng_from(test_seed());
    make_case(optim, &params);
    for (size_t shift = 1; shift < 4; shift++) {
        struct page page = given;
        for (size_t s = 0; s < N_STEPS; s++) {
            struct ps_optim_step step = next_step(&page, &params);
            static float old[N];
            memcpy(old, page.weights, sizeof(old));
            memcpy(raw + shift, grads[s], sizeof(grads[s]));
            for (size_t i = 0; i < N;) {
                size_t n = 1 + (size_t)ps_rng_below(&rng, 61);
                n = n < N - i ? n : N - i;
                const float *in = s % 2 == 0 ? page.weights + i : old + i;
                optim->apply(&step, page.weights + i, in, page.state + i,
                             raw + shift + i * sizeof(float), n);
                i += n;
            }
        }
        assert_same(optim, &page, "in odd runs");
    }
}
END_TEST

START_TEST(every_optim_that_derives_weights_gives_the_bits_of_an_update)
{
    const struct ps_optim *optim = optim_at(_i);
    struct ps_optim_params params = params_of(optim);
    static float got[N];
    if (optim->derive == NULL) {
        return;
    }
    make_case(optim, &params);
    for (size_t first = 0; first < N;) {
        size_t n = 1 + first % 37;
        n = n < N - first ? n : N - first;
        optim->derive(&params, 0.03f, got + first, want.state + first, N, n);
        first += n;
    }
    ck_assert_msg(memcmp(got, want.weights, sizeof(got)) == 0, "%s derives others", optim->name);
    /* A table knows by its state whether a row is there: no state, no weight. */
    float nothing[STATE_MAX] = {0.0f};
    optim->derive(&params, 0.03f, got, nothing, 1, 1);
    ck_assert(got[0] == 0.0f && !signbit(got[0]));
}
END_TEST

START_TEST(every_optim_leaves_old_weights_and_other_elements_alone)
{
    const struct ps_optim *optim = optim_at(_i);
    struct ps_optim_params params = params_of(optim);
    make_case(optim, &params);
    struct page page = given;
    static float out[N];
    struct ps_optim_step step = next_step(&page, &params);
    optim->apply(&step, out + 100, page.weights + 100, page.state + 100,
                 grads[0] + 100 * sizeof(float), 33);
    ck_assert_mem_eq(page.weights, given.weights, sizeof(page.weights));
    for (size_t i = 0; i < N; i++) {
        bool within = i >= 100 && i < 133;
        ck_assert(within || out[i] == 0.0f);
        for (size_t k = 0; k < STATE_MAX; k++) {
            bool written = page.state[k * N + i] != 0.0f;
            ck_assert_int_eq(written, within && k < optim->state_per_elem);
        }
    }
}
END_TEST

START_TEST(every_optim_changes_nothing_but_decay_when_the_gradient_is_zero)
{
    const struct ps_optim *optim = optim_at(_i);
    struct ps_optim_params params = optim->defaults;
    float rate = 0.03f;
    make_case(optim, &params);
    struct page page = given;
    memset(grads, 0, sizeof(grads));
    for (size_t s = 0; s < N_STEPS; s++) {
        ps_optim_page_next(&page.counters, &params);
        struct ps_optim_step step = ps_optim_step_of(&params, &page.counters, rate, 1.0f);
        step.stride = N;
        struct page before = page;
        optim->apply(&step, page.weights, page.weights, page.state, grads[s], N);
        for (size_t i = 0; i < N; i++) {
            float w = before.weights[i];
            float decayed = w - rate * (params.weight_decay * w);
            /* Proximal rules find the weight again in their state: it is rounded on the way. */
            float slack = optim->proximal ? 1e-6f * fabsf(w) : 0.0f;
            ck_assert(fabsf(page.weights[i] - decayed) <= slack);
        }
        if (!optim->proximal || s > 0) {
            ck_assert_mem_eq(page.state, before.state, sizeof(page.state));
        }
    }
}
END_TEST

/*
 * What is scaled is the same for all rules, and what l2 adds for all that are not proximal: the
 * gradient that the formula sees.
 */
START_TEST(every_optim_sees_the_scaled_gradient_plus_l2_times_the_weight)
{
    const struct ps_optim *optim = optim_at(_i);
    struct ps_optim_params params = params_of(optim);
    make_case(optim, &params);
    struct page page = given;
    for (size_t s = 0; s < N_STEPS; s++) {
        static uint8_t summed[N * sizeof(float)];
        struct ps_optim_step step = next_step(&page, &params);
        for (size_t i = 0; i < N; i++) {
            float g = 0.0f;
            memcpy(&g, grads[s] + i * sizeof(g), sizeof(g));
            g = step.scale * g + (optim->proximal ? 0.0f : params.l2 * page.weights[i]);
            memcpy(summed + i * sizeof(g), &g, sizeof(g));
        }
        struct ps_optim_params plain = params;
        plain.l2 = optim->proximal ? params.l2 : 0.0f;
        step.params = &plain;
        step.scale = 1.0f;
        optim->apply(&step, page.weights, page.weights, page.state, summed, N);
    }
    assert_same(optim, &page, "with l2 and scale in the gradient");
}
END_TEST

/* On f(w) = |w|^2 / 2 the gradient is w: steps must come close to 0, fast and slow rules alike. */
START_TEST(every_optim_descends_a_bowl)
{
    const struct ps_optim *optim = optim_at(_i);
    struct ps_optim_params params = optim->defaults;
    struct page page = {0};
    for (size_t i = 0; i < N; i++) {
        page.weights[i] = 1.0f - 2.0f * (float)i / N;
    }
    for (int s = 0; s < 2000; s++) {
        static uint8_t grad[sizeof(page.weights)];
        memcpy(grad, page.weights, sizeof(grad));
        ps_optim_page_next(&page.counters, &params);
        struct ps_optim_step step = ps_optim_step_of(&params, &page.counters, 0.05f, 1.0f);
        step.stride = N;
        optim->apply(&step, page.weights, page.weights, page.state, grad, N);
    }
    for (size_t i = 0; i < N; i++) {
        ck_assert_msg(fabsf(page.weights[i]) < 0.05f, "%s: w[%zu] = %g", optim->name, i,
                      (double)page.weights[i]);
    }
}
END_TEST

START_TEST(every_optim_moves_against_the_gradient_by_more_at_a_higher_rate)
{
    const struct ps_optim *optim = optim_at(_i);
    struct ps_optim_params params = optim->defaults;
    float moved[2] = {0};
    for (size_t k = 0; k < 2; k++) {
        float weight = 0.0f;
        float state[STATE_MAX] = {0};
        float g = 2.0f;
        uint8_t grad[sizeof(g)];
        memcpy(grad, &g, sizeof(grad));
        struct ps_optim_page counters = {0};
        ps_optim_page_next(&counters, &params);
        struct ps_optim_step step =
            ps_optim_step_of(&params, &counters, k == 0 ? 0.01f : 0.02f, 1.0f);
        step.stride = 1;
        optim->apply(&step, &weight, &weight, state, grad, 1);
        moved[k] = weight;
    }
    ck_assert_msg(moved[0] < 0.0f && moved[1] < moved[0], "%s: %g, %g", optim->name,
                  (double)moved[0], (double)moved[1]);
}
END_TEST

/* Rows are small pages: the same bits, each with a count of its own. */
START_TEST(every_optim_gives_a_row_the_bits_of_a_page_with_its_count)
{
    const struct ps_optim *optim = optim_at(_i);
    enum {
        WIDTH = 13,
        N_ROWS = N / WIDTH,
    };
    struct ps_optim_params params = params_of(optim);
    static struct ps_optim_rows rows;
    struct ps_optim_row_step step = {.rows = &rows, .rate = 0.03f, .scale = 0.7f, .width = WIDTH};
    make_case(optim, &params);
    ps_optim_rows_init(&rows, optim, &params);
    for (size_t r = 0; r < N_ROWS; r++) {
        size_t n_updates = r % (N_STEPS + 1); /* Of this row, at other times than its neighbours. */
        float weights[WIDTH];
        float state[WIDTH * STATE_MAX] = {0};
        float old[WIDTH * STATE_MAX] = {0};
        float page[WIDTH];
        struct ps_optim_page counters = {0};
        memcpy(weights, given.weights + r * WIDTH, sizeof(weights));
        memcpy(page, weights, sizeof(page));
        for (size_t s = 0; s < n_updates; s++) {
            const uint8_t *grad = grads[s] + r * WIDTH * sizeof(float);
            ps_optim_row_apply(&step, s + 1, weights, state, grad);
            ps_optim_page_next(&counters, &params);
            struct ps_optim_step whole = ps_optim_step_of(&params, &counters, 0.03f, 0.7f);
            whole.stride = WIDTH;
            optim->apply(&whole, page, page, old, grad, WIDTH);
        }
        ck_assert_mem_eq(weights, page, sizeof(page));
        ck_assert_mem_eq(state, old, sizeof(old));
    }
}
END_TEST

START_TEST(every_optim_refuses_settings_of_other_rules)
{
    const struct ps_optim *optim = optim_at(_i);
    struct ps_optim_params with_l1 = optim->defaults;
    struct ps_optim_params with_beta = optim->defaults;
    with_l1.l1 = 0.5f;
    with_beta.beta = 0.5f;
    ck_assert_int_eq(optim->check(&with_l1, NULL), optim->proximal ? PS_OK : PS_ERR_INVALID);
    ck_assert_int_eq(optim->check(&with_beta, NULL), optim->proximal ? PS_OK : PS_ERR_INVALID);
}
END_TEST

START_TEST(every_optim_accepts_its_defaults_and_refuses_what_would_give_nan)
{
    const struct ps_optim *optim = optim_at(_i);
    const float bad_rates[] = {NAN, INFINITY, 0.0f, -0.1f};
    const float bad_l2[] = {NAN, INFINITY, -0.1f};
    struct ps_error err = {0};
    ck_assert_int_eq(optim->check(&optim->defaults, &err), PS_OK);
    for (size_t i = 0; i < PS_ARRAY_LEN(bad_rates); i++) {
        struct ps_optim_params bad = optim->defaults;
        bad.lr = bad_rates[i];
        ck_assert_int_eq(optim->check(&bad, &err), PS_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(err.text, optim->name));
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(bad_l2); i++) {
        struct ps_optim_params bad = optim->defaults;
        bad.l2 = bad_l2[i];
        ck_assert_int_eq(optim->check(&bad, &err), PS_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(err.text, "l2"));
    }
}
END_TEST

START_TEST(every_optim_has_a_name_that_can_be_typed_and_is_its_own)
{
    const struct ps_optim *optim = optim_at(_i);
    ck_assert_uint_ge(strlen(optim->name), 1);
    ck_assert_uint_eq(strspn(optim->name, "abcdefghijklmnopqrstuvwxyz0123456789_"),
                      strlen(optim->name));
    ck_assert_ptr_eq(ps_optim_find(optim->name), optim);
    ck_assert_uint_ge(optim->version, 1);
    ck_assert_uint_ge(strlen(optim->help), 10);
}
END_TEST

static Suite *suite_optim_contract(void)
{
    size_t n = 0;
    (void)ps_optim_all(&n);
    int end = (int)n;
    Suite *suite = suite_create("optim_contract");
    TCase *tcase = tcase_create("every");
    tcase_add_loop_test(tcase, every_optim_gives_the_same_bits_in_place, 0, end);
    tcase_add_loop_test(tcase, every_optim_gives_the_same_bits_in_odd_runs_from_any_address, 0,
                        end);
    tcase_add_loop_test(tcase, every_optim_that_derives_weights_gives_the_bits_of_an_update, 0,
                        end);
    tcase_add_loop_test(tcase, every_optim_leaves_old_weights_and_other_elements_alone, 0, end);
    tcase_add_loop_test(tcase, every_optim_changes_nothing_but_decay_when_the_gradient_is_zero, 0,
                        end);
    tcase_add_loop_test(tcase, every_optim_sees_the_scaled_gradient_plus_l2_times_the_weight, 0,
                        end);
    tcase_add_loop_test(tcase, every_optim_descends_a_bowl, 0, end);
    tcase_add_loop_test(tcase, every_optim_moves_against_the_gradient_by_more_at_a_higher_rate, 0,
                        end);
    tcase_add_loop_test(tcase, every_optim_accepts_its_defaults_and_refuses_what_would_give_nan, 0,
                        end);
    tcase_add_loop_test(tcase, every_optim_gives_a_row_the_bits_of_a_page_with_its_count, 0, end);
    tcase_add_loop_test(tcase, every_optim_refuses_settings_of_other_rules, 0, end);
    tcase_add_loop_test(tcase, every_optim_has_a_name_that_can_be_typed_and_is_its_own, 0, end);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_optim_contract)
