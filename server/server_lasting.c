/* server_lasting.c — the data directory of a server, and its log: see server_lasting.h. */
#include "server_lasting.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "obs/log.h"
#include "server_impl.h"

static struct ps_server *server_of(struct ps_lasting *lasting)
{
    struct server_lasting *last = PS_CONTAINER_OF(lasting, struct server_lasting, base);
    return PS_CONTAINER_OF(last, struct ps_server, lasting);
}

/* ---- What attending asks for ---------------------------------------------------------------- */

/* Whoever has no data begins with the generation that the cluster is at. */
static enum ps_status joined(struct ps_lasting *lasting, const struct ps_id *cluster,
                             uint32_t index, uint64_t generation, struct ps_error *err)
{
    struct ps_server *server = server_of(lasting);
    struct server_lasting *last = &server->lasting;
    if (last->generation != 0) {
        generation = last->generation;
    } else if (last->wal == NULL) {
        generation = last->identity.generation; /* What an older log has is of that. */
    }
    uint64_t begin = last->void_below > 0 ? last->void_below : last->identity.begin;
    bool known = ps_id_equal(&last->identity.cluster, cluster) && last->identity.index == index &&
                 last->identity.generation == generation && last->identity.begin == begin;
    last->identity.cluster = *cluster;
    last->identity.index = index;
    last->identity.generation = generation;
    last->identity.begin = begin;
    if (last->data_dir[0] == '\0' || known) {
        return PS_OK;
    }
    enum ps_status status =
        ps_identity_write(server->options.disk, last->data_dir, &last->identity, err);
    return status == PS_OK ? PS_OK : ps_wrap(err, status, "this server's identity");
}

enum ps_status server_keep_table(struct ps_server *server, uint32_t number, const uint8_t *bytes,
                                 size_t n_bytes, struct ps_error *err)
{
    struct server_lasting *last = &server->lasting;
    PS_ASSERT(number == last->n_tables && number < PS_TABLES_MAX);
    uint8_t *copy = ps_mem_alloc(server->options.mem, PS_MEM_OTHER, n_bytes + 1);
    if (copy == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the definition of a table");
    }
    memcpy(copy, bytes, n_bytes);
    last->tables[number] = (struct server_table){.bytes = copy, .n_bytes = n_bytes};
    last->n_tables = number + 1;
    return PS_OK;
}

static void run_table_logged(struct ps_mail *mail)
{
    struct ps_wal_done *done = PS_CONTAINER_OF(mail, struct ps_wal_done, mail);
    struct server_logging *logging = PS_CONTAINER_OF(done, struct server_logging, done);
    struct ps_server *server = logging->server;
    struct ps_error err = {.status = PS_OK};
    if (done->status != PS_OK) {
        (void)ps_fail(&err, done->status, "a table cannot be logged");
    }
    ps_mem_free(logging);
    ps_attend_logged(server->attend, &err);
}

static enum ps_lasting_when table(struct ps_lasting *lasting, uint32_t number, const uint8_t *bytes,
                                  size_t n_bytes, struct ps_error *err)
{
    struct ps_server *server = server_of(lasting);
    struct server_lasting *last = &server->lasting;
    if (number < last->n_tables) {
        const struct server_table *known = &last->tables[number];
        if (known->n_bytes == n_bytes && memcmp(known->bytes, bytes, n_bytes) == 0) {
            return PS_LASTING_DONE;
        }
        (void)ps_fail(err, PS_ERR_LOST,
                      "table number %" PRIu32 " is another one than this server's data are of",
                      number);
        return PS_LASTING_NEVER;
    }
    struct server_logging *logging = NULL;
    if (last->wal != NULL) {
        logging = ps_mem_alloc(server->options.mem, PS_MEM_OTHER, sizeof(*logging));
        if (logging == NULL) {
            (void)ps_fail(err, PS_ERR_NOMEM, "no memory for the log");
            return PS_LASTING_NEVER;
        }
        *logging = (struct server_logging){
            .done = {.mail = {.run = run_table_logged}, .exec = server->options.exec},
            .server = server};
    }
    if (server_keep_table(server, number, bytes, n_bytes, err) != PS_OK) {
        ps_mem_free(logging);
        return PS_LASTING_NEVER;
    }
    if (logging == NULL) {
        return PS_LASTING_DONE;
    }
    ps_wal_table(last->wal, number, bytes, n_bytes, &logging->done);
    return PS_LASTING_LATER;
}

static enum ps_lasting_when restore(struct ps_lasting *lasting,
                                    const struct ps_lasting_restore *order, struct ps_error *err)
{
    return server_restore(server_of(lasting), order, err);
}

static enum ps_lasting_when cut(struct ps_lasting *lasting, uint64_t number, struct ps_error *err)
{
    return server_cut(server_of(lasting), number, err);
}

static void gave_up(struct ps_lasting *lasting, uint64_t number)
{
    server_cut_gave_up(server_of(lasting), number);
}

static void kept(struct ps_lasting *lasting, uint64_t number)
{
    server_cut_kept(server_of(lasting), number);
}

static void oldest(struct ps_lasting *lasting, uint64_t generation, uint64_t number)
{
    server_cut_oldest(server_of(lasting), generation, number);
}

static bool wants_cut(struct ps_lasting *lasting)
{
    return server_cut_wanted(server_of(lasting));
}

static const struct ps_lasting_ops ops = {.joined = joined,
                                          .table = table,
                                          .restore = restore,
                                          .cut = cut,
                                          .gave_up = gave_up,
                                          .kept = kept,
                                          .oldest = oldest,
                                          .wants_cut = wants_cut};

/* ---- The directory -------------------------------------------------------------------------- */

static enum ps_status take_identity(struct ps_server *server, struct ps_error *err)
{
    const struct ps_server_options *options = &server->options;
    struct server_lasting *last = &server->lasting;
    enum ps_status status = ps_identity_read(options->disk, last->data_dir, &last->identity, err);
    if (status != PS_OK || !ps_id_none(&last->identity.server)) {
        return status;
    }
    PS_ASSERT(!ps_id_none(&options->new_server_id));
    last->identity =
        (struct ps_identity){.server = options->new_server_id, .generation = 1, .begin = 1};
    return ps_identity_write(options->disk, last->data_dir, &last->identity, err);
}

enum ps_status server_lasting_open(struct ps_server *server, struct ps_error *err)
{
    const struct ps_server_options *options = &server->options;
    struct server_lasting *last = &server->lasting;
    last->base.ops = &ops;
    enum ps_status status = server_cuts_open(server, err);
    if (options->data_dir == NULL || status != PS_OK) {
        return status;
    }
    char path[PS_DIR_BYTES_MAX + sizeof("/lock")];
    (void)snprintf(last->data_dir, sizeof(last->data_dir), "%s", options->data_dir);
    (void)snprintf(last->log_dir, sizeof(last->log_dir), "%s/log", options->data_dir);
    (void)snprintf(path, sizeof(path), "%s/lock", options->data_dir);
    status = ps_disk_make_dir(options->disk, last->data_dir, err);
    if (status == PS_OK) {
        status = ps_disk_lock(options->disk, path, &last->lock, err);
    }
    return status == PS_OK ? take_identity(server, err) : status;
}

/* ---- The end -------------------------------------------------------------------------------- */

static void run_log_stopped(struct ps_mail *mail)
{
    struct ps_wal_done *done = PS_CONTAINER_OF(mail, struct ps_wal_done, mail);
    struct server_lasting *last = PS_CONTAINER_OF(done, struct server_lasting, stopped);
    server_log_stopped(PS_CONTAINER_OF(last, struct ps_server, lasting));
}

void server_lasting_stop(struct ps_server *server)
{
    struct server_lasting *last = &server->lasting;
    server_cut_call_off(server);
    if (last->wal == NULL) {
        server_log_stopped(server);
        return;
    }
    last->stopped.mail.run = run_log_stopped;
    last->stopped.exec = server->options.exec;
    ps_wal_stop(last->wal, &last->stopped);
}

void server_lasting_close(struct ps_server *server)
{
    struct server_lasting *last = &server->lasting;
    ps_wal_destroy(last->wal);
    ps_snap_writer_destroy(last->writer);
    ps_cut_free(last->cutting.cut);
    ps_snap_close(last->restoring.snap);
    for (uint32_t i = 0; i < last->n_tables; i++) {
        ps_mem_free(last->tables[i].bytes);
    }
    ps_disk_file_close(last->lock);
}
