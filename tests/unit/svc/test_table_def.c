/*
 * test_table_def.c — definitions of tables: what a server can make, what it refuses and how.
 */
#include <math.h>
#include <string.h>

#include "coordinator.pb-c.h"
#include "lib/test_main.h"
#include "suites.h"
#include "svc/table_def.h"

static Ps__V1__TableDefinition definition;
static Ps__V1__Optimizer optimizer;
static uint64_t shape[PS_DIMS_MAX + 1];
static char name[PS_NAME_BYTES_MAX + 2];
static char rule[16];

static void fresh(void)
{
    ps__v1__table_definition__init(&definition);
    ps__v1__optimizer__init(&optimizer);
    memcpy(name, "w", 2);
    memcpy(rule, "adam", 5);
    shape[0] = 100;
    shape[1] = 7;
    definition.name = name;
    definition.n_shape = 2;
    definition.shape = shape;
    definition.dtype = PS__V1__TABLE_DTYPE__FLOAT32;
    definition.init = PS__V1__INIT_KIND__NORMAL;
    definition.init_scale = 0.1f;
    definition.seed = 9;
    optimizer.name = rule;
    optimizer.beta1 = 0.9f;
    optimizer.beta2 = 0.99f;
    optimizer.epsilon = 1e-8f;
    definition.optimizer = &optimizer;
}

START_TEST(a_definition_becomes_layout_optimizer_and_pages)
{
    fresh();
    Ps__V1__Table table = PS__V1__TABLE__INIT;
    table.number = 3;
    table.first_slot = 60;
    table.definition = &definition;
    struct ps_layout layout;
    struct ps_table_info info;
    ck_assert_int_eq(ps_table_def_read(&table, &layout, &info, NULL), PS_OK);
    ck_assert_uint_eq(layout.n_elements, 700);
    ck_assert_uint_eq(layout.first_slot, 60);
    ck_assert_uint_eq(info.spec.id, 3);
    ck_assert_uint_eq(info.spec.n_elements, 700);
    ck_assert_uint_eq(info.spec.block_floats, layout.block_floats);
    ck_assert_uint_eq(info.spec.state_per_elem, 2);
    ck_assert_str_eq(info.spec.name, "w");
    ck_assert_str_eq(info.optim->name, "adam");
    ck_assert(info.params.beta2 == 0.99f);
    ck_assert_uint_eq(info.spec.init.seed, 9);
}
END_TEST

START_TEST(without_an_optimizer_it_is_sgd)
{
    fresh();
    definition.optimizer = NULL;
    ck_assert_int_eq(ps_table_def_check(&definition, NULL, NULL), PS_OK);
    definition.optimizer = &optimizer;
    rule[0] = '\0';
    optimizer = (Ps__V1__Optimizer)PS__V1__OPTIMIZER__INIT;
    ck_assert_int_eq(ps_table_def_check(&definition, NULL, NULL), PS_OK);
}
END_TEST

static void sparse(void)
{
    fresh();
    definition.kind = PS__V1__TABLE_KIND__SPARSE;
    definition.n_shape = 0;
    definition.width = 16;
    definition.expire_after = 7;
}

START_TEST(a_sparse_definition_becomes_rows_without_blocks)
{
    sparse();
    definition.admit_after = _i == 0 ? 1 : 3;
    Ps__V1__Table table = PS__V1__TABLE__INIT;
    table.number = 3;
    table.definition = &definition;
    struct ps_layout layout = {.n_blocks = 9};
    struct ps_table_info info;
    ck_assert_int_eq(ps_table_def_read(&table, &layout, &info, NULL), PS_OK);
    ck_assert_uint_eq(layout.n_blocks, 0);
    ck_assert_uint_eq(layout.n_elements, 0);
    ck_assert(info.sparse);
    ck_assert_str_eq(info.spec.name, "w");
    ck_assert_uint_eq(info.rows.id, 3);
    ck_assert_uint_eq(info.rows.width, 16);
    ck_assert_uint_eq(info.rows.state_per_elem, 2);
    ck_assert_uint_eq(info.rows.expire_after, 7);
    ck_assert_uint_eq(info.rows.init.seed, 9);
    uint64_t n_bytes = 77;
    ck_assert_int_eq(ps_table_def_check(&definition, &n_bytes, NULL), PS_OK);
    ck_assert_uint_ge(n_bytes, _i == 0 ? PS_SLOTS : PS_SLOTS * PS_ADMIT_BYTES);
}
END_TEST

/* The coordinator refuses a table by this number, in time; a server that has no memory for one that
 * is defined leaves the job. */
START_TEST(what_a_sparse_table_needs_before_its_first_row_is_known)
{
    static const uint32_t widths[] = {1, 16, PS_ROW_FLOATS_MAX};
    struct ps_table_info info;
    struct ps_layout layout;
    struct ps_mem mem;
    ps_mem_init(&mem);
    sparse();
    definition.width = widths[_i / 2];
    definition.admit_after = _i % 2 == 0 ? 0 : 3;
    uint64_t n_bytes = 0;
    ck_assert_int_eq(ps_table_def_check(&definition, &n_bytes, NULL), PS_OK);
    Ps__V1__Table table = PS__V1__TABLE__INIT;
    table.definition = &definition;
    ck_assert_int_eq(ps_table_def_read(&table, &layout, &info, NULL), PS_OK);
    struct ps_sparse *rows = NULL;
    ck_assert_int_eq(ps_sparse_create(&info.rows, &mem, &rows, NULL), PS_OK);
    uint64_t n_used = atomic_load(&mem.used[PS_MEM_PAGES]);
    ck_assert_uint_ge(n_bytes, PS_SLOTS * n_used);
    ck_assert_uint_le(n_bytes, PS_SLOTS * (n_used + n_used / 8));
    ps_sparse_destroy(rows);
}
END_TEST

/* Numbers of a rule that others refuse; a beta that is not given is the usual one. */
START_TEST(ftrl_is_told_its_own_numbers)
{
    struct ps_layout layout;
    struct ps_table_info info;
    Ps__V1__Table table = PS__V1__TABLE__INIT;
    sparse();
    table.definition = &definition;
    optimizer = (Ps__V1__Optimizer)PS__V1__OPTIMIZER__INIT;
    optimizer.name = rule;
    memcpy(rule, "ftrl", 5);
    optimizer.l1 = 0.5f;
    ck_assert_int_eq(ps_table_def_read(&table, &layout, &info, NULL), PS_OK);
    ck_assert(info.params.l1 == 0.5f && info.params.beta == 1.0f);
    optimizer.beta = 2.0f;
    ck_assert_int_eq(ps_table_def_read(&table, &layout, &info, NULL), PS_OK);
    ck_assert(info.params.beta == 2.0f);
    optimizer.beta = -2.0f;
    ck_assert_int_eq(ps_table_def_read(&table, &layout, &info, NULL), PS_ERR_INVALID);
    memcpy(rule, "sgd", 4);
    optimizer.beta = 0.0f;
    ck_assert_int_eq(ps_table_def_read(&table, &layout, &info, NULL), PS_ERR_INVALID);
}
END_TEST

static void no_dtype(void)
{
    definition.dtype = PS__V1__TABLE_DTYPE__DTYPE_UNSET;
}
static void long_name(void)
{
    memset(name, 'x', PS_NAME_BYTES_MAX + 1);
}
static void no_shape(void)
{
    definition.n_shape = 0;
}
static void nine_dimensions(void)
{
    definition.n_shape = PS_DIMS_MAX + 1;
}
static void empty_dimension(void)
{
    shape[1] = 0;
}
static void wrapping_shape(void)
{
    shape[0] = 1ull << 33;
    shape[1] = 1ull << 33;
}
static void unknown_rule(void)
{
    memcpy(rule, "newton", 7);
}
static void bad_beta(void)
{
    optimizer.beta1 = 1.0f;
}
static void unknown_init(void)
{
    definition.init = (Ps__V1__InitKind)77;
}
static void nan_scale(void)
{
    definition.init_scale = NAN;
}
static void unknown_kind(void)
{
    definition.kind = (Ps__V1__TableKind)2;
}
static void dense_with_width(void)
{
    definition.width = 1;
}
static void dense_with_age(void)
{
    definition.expire_after = 1;
}
static void rows_with_shape(void)
{
    definition.kind = PS__V1__TABLE_KIND__SPARSE;
    definition.width = 1;
}
static void rows_without_width(void)
{
    sparse();
    definition.width = 0;
}
static void rows_too_wide(void)
{
    sparse();
    definition.width = PS_ROW_FLOATS_MAX + 1;
}
static void admitted_too_late(void)
{
    sparse();
    definition.admit_after = PS_ADMIT_AFTER_MAX + 1;
}
/* One block more than every slot can send in PS_FRAGMENTS_MAX calls. */
static void too_many_calls(void)
{
    definition.n_shape = 1;
    shape[0] = (uint64_t)PS_SLOTS * PS_FRAGMENTS_MAX * PS_BLOCK_FLOATS_MAX + 1;
}

/* clang-format off */
static const struct {
    void (*lie)(void);
    const char *words;
} lies[] = {
    {no_dtype, "dtype"}, {long_name, "too long"}, {no_shape, "dimensions"},
    {nine_dimensions, "too long"}, {empty_dimension, "is 0"}, {wrapping_shape, "elements"},
    {unknown_rule, "'newton'"}, {bad_beta, "beta1"}, {unknown_init, "initialiser 77"},
    {nan_scale, "scale"}, {too_many_calls, "calls per slot"}, {unknown_kind, "kind 2"},
    {dense_with_width, "width 1"}, {dense_with_age, "expire_after 1"},
    {rows_with_shape, "no shape"}, {rows_without_width, "0 floats"},
    {rows_too_wide, "4097 floats"}, {admitted_too_late, "256 pushes"},
};
/* clang-format on */

START_TEST(what_no_server_can_make_is_refused_with_the_field)
{
    fresh();
    lies[_i].lie();
    struct ps_error err = {0};
    ck_assert_msg(ps_table_def_check(&definition, NULL, &err) == PS_ERR_INVALID, "%s",
                  lies[_i].words);
    ck_assert_msg(strstr(err.text, lies[_i].words) != NULL, "want '%s', got '%s'", lies[_i].words,
                  err.text);
}
END_TEST

START_TEST(the_largest_table_that_its_calls_can_carry_is_fine)
{
    fresh();
    too_many_calls();
    shape[0]--;
    ck_assert_int_eq(ps_table_def_check(&definition, NULL, NULL), PS_OK);
}
END_TEST

START_TEST(a_table_without_definition_or_place_is_refused)
{
    fresh();
    Ps__V1__Table table = PS__V1__TABLE__INIT;
    struct ps_layout layout;
    struct ps_table_info info;
    ck_assert_int_eq(ps_table_def_read(&table, &layout, &info, NULL), PS_ERR_INVALID);
    table.definition = &definition;
    table.first_slot = PS_SLOTS;
    ck_assert_int_eq(ps_table_def_read(&table, &layout, &info, NULL), PS_ERR_INVALID);
}
END_TEST

Suite *suite_table_def(void)
{
    Suite *suite = suite_create("table_def");
    TCase *tcase = tcase_create("table_def");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_definition_becomes_layout_optimizer_and_pages);
    tcase_add_test(tcase, without_an_optimizer_it_is_sgd);
    tcase_add_loop_test(tcase, a_sparse_definition_becomes_rows_without_blocks, 0, 2);
    tcase_add_loop_test(tcase, what_a_sparse_table_needs_before_its_first_row_is_known, 0, 6);
    tcase_add_test(tcase, ftrl_is_told_its_own_numbers);
    tcase_add_loop_test(tcase, what_no_server_can_make_is_refused_with_the_field, 0,
                        PS_ARRAY_LEN(lies));
    tcase_add_test(tcase, the_largest_table_that_its_calls_can_carry_is_fine);
    tcase_add_test(tcase, a_table_without_definition_or_place_is_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}
