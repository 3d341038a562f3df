/*
 * test_unpack.c — packed files as text in memory: cut like plain ones, up to a bound that holds
 * whatever a file says or hides; damage is found when the source is opened.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include <zstd.h>

#include "base/attr.h"
#include "base/limits.h"
#include "base/mem.h"
#include "data/learning.h"
#include "data/lines.h"
#include "data/source.h"
#include "data/texts.h"
#include "lib/test_main.h"
#include "unit/data/suites.h"
#include "unit/data/temp_folder.h"

#define GZIP          0
#define MEMBERS       1 /* gzip in two members. */
#define ZSTD          2
#define FRAMES        3 /* zstd in two frames. */
#define N_PACKINGS    4
#define PACKED_BYTES  (1u << 20)
#define OVERHEAD_MAX  (1u << 20) /* A stream, and what counts the blocks. */
#define UNPACK_BLOCKS (PS_UNPACK_BYTES / PS_STREAM_BYTES)

static struct temp_folder folder;
static uint8_t packed[PACKED_BYTES];

static void setup(void)
{
    temp_folder_make(&folder);
}

static void teardown(void)
{
    temp_folder_remove(&folder);
}

static size_t pack_one(int packing, const char *text, size_t n, uint8_t *out, size_t n_room)
{
    if (packing <= MEMBERS) {
        return pack_gzip((const uint8_t *)text, n, out, n_room);
    }
    size_t n_out = ZSTD_compress(out, n_room, text, n, 3);
    ck_assert(!ZSTD_isError(n_out));
    return n_out;
}

/* Into `packed`. */
static size_t pack(int packing, const char *text, size_t n)
{
    size_t n_first = packing == MEMBERS || packing == FRAMES ? n / 3 : n;
    size_t n_out = pack_one(packing, text, n_first, packed, sizeof(packed));
    return n_first == n ? n_out
                        : n_out + pack_one(packing, text + n_first, n - n_first, packed + n_out,
                                           sizeof(packed) - n_out);
}

static void put_packed(const char *name, int packing, const char *text, size_t n)
{
    temp_folder_put(&folder, name, packed, pack(packing, text, n));
}

static void put(const char *name, const char *text, size_t n)
{
    temp_folder_put(&folder, name, (const uint8_t *)text, n);
}

static struct ps_source *open_named(struct ps_mem *mem, const char *name, uint64_t unpack_bytes)
{
    char path[128];
    struct ps_source *source = NULL;
    struct ps_error err = {0};
    (void)snprintf(path, sizeof(path), "%s%s%s", folder.path, name[0] != '\0' ? "/" : "", name);
    ck_assert_msg(ps_source_open_within(mem, path, unpack_bytes, &source, &err) == PS_OK, "%s",
                  err.text);
    return source;
}

/* Lines of many lengths, at random, with "\r\n" and empty ones among them; no line end at last. */
static char *make_text(size_t n, size_t n_line_max, unsigned seed)
{
    char *text = malloc(n + 1);
    ck_assert_ptr_nonnull(text);
    uint64_t chance = seed;
    size_t n_left = 0;
    for (size_t i = 0; i < n; i++) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        text[i] = (char)('a' + (chance >> 40) % 26);
        if (n_left-- == 0) {
            text[i] = '\n';
            n_left = (chance >> 33) % n_line_max;
            if (i > 0 && (chance & (1u << 20)) != 0) {
                text[i - 1] = '\r';
            }
        }
    }
    text[n] = '\0';
    return text;
}

static void check_same_part(struct ps_lines *one, struct ps_part one_part, struct ps_lines *other,
                            struct ps_part other_part)
{
    struct ps_line line = {0};
    struct ps_line other_line = {0};
    ck_assert_uint_eq(one_part.file, other_part.file);
    ck_assert_uint_eq(one_part.begin, other_part.begin);
    ck_assert_uint_eq(one_part.end, other_part.end);
    ck_assert_int_eq(ps_lines_start(one, one_part, NULL), PS_OK);
    ck_assert_int_eq(ps_lines_start(other, other_part, NULL), PS_OK);
    do {
        ck_assert_int_eq(ps_lines_next(one, &line, NULL), PS_OK);
        ck_assert_int_eq(ps_lines_next(other, &other_line, NULL), PS_OK);
        ck_assert_int_eq(line.kind, other_line.kind);
        ck_assert_uint_eq(line.number, other_line.number);
        ck_assert_uint_eq(line.n_bytes, other_line.n_bytes);
        ck_assert_int_eq(memcmp(line.text, other_line.text, line.n_bytes), 0);
    } while (line.kind != PS_LINE_END);
}

static void check_same_parts(const struct ps_source *one, const struct ps_source *other,
                             uint64_t part_bytes)
{
    struct ps_lines *lines = ps_lines_create(NULL, one);
    struct ps_lines *other_lines = ps_lines_create(NULL, other);
    ck_assert(lines != NULL && other_lines != NULL);
    uint64_t n = ps_source_parts(one, part_bytes);
    ck_assert_uint_eq(n, ps_source_parts(other, part_bytes));
    for (uint64_t i = 0; i < n; i++) {
        check_same_part(lines, ps_source_part(one, part_bytes, i), other_lines,
                        ps_source_part(other, part_bytes, i));
    }
    ps_lines_destroy(lines);
    ps_lines_destroy(other_lines);
}

START_TEST(parts_of_a_packed_file_are_those_of_the_plain_one_for_every_size)
{
    size_t n = 1 + (size_t)(_i / N_PACKINGS) * 83;
    char *text = make_text(n, 12, (unsigned)_i);
    put("plain", text, n);
    put_packed("packed", _i % N_PACKINGS, text, n);
    free(text);
    struct ps_source *plain = open_named(NULL, "plain", PS_UNPACK_BYTES);
    struct ps_source *source = open_named(NULL, "packed", PS_UNPACK_BYTES);
    ck_assert_uint_eq(source->n_bytes, n);
    ck_assert_uint_eq(ps_source_single(source, NULL, 0), 0);
    for (uint64_t part_bytes = 1; part_bytes <= n + 1; part_bytes++) {
        check_same_parts(plain, source, part_bytes);
    }
    ps_source_close(plain);
    ps_source_close(source);
}
END_TEST

/* Texts longer than a block of memory, one behind the other, with lines across their borders. */
START_TEST(long_texts_are_cut_like_plain_ones)
{
    static const size_t sizes[] = {PS_STREAM_BYTES - 1, 2 * PS_STREAM_BYTES + 5, 0,
                                   PS_STREAM_BYTES};
    struct temp_folder plain_folder = folder;
    struct temp_folder packed_folder;
    temp_folder_make(&packed_folder);
    for (int i = 0; i < (int)PS_ARRAY_LEN(sizes); i++) {
        char name[2] = {(char)('a' + i), '\0'};
        char *text = make_text(sizes[i], 40000, (unsigned)i + 1);
        put(name, text, sizes[i]);
        folder = packed_folder;
        put_packed(name, (i + _i) % N_PACKINGS, text, sizes[i]);
        folder = plain_folder;
        free(text);
    }
    struct ps_source *plain = open_named(NULL, "", PS_UNPACK_BYTES);
    folder = packed_folder;
    struct ps_source *source = open_named(NULL, "", PS_UNPACK_BYTES);
    static const uint64_t part_bytes[] = {997, PS_STREAM_BYTES - 1, PS_STREAM_BYTES,
                                          PS_STREAM_BYTES + 1, UINT64_MAX};
    for (size_t i = 0; i < PS_ARRAY_LEN(part_bytes); i++) {
        check_same_parts(plain, source, part_bytes[i]);
    }
    ps_source_close(plain);
    ps_source_close(source);
    temp_folder_remove(&packed_folder);
    folder = plain_folder;
}
END_TEST

START_TEST(what_is_unpacked_is_not_read_from_the_disk_again)
{
    put_packed("packed", _i, "1\n2\n3", 5);
    put("plain", "1\n2\n3", 5);
    struct ps_source *plain = open_named(NULL, "plain", PS_UNPACK_BYTES);
    struct ps_source *source = open_named(NULL, "packed", PS_UNPACK_BYTES);
    ck_assert_int_eq(unlink(source->files[0].path), 0);
    check_same_parts(plain, source, 2);
    ps_source_close(plain);
    ps_source_close(source);
}
END_TEST

/* Texts of 3000, 2000 and 1000 bytes that pack to less than 100, between plain files. */
static const struct {
    uint64_t unpack_bytes;
    uint32_t n_single;
    const char *words;
} bounds[] = {
    {0, 3, "3 of 5 files can be read by one worker at a time only, from 'b' on: unpack them"},
    {2999, 3, "from 'b' on: packed files are cut up to 0.00286007 MiB of text in all"},
    {3000, 2, "2 of 5 files can be read by one worker at a time only, from 'd' on: packed"},
    {4999, 2, "from 'd' on"}, /* Although "e" would have room. */
    {5000, 1, "1 of 5 files"},
    {5999, 1, "from 'e' on"},
    {6000, 0, ""},
    {PS_UNPACK_BYTES, 0, ""},
};

START_TEST(from_the_first_that_does_not_fit_on_files_stay_one_part)
{
    static const uint32_t packed_files[] = {1, 3, 4};
    char text[3000];
    memset(text, 'x', sizeof(text));
    put("a", text, 10);
    put("c", text, 7);
    put_packed("b", GZIP, text, 3000);
    put_packed("d", FRAMES, text, 2000);
    put_packed("e", MEMBERS, text, 1000);
    struct ps_mem mem;
    ps_mem_init(&mem);
    struct ps_source *source = open_named(&mem, "", bounds[_i].unpack_bytes);
    char words[256] = "none";
    uint32_t n_single = ps_source_single(source, words, sizeof(words));
    ck_assert_uint_eq(n_single, bounds[_i].n_single);
    ck_assert_msg(strstr(words, bounds[_i].words) != NULL, "'%s'", words);
    ck_assert(n_single > 0 || words[0] == '\0');
    uint64_t n_bytes = 17;
    uint64_t n_parts = 17;
    for (uint32_t i = 0; i < 3; i++) {
        const struct ps_source_file *file = &source->files[packed_files[i]];
        bool single = i >= 3 - n_single;
        ck_assert_int_eq(file->packing != PS_PACKING_NONE, single);
        ck_assert_uint_eq(file->n_bytes, single ? file->n_disk : 3000 - 1000 * (uint64_t)i);
        n_bytes += file->n_bytes;
        n_parts += single ? 1 : file->n_bytes;
    }
    ck_assert_uint_eq(source->n_bytes, n_bytes);
    ck_assert_uint_eq(ps_source_parts(source, 1), n_parts);
    /* Each is read to its end, packed or not. */
    struct ps_source *whole = open_named(NULL, "", PS_UNPACK_BYTES);
    struct ps_lines *lines = ps_lines_create(NULL, source);
    for (uint32_t i = 0; i < 5; i++) {
        struct ps_line line = {0};
        ck_assert_int_eq(ps_lines_start(lines, ps_source_whole(source, i), NULL), PS_OK);
        ck_assert_int_eq(ps_lines_next(lines, &line, NULL), PS_OK);
        ck_assert_uint_eq(line.n_bytes, whole->files[i].n_bytes);
    }
    ps_lines_destroy(lines);
    ps_source_close(whole);
    ps_source_close(source);
    ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
}
END_TEST

/*
 * A few hundred KiB that unpack to the bound, and to one byte more. The budget has room for the
 * bound, so a bomb that took more would be refused.
 */
START_TEST(a_bomb_costs_no_more_than_the_bound)
{
    int packing = _i / 2 == 0 ? GZIP : ZSTD;
    bool beyond = _i % 2 == 1;
    size_t n_text = PS_UNPACK_BYTES / 256;
    char *text = malloc(n_text);
    ck_assert_ptr_nonnull(text);
    memset(text, 'x', n_text);
    size_t n_one = pack_one(packing, text, n_text, packed, sizeof(packed));
    uint8_t *bomb = malloc(256 * n_one + 100);
    ck_assert_ptr_nonnull(bomb);
    for (size_t i = 0; i < 256; i++) {
        memcpy(bomb + i * n_one, packed, n_one);
    }
    size_t n = 256 * n_one;
    n += beyond ? pack_one(packing, "x", 1, bomb + n, 100) : 0;
    temp_folder_put(&folder, "bomb", bomb, n);
    free(text);
    free(bomb);
    struct ps_mem mem;
    ps_mem_init(&mem);
    mem.limit[PS_MEM_DATA] = PS_UNPACK_BYTES + UNPACK_BLOCKS * 128 + OVERHEAD_MAX;
    struct ps_source *source = open_named(&mem, "bomb", PS_UNPACK_BYTES);
    ck_assert_uint_eq(ps_source_single(source, NULL, 0), beyond);
    ck_assert_uint_eq(source->n_bytes, beyond ? n : PS_UNPACK_BYTES);
    ck_assert(!beyond || mem.used[PS_MEM_DATA] < OVERHEAD_MAX);
    ps_source_close(source);
    ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
}
END_TEST

START_TEST(small_files_share_memory)
{
    for (int i = 0; i < 100; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "f%02d", i);
        put_packed(name, i % N_PACKINGS, "1 1:1\n2 2:2\n", 12);
    }
    struct ps_mem mem;
    ps_mem_init(&mem);
    struct ps_source *source = open_named(&mem, "", PS_UNPACK_BYTES);
    ck_assert_uint_eq(source->n_bytes, 1200);
    ck_assert_uint_lt(mem.used[PS_MEM_DATA], 2 * PS_STREAM_BYTES);
    ps_source_close(source);
}
END_TEST

enum damage {
    FLIPPED,
    CUT,
    NO_TEXT, /* The magic number and nothing else. */
    FOLLOWED,
    LYING, /* About its length. */
    DAMAGES
};

static size_t spoil(enum damage damage, int packing, size_t n)
{
    switch (damage) {
    case FLIPPED:
        packed[4 + (n - 4) / 2] ^= 0x55;
        packed[n - 6] ^= 0x55;
        return n;
    case CUT: return n - 1;
    case NO_TEXT: return 4;
    case FOLLOWED: memcpy(packed + n, "1 1:1\n", 6); return n + 6;
    case LYING:
        /* The last 4 bytes of gzip; after magic and descriptor in a frame of zstd. */
        packed[packing == GZIP ? n - 4 : 5] ^= 1;
        return n;
    case DAMAGES: break;
    }
    return n;
}

START_TEST(damage_is_found_when_the_source_is_opened)
{
    int packing = _i / DAMAGES == 0 ? GZIP : ZSTD;
    char *text = make_text(4096, 20, 3);
    put_packed("a", ZSTD, text, 4096);
    size_t n = spoil((enum damage)(_i % DAMAGES), packing, pack(packing, text, 4096));
    temp_folder_put(&folder, "b", packed, n);
    free(text);
    struct ps_mem mem;
    ps_mem_init(&mem);
    struct ps_source *source = NULL;
    struct ps_error err = {0};
    char name[128];
    (void)snprintf(name, sizeof(name), "'%s/b': the packed data are damaged (", folder.path);
    ck_assert_int_eq(ps_source_open(&mem, folder.path, &source, &err), PS_ERR_INVALID);
    ck_assert_msg(strncmp(err.text, name, strlen(name)) == 0, "'%s'", err.text);
    ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
}
END_TEST

START_TEST(a_packed_file_without_text_is_empty)
{
    put_packed("a", _i, "", 0);
    struct ps_source *source = NULL;
    struct ps_error err = {0};
    ck_assert_int_eq(ps_source_open(NULL, folder.path, &source, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "is empty"));
    put("b", "1\n", 2);
    source = open_named(NULL, "", PS_UNPACK_BYTES);
    ck_assert_uint_eq(ps_source_parts(source, 1), 2);
    ps_source_close(source);
}
END_TEST

START_TEST(every_refused_allocation_is_reported_and_leaves_nothing)
{
    size_t n = 2 * (size_t)PS_STREAM_BYTES;
    char *text = make_text(n, 100, 5);
    put_packed("a", GZIP, text, n);
    put_packed("b", ZSTD, text, 1000);
    free(text);
    enum ps_status status = PS_ERR_NOMEM;
    int64_t k = 0;
    bool named = false;
    for (; status != PS_OK && k < 50; k++) {
        struct ps_mem mem;
        struct ps_source *source = NULL;
        struct ps_error err = {0};
        ps_mem_init(&mem);
        mem.fail_after = k;
        status = ps_source_open(&mem, folder.path, &source, &err);
        ck_assert_msg(status == PS_OK || status == PS_ERR_NOMEM, "k %d: %s", (int)k, err.text);
        ck_assert(status == PS_OK || err.text[0] != '\0');
        named = named || strstr(err.text, "cannot unpack") != NULL;
        ps_source_close(source);
        ck_assert_uint_eq(mem.used[PS_MEM_DATA], 0);
    }
    ck_assert_int_eq(status, PS_OK);
    ck_assert(named);
    ck_assert_int_gt(k, 10);
}
END_TEST

static char *describe(const struct ps_source *source, uint64_t learn_bytes, bool *ret_all_seen)
{
    struct ps_learn_options options = {.learn_bytes = learn_bytes};
    struct ps_description *description = NULL;
    struct ps_error err = {0};
    char *text = NULL;
    ck_assert_msg(ps_learn(source, &options, &description, &err) == PS_OK, "%s", err.text);
    ck_assert_int_eq(ps_description_write(description, &text, NULL), PS_OK);
    *ret_all_seen = description->all_seen;
    ps_description_destroy(description);
    return text;
}

/* 4 MiB of lines that are a little different from one another; whole, and pieces of it. */
START_TEST(the_same_is_learnt_from_packed_and_from_plain)
{
    size_t n_room = 4u << 20;
    char *text = malloc(n_room);
    ck_assert_ptr_nonnull(text);
    size_t n = 0;
    for (unsigned i = 0; n + 64 < n_room; i++) {
        n += (size_t)snprintf(text + n, n_room - n, "%u %u:1\n", i % 2, 1 + i);
    }
    put("plain", text, n);
    size_t n_packed_room = n_room;
    uint8_t *out = malloc(n_packed_room);
    ck_assert_ptr_nonnull(out);
    temp_folder_put(&folder, "packed", out,
                    pack_one(_i % 2 == 0 ? GZIP : ZSTD, text, n, out, n_packed_room));
    free(out);
    free(text);
    struct ps_source *plain = open_named(NULL, "plain", PS_UNPACK_BYTES);
    struct ps_source *source = open_named(NULL, "packed", PS_UNPACK_BYTES);
    uint64_t learn_bytes = _i / 2 == 0 ? 0 : 3u << 20;
    bool all_seen[2] = {false, false};
    char *one = describe(plain, learn_bytes, &all_seen[0]);
    char *other = describe(source, learn_bytes, &all_seen[1]);
    ck_assert_str_eq(one, other);
    ck_assert_int_eq(all_seen[0], learn_bytes == 0);
    ck_assert_int_eq(all_seen[1], learn_bytes == 0);
    ps_mem_free(one);
    ps_mem_free(other);
    ps_source_close(plain);
    ps_source_close(source);
}
END_TEST

/* It packs far better than text does; opening it has told that it is long. */
START_TEST(of_a_file_too_long_to_be_unpacked_only_the_beginning_is_learnt_from)
{
    size_t n = 600000;
    char *text = malloc(n);
    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < n; i += 12) {
        memcpy(text + i, "0 1:1\n1 1:1\n", 12);
    }
    put_packed("packed", _i, text, n);
    free(text);
    bool all_seen = true;
    struct ps_source *source = open_named(NULL, "packed", 100000);
    ck_assert_uint_lt(source->files[0].n_disk, 10000);
    ps_mem_free(describe(source, 100000, &all_seen));
    ck_assert(!all_seen);
    ps_source_close(source);
}
END_TEST

Suite *suite_unpack(void)
{
    Suite *suite = suite_create("unpack");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, parts_of_a_packed_file_are_those_of_the_plain_one_for_every_size, 0,
                        4 * N_PACKINGS);
    tcase_add_loop_test(tcase, long_texts_are_cut_like_plain_ones, 0, N_PACKINGS);
    tcase_add_loop_test(tcase, what_is_unpacked_is_not_read_from_the_disk_again, 0, N_PACKINGS);
    tcase_add_loop_test(tcase, from_the_first_that_does_not_fit_on_files_stay_one_part, 0,
                        (int)PS_ARRAY_LEN(bounds));
    tcase_add_loop_test(tcase, a_bomb_costs_no_more_than_the_bound, 0, 4);
    tcase_add_test(tcase, small_files_share_memory);
    tcase_add_loop_test(tcase, damage_is_found_when_the_source_is_opened, 0, 2 * DAMAGES);
    tcase_add_loop_test(tcase, a_packed_file_without_text_is_empty, 0, N_PACKINGS);
    tcase_add_test(tcase, every_refused_allocation_is_reported_and_leaves_nothing);
    tcase_add_loop_test(tcase, the_same_is_learnt_from_packed_and_from_plain, 0, 4);
    tcase_add_loop_test(tcase, of_a_file_too_long_to_be_unpacked_only_the_beginning_is_learnt_from,
                        0, N_PACKINGS);
    suite_add_tcase(suite, tcase);
    return suite;
}
