/*
 * test_optim.c — each rule's formula: steps by hand, published oracle values, and a slow reference
 * in double; the registry and the counters of a page.
 *
 * Tolerance: rules work in float, so a step of the size of 1 may be off by a few 2^-24.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "optim/optim.h"
#include "optim/rows.h"

#define N_STEPS 3

struct oracle {
    const char *rule;
    const char *what;
    struct ps_optim_params params;
    float rate;
    float scale;
    float grads[N_STEPS];
    double weights[N_STEPS]; /* After each step, from 1. */
};

/* clang-format off */
static const struct oracle oracles[] = {
    {"sgd", "by hand", {.lr = 1.0f}, 0.1f, 1.0f,
     {0.5f, -1.0f, 0.25f}, {0.95, 1.05, 1.025}},
    {"sgd", "the scale comes before the rate", {.lr = 1.0f}, 0.1f, 0.5f,
     {1.0f, -2.0f, 0.5f}, {0.95, 1.05, 1.025}},
    {"sgd", "l2 adds to the scaled gradient", {.lr = 1.0f, .l2 = 0.1f}, 0.5f, 2.0f,
     {0.0f, 0.25f, 0.0f}, {0.95, 0.6525, 0.619875}},
    {"momentum", "by hand: v = 0.5, -0.55, -0.245", {.lr = 1.0f, .momentum = 0.9f}, 0.1f, 1.0f,
     {0.5f, -1.0f, 0.25f}, {0.95, 1.005, 1.0295}},
    {"momentum", "without memory it is sgd", {.lr = 1.0f}, 0.1f, 1.0f,
     {0.5f, -1.0f, 0.25f}, {0.95, 1.05, 1.025}},
    {"adagrad", "by hand: G = 0.25, 1.25, 1.3125", {.lr = 1.0f, .epsilon = 1e-8f}, 0.1f, 1.0f,
     {0.5f, -1.0f, 0.25f}, {0.9, 0.9894427191, 0.9676209015}},
    {"adam", "the first step has the size of the rate",
     {.lr = 1.0f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f}, 0.01f, 1.0f,
     {0.5f, 0.5f, 0.5f}, {0.99, 0.98, 0.97}},
    {"adamw", "published",
     {.lr = 1.0f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .weight_decay = 0.1f},
     0.01f, 1.0f, {0.5f, -1.0f, 0.25f}, {0.9890000002, 0.9916720354, 0.9920472700}},
};
/* clang-format on */

START_TEST(rules_give_their_oracle_values)
{
    const struct oracle *oracle = &oracles[_i];
    const struct ps_optim *optim = ps_optim_find(oracle->rule);
    ck_assert_ptr_nonnull(optim);
    ck_assert_int_eq(optim->check(&oracle->params, NULL), PS_OK);
    float weight = 1.0f;
    float state[4] = {0};
    ck_assert_uint_le(optim->state_per_elem, PS_ARRAY_LEN(state));
    struct ps_optim_page page = {0};
    for (size_t s = 0; s < N_STEPS; s++) {
        uint8_t grad[sizeof(float)];
        memcpy(grad, &oracle->grads[s], sizeof(grad));
        ps_optim_page_next(&page, &oracle->params);
        struct ps_optim_step step =
            ps_optim_step_of(&oracle->params, &page, oracle->rate, oracle->scale);
        step.stride = 1;
        optim->apply(&step, &weight, &weight, state, grad, 1);
        ck_assert_msg(fabs((double)weight - oracle->weights[s]) < 4e-7,
                      "%s, %s: step %zu gives %.10f, not %.10f", oracle->rule, oracle->what, s,
                      (double)weight, oracle->weights[s]);
    }
}
END_TEST

/*
 * Values published for each rule, on rows: t is the row's. adam is adamw without decay, computed in
 * double by the formula.
 */
START_TEST(rules_give_their_oracle_values_on_rows)
{
    static const struct {
        const char *rule;
        struct ps_optim_params params;
        float rate;
        float start;
        float grads[4];
        double weights[4];
    } rows[] = {
        {.rule = "ftrl",
         .params = {.lr = 0.1f, .beta = 1.0f, .l1 = 0.5f, .l2 = 0.1f},
         .rate = 0.1f,
         .grads = {1.0f, -0.5f, 2.0f, 2.0f},
         .weights = {-0.0248756219, -0.0013797566, -0.0619621745, -0.1113280541}},
        {.rule = "adamw",
         .params =
             {.lr = 1.0f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .weight_decay = 0.1f},
         .rate = 0.01f,
         .start = 1.0f,
         .grads = {0.5f, -1.0f, 0.25f},
         .weights = {0.9890000002, 0.9916720354, 0.9920472700}},
        {.rule = "adam",
         .params = {.lr = 1.0f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f},
         .rate = 0.01f,
         .start = 1.0f,
         .grads = {0.5f, 0.5f, 0.5f},
         .weights = {0.99, 0.98, 0.97}},
        {.rule = "adagrad",
         .params = {.lr = 1.0f, .epsilon = 1e-8f},
         .rate = 0.1f,
         .start = 1.0f,
         .grads = {0.5f, -1.0f, 0.25f},
         .weights = {0.9, 0.9894427191, 0.9676209015}},
        {.rule = "momentum",
         .params = {.lr = 1.0f, .momentum = 0.9f},
         .rate = 0.1f,
         .start = 1.0f,
         .grads = {0.5f, -1.0f, 0.25f},
         .weights = {0.95, 1.005, 1.0295}},
        {.rule = "sgd",
         .params = {.lr = 1.0f},
         .rate = 0.1f,
         .start = 1.0f,
         .grads = {0.5f, -1.0f, 0.25f},
         .weights = {0.95, 1.05, 1.025}},
    };
    static struct ps_optim_rows of_table;
    for (size_t r = 0; r < PS_ARRAY_LEN(rows); r++) {
        struct ps_optim_row_step step = {
            .rows = &of_table, .rate = rows[r].rate, .scale = 1.0f, .width = 1};
        float weight = rows[r].start;
        float state[2] = {0};
        ck_assert_int_eq(ps_optim_find(rows[r].rule)->check(&rows[r].params, NULL), PS_OK);
        ps_optim_rows_init(&of_table, ps_optim_find(rows[r].rule), &rows[r].params);
        for (size_t s = 0; s < 4 && rows[r].weights[s] != 0.0; s++) {
            uint8_t grad[sizeof(float)];
            memcpy(grad, &rows[r].grads[s], sizeof(grad));
            ps_optim_row_apply(&step, s + 1, &weight, state, grad);
            ck_assert_msg(fabs((double)weight - rows[r].weights[s]) < 4e-7,
                          "%s: step %zu gives %.10f, not %.10f", rows[r].rule, s, (double)weight,
                          rows[r].weights[s]);
        }
    }
}
END_TEST

/* What l1 holds down is exactly 0, and comes back when its gradients add up. */
START_TEST(ftrl_gives_weights_that_are_exactly_zero)
{
    struct ps_optim_params params = {.lr = 0.1f, .beta = 1.0f, .l1 = 1.0f};
    struct ps_optim_page page = {0};
    float weight = 0.0f;
    float state[2] = {0};
    const float grads[] = {0.6f, -0.6f, 0.9f, 0.9f, -0.9f};
    const bool zero[] = {true, true, true, false, true};
    for (size_t s = 0; s < PS_ARRAY_LEN(grads); s++) {
        uint8_t grad[sizeof(float)];
        memcpy(grad, &grads[s], sizeof(grad));
        ps_optim_page_next(&page, &params);
        struct ps_optim_step step = ps_optim_step_of(&params, &page, 0.1f, 1.0f);
        step.stride = 1;
        ps_optim_find("ftrl")->apply(&step, &weight, &weight, state, grad, 1);
        ck_assert_msg((weight == 0.0f) == zero[s], "step %zu: %g", s, (double)weight);
    }
}
END_TEST

/* Ten thousand steps in double, from a weight that is not 0 and with large sums of squares. */
START_TEST(ftrl_follows_a_reference_in_double)
{
    struct ps_optim_params params = {.lr = 0.1f, .beta = 1.0f, .l1 = 0.25f, .l2 = 0.125f};
    struct ps_optim_page page = {0};
    double alpha = (double)0.1f;
    float weight = 0.5f;
    float state[2] = {0};
    double w = 0.5;
    double z = -(0.5 * (1.0 / alpha + 0.125) + 0.25);
    double q = 0.0;
    for (uint64_t t = 0; t < 10000; t++) {
        float g = ps_rng_normal(ps_rng_at(1, 2, t)) + 0.125f;
        uint8_t grad[sizeof(float)];
        memcpy(grad, &g, sizeof(grad));
        ps_optim_page_next(&page, &params);
        struct ps_optim_step step = ps_optim_step_of(&params, &page, 0.1f, 1.0f);
        step.stride = 1;
        ps_optim_find("ftrl")->apply(&step, &weight, &weight, state, grad, 1);

        double square = (double)g * (double)g;
        z += (double)g - (sqrt(q + square) - sqrt(q)) / alpha * w;
        q += square;
        double beyond = fabs(z) - 0.25;
        w = beyond <= 0.0 ? 0.0 : -copysign(beyond, z) / ((1.0 + sqrt(q)) / alpha + 0.125);
        ck_assert_msg(fabs((double)weight - w) < 1e-5 + 1e-4 * fabs(w), "t %u: %.9f, not %.9f",
                      (unsigned)t, (double)weight, w);
    }
}
END_TEST

/* beta^t for any t, without pow(): products in double, each within a few hundred roundings. */
START_TEST(powers_of_a_row_are_those_of_the_formula)
{
    static struct ps_optim_rows rows;
    const float betas[] = {0.0f, 0.5f, 0.9f, 0.999f, 0.999999f};
    const uint64_t ts[] = {1,     2,     3,     255,     256,       257,       1000,
                           65535, 65536, 65537, 1000000, 123456789, UINT32_MAX};
    for (size_t b = 0; b < PS_ARRAY_LEN(betas); b++) {
        struct ps_optim_params params = {.beta1 = betas[b], .beta2 = betas[b]};
        double product = 1.0;
        ps_optim_rows_init(&rows, ps_optim_find("adam"), &params);
        for (uint64_t t = 0; t < 256; t++) {
            ck_assert(ps_optim_power(&rows.powers[0], t) == product);
            product *= (double)betas[b];
        }
        for (size_t i = 0; i < PS_ARRAY_LEN(ts); i++) {
            double want = pow((double)betas[b], (double)ts[i]);
            double got = ps_optim_power(&rows.powers[1], ts[i]);
            double slack = want < 1e-290 ? 1e-290 : 1e-9 * want;
            ck_assert_msg(fabs(got - want) <= slack, "%g ^ %llu: %g, not %g", (double)betas[b],
                          (unsigned long long)ts[i], got, want);
        }
    }
}
END_TEST

/* A thousand steps of adam in double: the float rule must follow, bias correction included. */
START_TEST(adam_follows_a_reference_in_double)
{
    struct ps_optim_params params = ps_optim_find("adam")->defaults;
    float weight = 1.0f;
    float state[2] = {0};
    double w = 1.0;
    double m = 0.0;
    double v = 0.0;
    double b1 = (double)params.beta1;
    double b2 = (double)params.beta2;
    struct ps_optim_page page = {0};
    for (int t = 1; t <= 1000; t++) {
        float g = (float)(t % 7) - 2.5f;
        uint8_t grad[sizeof(float)];
        memcpy(grad, &g, sizeof(grad));
        ps_optim_page_next(&page, &params);
        struct ps_optim_step step = ps_optim_step_of(&params, &page, 0.001f, 1.0f);
        step.stride = 1;
        ps_optim_find("adam")->apply(&step, &weight, &weight, state, grad, 1);

        m = b1 * m + (1.0 - b1) * (double)g;
        v = b2 * v + (1.0 - b2) * (double)g * (double)g;
        double m_hat = m / (1.0 - pow(b1, t));
        double v_hat = v / (1.0 - pow(b2, t));
        w -= (double)0.001f * m_hat / (sqrt(v_hat) + (double)params.epsilon);
        /* 1e-6 per 10 steps: 2^-24 of rounding per step, and a margin of 1.7. */
        ck_assert_msg(fabs((double)weight - w) < 1e-7 * (t + 5), "t %d: %.9f, not %.9f", t,
                      (double)weight, w);
    }
}
END_TEST

/* 64-bit FNV-1a. */
static uint64_t sum_of(const void *data, size_t n_bytes)
{
    const uint8_t *bytes = data;
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n_bytes; i++) {
        sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return sum;
}

/* A log is replayed to the bit by other builds: sums of weights and state after twenty updates. */
START_TEST(rules_give_the_same_bits_with_any_compiler)
{
    static const struct {
        const char *rule;
        uint64_t sum;
    } rows[] = {
        {"sgd", UINT64_C(0xbdb6cef56c43f735)},     {"momentum", UINT64_C(0xeeec2039a82fb8a0)},
        {"adagrad", UINT64_C(0x5db9899a6b185441)}, {"adam", UINT64_C(0x6b4e3f534143eb79)},
        {"adamw", UINT64_C(0xc68a0d1db74dac29)},   {"ftrl", UINT64_C(0xde8077ac8a387e8b)},
    };
    enum {
        N = 1003
    };
    static struct {
        float weights[N];
        float state[2 * N];
    } page;
    const struct ps_optim *optim = ps_optim_find(rows[_i].rule);
    struct ps_optim_params params = optim->defaults;
    struct ps_optim_page counters = {0};
    params.l2 = 0.003f;
    memset(&page, 0, sizeof(page));
    for (uint64_t s = 0; s < 20; s++) {
        static uint8_t grad[N * sizeof(float)];
        for (uint64_t i = 0; i < N; i++) {
            float g = ps_rng_normal(ps_rng_at(1, s, i));
            memcpy(grad + i * sizeof(g), &g, sizeof(g));
        }
        ps_optim_page_next(&counters, &params);
        struct ps_optim_step step = ps_optim_step_of(&params, &counters, 0.03f, 0.7f);
        step.stride = N;
        optim->apply(&step, page.weights, page.weights, page.state, grad, N);
    }
    uint64_t sum = sum_of(&page, sizeof(page));
    ck_assert_msg(sum == rows[_i].sum, "%s: 0x%016" PRIx64, rows[_i].rule, sum);
}
END_TEST

START_TEST(the_counters_of_a_zeroed_page_are_powers_of_the_betas)
{
    struct ps_optim_params params = {.beta1 = 0.5f, .beta2 = 0.25f};
    struct ps_optim_page page = {0};
    double power1 = 1.0;
    double power2 = 1.0;
    for (uint64_t t = 1; t <= 20; t++) {
        ps_optim_page_next(&page, &params);
        power1 *= 0.5;
        power2 *= 0.25;
        ck_assert_uint_eq(page.t, t);
        ck_assert(page.beta1_power == power1);
        ck_assert(page.beta2_power == power2);
        struct ps_optim_step step = ps_optim_step_of(&params, &page, 3.0f, 2.0f);
        ck_assert_ptr_eq(step.params, &params);
        ck_assert(step.rate == 3.0f && step.scale == 2.0f && step.t == t);
        ck_assert(step.beta1_power == power1 && step.beta2_power == power2);
    }
}
END_TEST

START_TEST(adam_stays_finite_when_the_powers_have_vanished)
{
    struct ps_optim_params params = ps_optim_find("adam")->defaults;
    struct ps_optim_step step = {
        .params = &params, .rate = 0.1f, .scale = 1.0f, .t = UINT64_MAX, .stride = 1};
    float weight = 1.0f;
    float state[2] = {0.25f, 0.25f};
    float g = 0.0f;
    uint8_t grad[sizeof(float)];
    memcpy(grad, &g, sizeof(grad));
    ps_optim_find("adam")->apply(&step, &weight, &weight, state, grad, 1);
    ck_assert(isfinite(weight));
}
END_TEST

START_TEST(rules_are_found_by_their_whole_name_only)
{
    size_t n = 0;
    const struct ps_optim *const *all = ps_optim_all(&n);
    const char *const names[] = {"sgd", "momentum", "adagrad", "adam", "adamw", "ftrl"};
    ck_assert_uint_ge(n, PS_ARRAY_LEN(names));
    for (size_t i = 0; i < PS_ARRAY_LEN(names); i++) {
        ck_assert_str_eq(all[i]->name, names[i]);
        ck_assert_ptr_eq(ps_optim_find(names[i]), all[i]);
    }
    ck_assert_ptr_null(ps_optim_find("ada"));
    ck_assert_ptr_null(ps_optim_find("adamw2"));
    ck_assert_ptr_null(ps_optim_find(""));
}
END_TEST

/* What a rule does not read must not be set: silence would be taken for an effect. */
START_TEST(parameters_outside_their_range_are_refused_by_name)
{
    static const struct {
        const char *rule;
        const char *field;
        struct ps_optim_params params;
    } rows[] = {
        {"momentum", "momentum", {.lr = 1.0f, .momentum = 1.0f}},
        {"momentum", "momentum", {.lr = 1.0f, .momentum = -0.1f}},
        {"momentum", "momentum", {.lr = 1.0f, .momentum = NAN}},
        {"adagrad", "epsilon", {.lr = 1.0f}},
        {"adagrad", "epsilon", {.lr = 1.0f, .epsilon = INFINITY}},
        {"adam", "beta1", {.lr = 1.0f, .beta1 = 1.0f, .beta2 = 0.9f, .epsilon = 1.0f}},
        {"adam", "beta2", {.lr = 1.0f, .beta1 = 0.9f, .beta2 = NAN, .epsilon = 1.0f}},
        {"adam", "epsilon", {.lr = 1.0f, .beta1 = 0.9f, .beta2 = 0.9f}},
        {"adamw", "decay", {.lr = 1.0f, .epsilon = 1.0f, .weight_decay = -1.0f}},
        {"adamw", "decay", {.lr = 1.0f, .epsilon = 1.0f, .weight_decay = NAN}},
        {"ftrl", "l1", {.lr = 1.0f, .beta = 1.0f, .l1 = -1.0f}},
        {"ftrl", "l1", {.lr = 1.0f, .beta = 1.0f, .l1 = NAN}},
        {"ftrl", "beta", {.lr = 1.0f}},
        {"ftrl", "beta", {.lr = 1.0f, .beta = INFINITY}},
        {"ftrl", "decay", {.lr = 1.0f, .beta = 1.0f, .weight_decay = 0.1f}},
        {"adagrad", "l1", {.lr = 1.0f, .epsilon = 1.0f, .l1 = 0.1f}},
        {"adam", "beta", {.lr = 1.0f, .epsilon = 1.0f, .beta = 0.1f}},
        {"sgd", "decay", {.lr = 1.0f, .weight_decay = 0.1f}},
        {"momentum", "decay", {.lr = 1.0f, .weight_decay = 0.1f}},
        {"adagrad", "decay", {.lr = 1.0f, .epsilon = 1.0f, .weight_decay = 0.1f}},
        {"adam", "decay", {.lr = 1.0f, .epsilon = 1.0f, .weight_decay = 0.1f}},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(rows); i++) {
        struct ps_error err = {0};
        ck_assert_int_eq(ps_optim_find(rows[i].rule)->check(&rows[i].params, &err), PS_ERR_INVALID);
        ck_assert_msg(strstr(err.text, rows[i].rule) == err.text &&
                          strstr(err.text, rows[i].field) != NULL,
                      "row %zu: '%s'", i, err.text);
    }
}
END_TEST

static Suite *suite_optim(void)
{
    Suite *suite = suite_create("optim");
    TCase *tcase = tcase_create("core");
    tcase_add_loop_test(tcase, rules_give_their_oracle_values, 0, (int)PS_ARRAY_LEN(oracles));
    tcase_add_test(tcase, rules_give_their_oracle_values_on_rows);
    tcase_add_test(tcase, ftrl_gives_weights_that_are_exactly_zero);
    tcase_add_test(tcase, ftrl_follows_a_reference_in_double);
    tcase_add_test(tcase, powers_of_a_row_are_those_of_the_formula);
    tcase_add_test(tcase, adam_follows_a_reference_in_double);
    tcase_add_loop_test(tcase, rules_give_the_same_bits_with_any_compiler, 0, 6);
    tcase_add_test(tcase, the_counters_of_a_zeroed_page_are_powers_of_the_betas);
    tcase_add_test(tcase, adam_stays_finite_when_the_powers_have_vanished);
    tcase_add_test(tcase, rules_are_found_by_their_whole_name_only);
    tcase_add_test(tcase, parameters_outside_their_range_are_refused_by_name);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_optim)
