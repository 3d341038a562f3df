/* svc_part.c — see svc_part.h. */
#include "svc/svc_part.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/attr.h"
#include "replica.pb-c.h"
#include "snap/layout.h"
#include "snap/snap_file.h"
#include "wire/pack.h"
#include "wire/pb.h"

#define HEAD_BYTES    32u /* Of a reply: two fields of at most 11 bytes. */
#define FIELD_BYTES   1u  /* Numbers in ReadPartReply. */
#define FIELD_DATA    2u
#define REQUEST_BYTES 256u

struct part_call {
    struct ps_mail mail;
    struct ps_svc_part *svc;
    struct ps_call *call;
    Ps__V1__ReadPartRequest *request;
    uint8_t *data; /* Read; lent to the transport. */
};

static void let_go(struct part_call *call)
{
    struct ps_svc_part *svc = call->svc;
    ps_wire_unpacked_free((ProtobufCMessage *)call->request);
    ps_mem_free(call->data);
    ps_mem_free(call);
    atomic_fetch_sub_explicit(&svc->n_open, 1, memory_order_release);
}

static void refuse(struct part_call *call, const struct ps_error *err)
{
    ps_metric_add(call->svc->metrics, PS_METRIC_calls_refused_total, 1);
    ps_call_finish(call->call, err->status, NULL, err->text);
    let_go(call);
}

/* ---- Which file ------------------------------------------------------------------------------ */

/* PART of the part that is asked for, read unless it was the last one. */
static enum ps_status find_list(struct ps_svc_part *svc, const Ps__V1__ReadPartRequest *request,
                                const char *folder, struct ps_error *err)
{
    char path[PS_SNAP_PATH_BYTES];
    uint8_t *text = NULL;
    size_t n_bytes = 0;
    const struct ps_snap_part *part = &svc->part;
    if (svc->has_part && part->generation == request->generation && part->cut == request->cut &&
        part->server == request->server) {
        return PS_OK;
    }
    ps_snap_part_deinit(&svc->part);
    svc->has_part = false;
    enum ps_status status = ps_snap_path(folder, PS_SNAP_PART, path, err);
    if (status == PS_OK) {
        status = ps_disk_read(svc->disk, path, PS_SNAP_TEXT_BYTES, &text, &n_bytes, err);
    }
    if (status == PS_OK) {
        status = ps_snap_part_read(svc->mem, text, n_bytes, &svc->part, err);
        svc->has_part = status == PS_OK;
        ps_mem_free(text);
    }
    return status;
}

/* The file that is asked for. Numbers, and names that were checked when PART was read. */
static enum ps_status find_file(struct ps_svc_part *svc, const Ps__V1__ReadPartRequest *request,
                                char path[PS_SNAP_PATH_BYTES], struct ps_error *err)
{
    char name[PS_SNAP_DIR_BYTES];
    char below[PS_SNAP_DIR_BYTES + 32];
    char folder[PS_SNAP_PATH_BYTES];
    if (svc->dir == NULL) {
        return ps_fail(err, PS_ERR_NOT_FOUND, "this server has no snapshot directory");
    }
    ps_snap_dir_name(request->generation, request->cut, name);
    bool whole = request->file == PS__V1__PART_FILE__CUT_MANIFEST ||
                 request->file == PS__V1__PART_FILE__CUT_JOB;
    if (whole) {
        enum ps_status status = ps_snap_path(svc->dir, name, folder, err);
        return status != PS_OK
                   ? status
                   : ps_snap_path(folder,
                                  request->file == PS__V1__PART_FILE__CUT_JOB ? PS_SNAP_JOB
                                                                              : PS_SNAP_MANIFEST,
                                  path, err);
    }
    (void)snprintf(below, sizeof(below), "%s/" PS_SNAP_SERVER "%" PRIu32, name, request->server);
    enum ps_status status = ps_snap_path(svc->dir, below, folder, err);
    if (status != PS_OK || request->file == PS__V1__PART_FILE__PART_INDEX) {
        return status == PS_OK ? ps_snap_path(folder, PS_SNAP_PART, path, err) : status;
    }
    if (request->file != PS__V1__PART_FILE__PART_DATA) {
        return ps_fail(err, PS_ERR_INVALID, "file %d is none that a snapshot has",
                       (int)request->file);
    }
    status = find_list(svc, request, folder, err);
    if (status == PS_OK && request->number >= svc->part.n_files) {
        return ps_fail(err, PS_ERR_NOT_FOUND,
                       "the part has %" PRIu32 " files, none is number %" PRIu32, svc->part.n_files,
                       request->number);
    }
    return status == PS_OK ? ps_snap_path(folder, svc->part.files[request->number].name, path, err)
                           : status;
}

/* ---- Its bytes ------------------------------------------------------------------------------- */

static enum ps_status read_piece(struct part_call *call, uint64_t *ret_file_bytes, size_t *ret_n,
                                 struct ps_error *err)
{
    const Ps__V1__ReadPartRequest *request = call->request;
    struct ps_svc_part *svc = call->svc;
    char path[PS_SNAP_PATH_BYTES];
    struct ps_disk_file *file = NULL;
    size_t n_room = request->max_bytes == 0 || request->max_bytes > PS_CALL_PAYLOAD_BYTES
                        ? PS_CALL_PAYLOAD_BYTES
                        : request->max_bytes;
    enum ps_status status = find_file(svc, request, path, err);
    if (status == PS_OK) {
        status = ps_disk_open(svc->disk, path, PS_DISK_READ, &file, err);
    }
    if (status == PS_OK) {
        status = ps_disk_file_size(file, ret_file_bytes, err);
    }
    if (status == PS_OK && request->offset < *ret_file_bytes) {
        uint64_t n_left = *ret_file_bytes - request->offset;
        n_room = n_left < n_room ? (size_t)n_left : n_room;
        call->data = ps_mem_alloc(svc->mem, PS_MEM_CALLS, n_room);
        status = call->data == NULL
                     ? ps_fail(err, PS_ERR_BUSY, "no memory for a piece of a snapshot: slow down")
                     : ps_disk_file_read(file, request->offset, call->data, n_room, ret_n, err);
    }
    ps_disk_file_close(file);
    return status;
}

static void give_back(void *arg)
{
    let_go(arg);
}

static void run(struct ps_mail *mail)
{
    struct part_call *call = PS_CONTAINER_OF(mail, struct part_call, mail);
    uint8_t head[HEAD_BYTES];
    uint64_t n_file = 0;
    size_t n = 0;
    struct ps_error err;
    enum ps_status status = read_piece(call, &n_file, &n, &err);
    if (status != PS_OK) {
        /* Where this server keeps its files is nobody's business. */
        if (status == PS_ERR_NOT_FOUND && call->svc->dir != NULL) {
            (void)ps_fail(&err, status, "no such file of a snapshot here");
        } else if (status == PS_ERR_IO) {
            (void)ps_fail(&err, status, "the disk refused to read it");
        }
        refuse(call, &err);
        return;
    }
    struct ps_pb_writer w = {.to = head, .n_room = sizeof(head)};
    ps_pb_put_uint(&w, FIELD_BYTES, n_file);
    ps_pb_put_header(&w, FIELD_DATA, n);
    PS_ASSERT(!w.full);
    struct ps_piece piece = {.data = call->data, .n_bytes = n, .done = give_back, .arg = call};
    struct ps_out out = {
        .head = head, .n_head_bytes = w.n_used, .pieces = &piece, .n_pieces = n > 0 ? 1 : 0};
    ps_call_finish(call->call, PS_OK, &out, NULL);
    if (n == 0) {
        let_go(call);
    }
}

/* On a thread of the transport. */
static void on_call(void *arg, struct ps_call *in)
{
    struct ps_svc_part *svc = arg;
    const struct ps_msg *msg = ps_call_request(in);
    enum ps_status why = PS_ERR_BUSY;
    ps_metric_add(svc->metrics, PS_METRIC_calls_total, 1);
    uint32_t before = atomic_fetch_add_explicit(&svc->n_open, 1, memory_order_relaxed);
    struct part_call *call =
        before < PS_SVC_PART_OPEN_MAX ? ps_mem_alloc(svc->mem, PS_MEM_CALLS, sizeof(*call)) : NULL;
    if (call == NULL) {
        atomic_fetch_sub_explicit(&svc->n_open, 1, memory_order_release);
        ps_call_finish(in, PS_ERR_BUSY, NULL, "too many pieces of snapshots under way: slow down");
        return;
    }
    call->svc = svc;
    call->call = in;
    call->mail.run = run;
    call->request = (Ps__V1__ReadPartRequest *)ps_wire_unpack_why(
        &ps__v1__read_part_request__descriptor, msg->slices, msg->n_slices, svc->mem, &why);
    if (call->request == NULL) {
        struct ps_error err;
        (void)ps_fail(&err, why == PS_ERR_NOMEM ? PS_ERR_BUSY : PS_ERR_INVALID,
                      "the request cannot be read");
        refuse(call, &err);
        return;
    }
    ps_exec_post(svc->exec, &call->mail);
}

void ps_svc_part_methods(struct ps_svc_part *svc, struct ps_method *methods)
{
    methods[0] = (struct ps_method){.path = PS_METHOD_READ_PART,
                                    .traffic = PS_TRAFFIC_DATA,
                                    .roles = PS_ROLE_SERVER | PS_ROLE_ADMIN,
                                    .kind = PS_METHOD_UNARY,
                                    .call = on_call,
                                    .arg = svc,
                                    .bytes_max = REQUEST_BYTES};
}

void ps_svc_part_deinit(struct ps_svc_part *svc)
{
    ps_snap_part_deinit(&svc->part);
    svc->has_part = false;
}
