/*
 * test_part.c — ReadPart gives every file of a snapshot, piece by piece and to the byte, and
 * nothing else of the disk, whatever is asked.
 */
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "replica.pb-c.h"
#include "snap/gather.h"
#include "snap/keep.h"
#include "svc/svc_part.h"
#include "unit/snap/machine.h"
#include "unit/snap/rig.h"
#include "unit/snap/suites.h"
#include "unit/svc/fake_call.h"

static const struct rig_size size = {.n_floats = 50, .n_keys = 12, .width = 2, .one_rule = true};

static struct machine machine;
static struct rig rig;
static struct ps_svc_part svc;
static struct ps_method method;
static struct ps_error err;

static void begin(void)
{
    machine_init(&machine, test_seed());
    rig_init(&rig, machine.port, &size, test_seed());
    ck_assert_int_eq(rig_open(&rig, PS_SNAP_PLANT_NONE, &err), PS_OK);
    ck_assert_int_eq(rig_snapshot(&rig, 1, 2, &err), PS_OK);
    svc = (struct ps_svc_part){
        .exec = &rig.exec.base, .mem = &rig.mem, .disk = rig.disk, .dir = RIG_DIR};
    ps_svc_part_methods(&svc, &method);
}

static void end(void)
{
    ck_assert_uint_eq(svc.n_open, 0);
    ps_svc_part_deinit(&svc);
    rig_deinit(&rig);
    machine_deinit(&machine);
}

/* Ask, and copy the answer's piece to `to`. */
static enum ps_status ask(const Ps__V1__ReadPartRequest *request, uint8_t *to, size_t *ret_n,
                          uint64_t *ret_file_bytes)
{
    uint8_t bytes[256];
    struct ps_slice slice = {.data = bytes,
                             .n_bytes = ps__v1__read_part_request__pack(request, bytes)};
    struct fake_call *call = fake_call_create(&slice, 1);
    method.call(method.arg, fake_call_base(call));
    ps_inline_exec_pump(&rig.exec);
    ck_assert(fake_call_finished(call));
    enum ps_status status = fake_call_status(call);
    *ret_n = 0;
    if (status == PS_OK) {
        static uint8_t reply[1 << 21];
        struct ps_cursor all = fake_call_bytes(call);
        size_t n = all.n_left;
        ck_assert_uint_le(n, sizeof(reply));
        ps_cursor_copy(&all, reply, n);
        Ps__V1__ReadPartReply *read = ps__v1__read_part_reply__unpack(NULL, n, reply);
        ck_assert_ptr_nonnull(read);
        if (read->data.len > 0) {
            memcpy(to, read->data.data, read->data.len);
        }
        *ret_n = read->data.len;
        *ret_file_bytes = read->file_bytes;
        ps__v1__read_part_reply__free_unpacked(read, NULL);
    }
    fake_call_settle(call);
    return status;
}

/* The whole file, in pieces of `n_max`. */
static size_t fetch(Ps__V1__ReadPartRequest request, uint32_t n_max, uint8_t *to, size_t n_room)
{
    size_t n_all = 0;
    size_t n = 0;
    uint64_t n_file = 0;
    request.max_bytes = n_max;
    do {
        ck_assert_uint_le(n_all + n_max, n_room);
        request.offset = n_all;
        ck_assert_int_eq(ask(&request, to + n_all, &n, &n_file), PS_OK);
        ck_assert_uint_le(n, n_max);
        n_all += n;
    } while (n > 0);
    ck_assert_uint_eq(n_all, n_file);
    return n_all;
}

static Ps__V1__ReadPartRequest request_of(uint32_t server, Ps__V1__PartFile file, uint32_t number)
{
    Ps__V1__ReadPartRequest request = PS__V1__READ_PART_REQUEST__INIT;
    request.generation = 3;
    request.cut = 1;
    request.server = server;
    request.file = file;
    request.number = number;
    return request;
}

START_TEST(every_file_is_given_to_the_byte)
{
    static const struct {
        Ps__V1__PartFile file;
        uint32_t number;
        const char *path;
    } files[] = {
        {PS__V1__PART_FILE__CUT_MANIFEST, 0, "MANIFEST"},
        {PS__V1__PART_FILE__CUT_JOB, 0, "job.pb"},
        {PS__V1__PART_FILE__PART_INDEX, 0, "server-1/PART"},
        {PS__V1__PART_FILE__PART_DATA, 0, "server-1/dense.adagrad.safetensors"},
        {PS__V1__PART_FILE__PART_DATA, 1, "server-1/sparse.adagrad.safetensors"},
        {PS__V1__PART_FILE__PART_DATA, 2, "server-1/SLOTS"},
    };
    static uint8_t got[1 << 20];
    begin();
    for (size_t i = 0; i < PS_ARRAY_LEN(files); i++) {
        char path[128] = RIG_DIR "/000003-0000000001/";
        uint8_t *was = NULL;
        size_t n_was = 0;
        strncat(path, files[i].path, sizeof(path) - strlen(path) - 1);
        ck_assert_int_eq(ps_disk_read(rig.disk, path, sizeof(got), &was, &n_was, &err), PS_OK);
        size_t n = fetch(request_of(1, files[i].file, files[i].number), i % 2 == 0 ? 999 : 65536,
                         got, sizeof(got));
        ck_assert_uint_eq(n, n_was);
        ck_assert_mem_eq(got, was, n);
        ps_mem_free(was);
    }
    end();
}
END_TEST

START_TEST(what_is_not_there_is_refused)
{
    static uint8_t got[1 << 20];
    size_t n = 0;
    uint64_t n_file = 0;
    begin();
    Ps__V1__ReadPartRequest request = request_of(1, PS__V1__PART_FILE__PART_DATA, 3);
    ck_assert_int_eq(ask(&request, got, &n, &n_file), PS_ERR_NOT_FOUND);
    request = request_of(2, PS__V1__PART_FILE__PART_INDEX, 0);
    ck_assert_int_eq(ask(&request, got, &n, &n_file), PS_ERR_NOT_FOUND);
    request = request_of(1, PS__V1__PART_FILE__PART_FILE_NONE, 0);
    ck_assert_int_eq(ask(&request, got, &n, &n_file), PS_ERR_INVALID);
    request = request_of(1, PS__V1__PART_FILE__CUT_JOB, 0);
    request.cut = 2;
    ck_assert_int_eq(ask(&request, got, &n, &n_file), PS_ERR_NOT_FOUND);
    request.cut = 1;
    request.offset = UINT64_MAX;
    ck_assert_int_eq(ask(&request, got, &n, &n_file), PS_OK);
    ck_assert_uint_eq(n, 0);
    svc.dir = NULL;
    ck_assert_int_eq(ask(&request, got, &n, &n_file), PS_ERR_NOT_FOUND);
    end();
}
END_TEST

/* Bytes that are no request, or any request: the answer is one of the snapshot's files, or no. */
START_TEST(no_request_leads_outside)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    begin();
    for (uint32_t i = 0; i < 20000; i++) {
        uint8_t bytes[40];
        size_t n = ps_rng_next(&rng) % sizeof(bytes);
        for (size_t k = 0; k < n; k++) {
            bytes[k] = (uint8_t)(ps_rng_next(&rng) % (k % 2 == 0 ? 64 : 256));
        }
        struct ps_slice slice = {.data = bytes, .n_bytes = n};
        struct fake_call *call = fake_call_create(&slice, 1);
        method.call(method.arg, fake_call_base(call));
        ps_inline_exec_pump(&rig.exec);
        ck_assert(fake_call_finished(call));
        fake_call_settle(call);
    }
    end();
}
END_TEST

/* ---- Gathering ------------------------------------------------------------------------------ */

struct fetching {
    uint32_t n_calls;
    uint32_t lies_at; /* The call whose bytes are changed; 0: none. */
    bool lied;
};

static enum ps_status fetch_piece(void *arg, const struct ps_gather_piece *piece, uint8_t *to,
                                  size_t *ret_n_bytes, struct ps_error *fetch_err)
{
    static const Ps__V1__PartFile kinds[] = {
        [PS_GATHER_MANIFEST] = PS__V1__PART_FILE__CUT_MANIFEST,
        [PS_GATHER_JOB] = PS__V1__PART_FILE__CUT_JOB,
        [PS_GATHER_PART] = PS__V1__PART_FILE__PART_INDEX,
        [PS_GATHER_DATA] = PS__V1__PART_FILE__PART_DATA,
    };
    struct fetching *fetching = arg;
    Ps__V1__ReadPartRequest request = request_of(piece->server, kinds[piece->file], piece->number);
    uint64_t n_file = 0;
    request.offset = piece->offset;
    request.max_bytes = 3000;
    enum ps_status status = ask(&request, to, ret_n_bytes, &n_file);
    if (++fetching->n_calls == fetching->lies_at && *ret_n_bytes > 0) {
        to[*ret_n_bytes / 2] ^= 1;
        fetching->lied = true;
    }
    return status == PS_OK ? PS_OK : ps_fail(fetch_err, status, "refused");
}

START_TEST(what_is_gathered_is_a_complete_snapshot)
{
    static const char *const dirs[] = {"/gathered"};
    struct fetching fetching = {0};
    struct rig_model read;
    struct ps_snap *snap = NULL;
    begin();
    struct ps_gather gather = {.disk = rig.disk,
                               .mem = &rig.mem,
                               .dir = dirs[0],
                               .generation = 3,
                               .cut = 1,
                               .fetch = fetch_piece,
                               .arg = &fetching};
    enum ps_status status = ps_snap_gather(&gather, &err);
    ck_assert_msg(status == PS_OK, "%s", err.text);
    struct ps_snap_place place = {.disk = rig.disk, .mem = &rig.mem, .dirs = dirs, .n_dirs = 1};
    ck_assert_int_eq(ps_snap_open_newest(&place, NULL, NULL, &snap, &err), PS_OK);
    ck_assert_int_eq(rig_load(&rig, snap, 3, &read, &err), PS_OK);
    rig_same(&rig, &rig.model, &read);
    rig_model_deinit(&read);
    ps_snap_close(snap);
    end();
}
END_TEST

START_TEST(a_piece_that_lies_is_found_and_leaves_no_snapshot)
{
    static const char *const dirs[] = {"/gathered"};
    struct fetching fetching = {0};
    uint32_t n_lies = 0;
    bool through = false;
    begin();
    struct ps_snap_place place = {.disk = rig.disk, .mem = &rig.mem, .dirs = dirs, .n_dirs = 1};
    for (uint32_t at = 1; !through; at++) {
        struct ps_snap *snap = NULL;
        struct ps_gather gather = {.disk = rig.disk,
                                   .mem = &rig.mem,
                                   .dir = dirs[0],
                                   .generation = 3,
                                   .cut = 1,
                                   .fetch = fetch_piece,
                                   .arg = &fetching};
        fetching = (struct fetching){.lies_at = at};
        enum ps_status status = ps_snap_gather(&gather, &err);
        through = fetching.n_calls < at;
        if (fetching.lied) {
            n_lies++;
            ck_assert_msg(status == PS_ERR_CORRUPT, "%d %s", (int)status, err.text);
            ck_assert_int_eq(ps_snap_open_newest(&place, NULL, NULL, &snap, &err),
                             PS_ERR_NOT_FOUND);
        }
        char left[64] = "/gathered/000003-0000000001/server-0";
        for (uint32_t i = 0; i < 2; i++) {
            left[strlen(left) - 1] = (char)('0' + i);
            ck_assert_int_eq(ps_snap_remove_folder(rig.disk, left, &err), PS_OK);
        }
        if (!fetching.lied) {
            ck_assert_int_eq(ps_snap_remove_folder(rig.disk, "/gathered/000003-0000000001", &err),
                             PS_OK);
        }
    }
    ck_assert_uint_gt(n_lies, 10);
    end();
}
END_TEST

Suite *suite_part(void)
{
    Suite *suite = suite_create("part");
    TCase *tcase = tcase_create("core");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, every_file_is_given_to_the_byte);
    tcase_add_test(tcase, what_is_not_there_is_refused);
    tcase_add_test(tcase, no_request_leads_outside);
    tcase_add_test(tcase, what_is_gathered_is_a_complete_snapshot);
    tcase_add_test(tcase, a_piece_that_lies_is_found_and_leaves_no_snapshot);
    suite_add_tcase(suite, tcase);
    return suite;
}
