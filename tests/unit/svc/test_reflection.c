/*
 * test_reflection.c — grpc.reflection over the direct transport: files and symbols are found, what
 * is not there is said inside the stream, a client that does not read is let go.
 *
 * That the descriptors mean what the protos say is seen by tests/integration/test_interop.py, whose
 * client is made from them.
 */
#include <stdio.h>
#include <string.h>

#include <check.h>

#include "base/attr.h"
#include "base/limits.h"
#include "coordinator.pb-c.h"
#include "parameter_server.pb-c.h"
#include "port/direct.h"
#include "ps_descriptors.h"
#include "suites.h"
#include "svc/reflection.h"
#include "wire/pb.h"

enum {
    ASK_FILE = 3,
    ASK_SYMBOL = 4,
    ASK_EXTENSION = 5,
    ASK_EXTENSION_NUMBERS = 6,
    ASK_SERVICES = 7,
    TELL_HOST = 1,
    TELL_REQUEST = 2,
    TELL_FILES = 4,
    TELL_SERVICES = 6,
    TELL_ERROR = 7,
    NOT_FOUND = 5,
    INVALID = 3
};

#define V1      "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define V1ALPHA "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

struct scene {
    struct ps_inline_exec exec;
    struct ps_direct *direct;
    struct ps_mem mem;
    struct ps_reflection reflection;
    struct ps_method methods[3 + PS_REFLECTION_METHODS];
    struct ps_listener *listener;
    struct ps_channel *channel;
};

static struct scene scene;

static uint64_t no_time(void *arg PS_UNUSED)
{
    return 1000000000;
}

static void pump(void)
{
    ps_inline_exec_pump(&scene.exec);
}

static void unused_call(void *arg PS_UNUSED, struct ps_call *call PS_UNUSED)
{
    ck_abort();
}

static void open_scene(void)
{
    static const char *const others[3] = {"/a.A/One", "/a.A/Two", "/a.B/One"};
    struct ps_error err;
    memset(&scene, 0, sizeof(scene));
    ps_inline_exec_init(&scene.exec, no_time, NULL);
    ps_mem_init(&scene.mem);
    scene.direct = ps_direct_create(&scene.exec.base);
    for (uint32_t i = 0; i < 3; i++) {
        scene.methods[i] = (struct ps_method){.path = others[i], .call = unused_call};
    }
    ps_reflection_methods(&scene.reflection, scene.methods + 3);
    scene.reflection.mem = &scene.mem;
    scene.reflection.methods = scene.methods;
    scene.reflection.n_methods = PS_ARRAY_LEN(scene.methods);
    struct ps_transport *transport = ps_direct_transport(scene.direct);
    ck_assert_int_eq(
        ps_listener_open(transport,
                         &(struct ps_service){.address = "direct:reflection",
                                              .methods = scene.methods,
                                              .n_methods = PS_ARRAY_LEN(scene.methods)},
                         &scene.listener, &err),
        PS_OK);
    ck_assert_int_eq(ps_channel_open(transport, "direct:reflection", PS_TRAFFIC_CONTROL, NULL,
                                     &scene.channel, &err),
                     PS_OK);
}

static void close_scene(void)
{
    ps_listener_stop(scene.listener, 0);
    pump();
    ck_assert(ps_reflection_idle(&scene.reflection));
    ps_listener_close(scene.listener);
    ps_channel_close(scene.channel);
    ps_direct_destroy(scene.direct);
    for (uint32_t i = 0; i < PS_MEM_CLASS_COUNT; i++) {
        ck_assert_uint_eq(atomic_load(&scene.mem.used[i]), 0);
    }
}

/* ---- A client ------------------------------------------------------------------------------ */

struct talk {
    struct ps_stream *stream;
    uint32_t n_heard;
    struct ps_msg *last; /* Ours. */
    uint32_t n_closed;
    enum ps_status status;
};

static void talk_message(void *arg, struct ps_msg *msg)
{
    struct talk *talk = arg;
    ps_msg_unref(talk->last);
    talk->last = msg;
    talk->n_heard++;
}

static void talk_closed(void *arg, enum ps_status status)
{
    struct talk *talk = arg;
    talk->n_closed++;
    talk->status = status;
}

static void begin(struct talk *talk, const char *method)
{
    static const struct ps_stream_events events = {.message = talk_message, .closed = talk_closed};
    *talk = (struct talk){0};
    talk->stream = ps_stream_open(scene.channel, method, &events, talk);
}

static enum ps_status say(struct talk *talk, uint32_t field, const char *text)
{
    uint8_t bytes[512];
    struct ps_pb_writer w = {.to = bytes, .n_room = sizeof(bytes)};
    ps_pb_put_bytes(&w, 1, "host", 4);
    ps_pb_put_header(&w, field, strlen(text)); /* Also when it is empty. */
    ck_assert_uint_le(w.n_used + strlen(text), sizeof(bytes));
    memcpy(bytes + w.n_used, text, strlen(text));
    struct ps_out out = {.head = bytes, .n_head_bytes = w.n_used + strlen(text)};
    return ps_stream_send(talk->stream, &out);
}

static void end(struct talk *talk)
{
    if (talk->n_closed == 0) {
        ps_stream_close(talk->stream, PS_OK);
        pump();
    }
    ck_assert_uint_eq(talk->n_closed, 1);
    ps_msg_unref(talk->last);
    ps_stream_release(talk->stream);
}

/* The field `number` of the last answer; its bytes as a cursor. */
static bool find(const struct talk *talk, uint32_t number, struct ps_cursor *ret)
{
    struct ps_cursor c = ps_cursor_over(talk->last->slices, talk->last->n_slices);
    struct ps_pb_field field;
    bool found = false;
    while (ps_pb_next(&c, &field)) {
        if (field.number == number) {
            *ret = field.bytes;
            found = true;
        }
    }
    ck_assert(!c.failed);
    return found;
}

/* The name in the one FileDescriptorProto of the answer; "" when it is another answer. */
static const char *file_told(const struct talk *talk)
{
    static char name[128];
    struct ps_cursor files;
    struct ps_pb_field file;
    struct ps_pb_field first;
    name[0] = '\0';
    if (!find(talk, TELL_FILES, &files)) {
        return name;
    }
    ck_assert(ps_pb_next(&files, &file));
    ck_assert_uint_eq(file.number, 1);
    ck_assert(ps_pb_next(&file.bytes, &first));
    ck_assert_uint_eq(first.number, 1);
    size_t n = first.bytes.n_left;
    ck_assert_uint_lt(n, sizeof(name));
    ps_cursor_copy(&first.bytes, name, n);
    name[n] = '\0';
    while (ps_pb_next(&file.bytes, &first)) { /* Whole, to the last byte. */
    }
    ck_assert(!file.bytes.failed);
    ck_assert(!ps_pb_next(&files, &file));
    ck_assert(!files.failed);
    return name;
}

static int error_told(const struct talk *talk)
{
    struct ps_cursor error;
    struct ps_pb_field code;
    if (!find(talk, TELL_ERROR, &error)) {
        return 0;
    }
    ck_assert(ps_pb_next(&error, &code));
    ck_assert_uint_eq(code.number, 1);
    return (int)code.value;
}

static const char *file_of(struct talk *talk, uint32_t field, const char *text)
{
    uint32_t before = talk->n_heard;
    ck_assert_int_eq(say(talk, field, text), PS_OK);
    pump();
    ck_assert_uint_eq(talk->n_heard, before + 1);
    return file_told(talk);
}

static int error_of(struct talk *talk, uint32_t field, const char *text)
{
    ck_assert_str_eq(file_of(talk, field, text), "");
    return error_told(talk);
}

/* ---- Tests --------------------------------------------------------------------------------- */

#define COORDINATOR "ps/v1/coordinator.proto"
#define SERVER      "ps/v1/parameter_server.proto"

START_TEST(files_and_symbols_of_every_kind_are_found)
{
    static const char *const methods[] = {V1, V1ALPHA};
    struct talk talk;
    open_scene();
    begin(&talk, methods[_i]);
    ck_assert_str_eq(file_of(&talk, ASK_FILE, COORDINATOR), COORDINATOR);
    ck_assert_str_eq(file_of(&talk, ASK_FILE, "grpc/health/v1/health.proto"),
                     "grpc/health/v1/health.proto");
    ck_assert_str_eq(file_of(&talk, ASK_SYMBOL, "ps.v1.Coordinator"), COORDINATOR);
    ck_assert_str_eq(file_of(&talk, ASK_SYMBOL, "ps.v1.Coordinator.Join"), COORDINATOR);
    ck_assert_str_eq(file_of(&talk, ASK_SYMBOL, "ps.v1.PushRequest"), SERVER);
    ck_assert_str_eq(file_of(&talk, ASK_SYMBOL, "ps.v1.PushRequest.payload"), SERVER);
    ck_assert_str_eq(file_of(&talk, ASK_SYMBOL, "ps.v1.JobState"), COORDINATOR);
    ck_assert_str_eq(file_of(&talk, ASK_SYMBOL, "ps.v1.CLUSTER_LOST"), COORDINATOR);
    ck_assert_str_eq(file_of(&talk, ASK_SYMBOL, "grpc.health.v1.HealthCheckResponse.ServingStatus"),
                     "grpc/health/v1/health.proto");
    ck_assert_str_eq(
        file_of(&talk, ASK_SYMBOL, "grpc.reflection.v1.ServerReflectionRequest.message_request"),
        "grpc/reflection/v1/reflection.proto");
    end(&talk);
    ck_assert_int_eq(talk.status, PS_OK);
    close_scene();
}
END_TEST

START_TEST(what_is_not_there_is_said_and_the_stream_goes_on)
{
    struct talk talk;
    open_scene();
    begin(&talk, V1);
    ck_assert_int_eq(error_of(&talk, ASK_FILE, "ps/v1/coordinator.prot"), NOT_FOUND);
    ck_assert_int_eq(error_of(&talk, ASK_FILE, ""), NOT_FOUND);
    ck_assert_int_eq(error_of(&talk, ASK_SYMBOL, "ps.v1"), NOT_FOUND);
    ck_assert_int_eq(error_of(&talk, ASK_SYMBOL, "ps.v1.Tables"), NOT_FOUND);
    ck_assert_int_eq(error_of(&talk, ASK_SYMBOL, ""), NOT_FOUND);
    ck_assert_int_eq(error_of(&talk, ASK_SYMBOL, "zzz"), NOT_FOUND);
    ck_assert_int_eq(error_of(&talk, ASK_EXTENSION, ""), NOT_FOUND);
    ck_assert_int_eq(error_of(&talk, ASK_EXTENSION_NUMBERS, "ps.v1.Table"), NOT_FOUND);
    ck_assert_int_eq(error_of(&talk, 9, "of another version"), INVALID);
    ck_assert_str_eq(file_of(&talk, ASK_FILE, SERVER), SERVER);
    end(&talk);
    ck_assert_int_eq(talk.status, PS_OK);
    close_scene();
}
END_TEST

START_TEST(an_answer_names_its_question)
{
    struct talk talk;
    struct ps_cursor part;
    char text[64] = "";
    static const char want[] = "\x0a\x04host\x22\x0bps.v1.Table";
    open_scene();
    begin(&talk, V1);
    (void)file_of(&talk, ASK_SYMBOL, "ps.v1.Table");
    ck_assert(find(&talk, TELL_HOST, &part));
    ck_assert_uint_eq(part.n_left, 4);
    ps_cursor_copy(&part, text, 4);
    ck_assert_str_eq(text, "host");
    ck_assert(find(&talk, TELL_REQUEST, &part));
    ck_assert_uint_eq(part.n_left, sizeof(want) - 1);
    ps_cursor_copy(&part, text, sizeof(want) - 1);
    ck_assert_int_eq(memcmp(text, want, sizeof(want) - 1), 0);
    end(&talk);
    close_scene();
}
END_TEST

START_TEST(the_services_listed_are_those_of_the_listener)
{
    static const char *const want[] = {"a.A", "a.B", "grpc.reflection.v1.ServerReflection",
                                       "grpc.reflection.v1alpha.ServerReflection"};
    struct talk talk;
    struct ps_cursor list;
    struct ps_pb_field service;
    struct ps_pb_field name;
    open_scene();
    begin(&talk, V1);
    (void)file_of(&talk, ASK_SERVICES, "");
    ck_assert(find(&talk, TELL_SERVICES, &list));
    for (size_t i = 0; i < PS_ARRAY_LEN(want); i++) {
        char text[64] = "";
        ck_assert(ps_pb_next(&list, &service));
        ck_assert(ps_pb_next(&service.bytes, &name));
        ck_assert_uint_lt(name.bytes.n_left, sizeof(text));
        ps_cursor_copy(&name.bytes, text, name.bytes.n_left);
        ck_assert_str_eq(text, want[i]);
    }
    ck_assert(!ps_pb_next(&list, &service));
    end(&talk);
    close_scene();
}
END_TEST

START_TEST(bytes_that_are_no_question_end_the_stream)
{
    static const uint8_t cut[] = {ASK_FILE << 3 | 2, 200, 1, 'a'};
    static const uint8_t group[] = {ASK_FILE << 3 | 3, ASK_FILE << 3 | 4};
    static uint8_t longest[1025] = {ASK_FILE << 3 | 2, 0xfe, 0x07}; /* 1022 bytes. */
    const struct ps_out outs[] = {
        {.head = cut, .n_head_bytes = sizeof(cut)},
        {.head = group, .n_head_bytes = sizeof(group)},
        {.head = longest, .n_head_bytes = sizeof(longest)},
    };
    open_scene();
    for (size_t i = 0; i < PS_ARRAY_LEN(outs); i++) {
        struct talk talk;
        begin(&talk, V1);
        ck_assert_int_eq(ps_stream_send(talk.stream, &outs[i]), PS_OK);
        pump();
        ck_assert_int_eq(talk.status, PS_ERR_INVALID);
        ck_assert_uint_eq(talk.n_heard, 0);
        end(&talk);
    }
    close_scene();
}
END_TEST

START_TEST(streams_are_bounded_and_one_that_has_ended_makes_room)
{
    struct talk talks[PS_REFLECTIONS_MAX];
    struct talk more;
    open_scene();
    for (uint32_t i = 0; i < PS_REFLECTIONS_MAX; i++) {
        begin(&talks[i], i % 2 == 0 ? V1 : V1ALPHA);
    }
    pump();
    begin(&more, V1);
    pump();
    ck_assert_int_eq(more.status, PS_ERR_BUSY);
    end(&more);
    end(&talks[0]);
    begin(&talks[0], V1);
    ck_assert_str_eq(file_of(&talks[0], ASK_FILE, SERVER), SERVER);
    for (uint32_t i = 0; i < PS_REFLECTIONS_MAX; i++) {
        end(&talks[i]);
    }
    close_scene();
}
END_TEST

/* A stream whose peer takes three messages and no more. */
struct stuck {
    struct ps_stream base;
    const struct ps_stream_events *events;
    void *arg;
    uint32_t n_sent;
    uint32_t n_released;
    enum ps_status closed;
};

static struct stuck stuck;

static void stuck_start(struct ps_stream *stream PS_UNUSED, const struct ps_stream_events *events,
                        void *arg)
{
    stuck.events = events;
    stuck.arg = arg;
}

static enum ps_status stuck_send(struct ps_stream *stream PS_UNUSED, const struct ps_out *out)
{
    ck_assert_uint_gt(out->n_head_bytes, 0);
    stuck.n_sent += stuck.n_sent < 3 ? 1 : 0;
    return stuck.n_sent < 3 ? PS_OK : PS_ERR_BUSY;
}

static void stuck_close(struct ps_stream *stream PS_UNUSED, enum ps_status status)
{
    stuck.closed = status;
}

static void stuck_release(struct ps_stream *stream PS_UNUSED)
{
    stuck.n_released++;
}

static void keep_msg(struct ps_msg *msg PS_UNUSED) {}

START_TEST(a_client_that_asks_and_does_not_read_is_let_go)
{
    static const struct ps_transport_ops ops = {.stream_start = stuck_start,
                                                .stream_send = stuck_send,
                                                .stream_close = stuck_close,
                                                .stream_release = stuck_release};
    static struct ps_transport transport = {.ops = &ops};
    static const uint8_t list[] = {ASK_SERVICES << 3 | 2, 0};
    const struct ps_slice slice = {.data = list, .n_bytes = sizeof(list)};
    struct ps_msg msg = {
        .slices = &slice, .n_slices = 1, .n_bytes = sizeof(list), .destroy = keep_msg};
    open_scene();
    stuck = (struct stuck){.base.transport = &transport};
    scene.methods[3].accept(scene.methods[3].arg, &stuck.base);
    ck_assert_ptr_nonnull(stuck.events);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(stuck.closed, PS_OK);
        atomic_store(&msg.n_refs, 1);
        stuck.events->message(stuck.arg, &msg);
        ck_assert_uint_eq(atomic_load(&msg.n_refs), 0);
    }
    ck_assert_int_eq(stuck.closed, PS_ERR_BUSY);
    stuck.events->closed(stuck.arg, PS_ERR_BUSY);
    ck_assert_uint_eq(stuck.n_released, 1);
    close_scene();
}
END_TEST

/* Whatever protobuf-c was told by the same protos can be found by name. */
static void every_symbol_of(const ProtobufCMessageDescriptor *type, const char *file,
                            struct talk *talk)
{
    char name[160];
    ck_assert_str_eq(file_of(talk, ASK_SYMBOL, type->name), file);
    for (unsigned i = 0; i < type->n_fields; i++) {
        (void)snprintf(name, sizeof(name), "%s.%s", type->name, type->fields[i].name);
        ck_assert_str_eq(file_of(talk, ASK_SYMBOL, name), file);
        if (type->fields[i].type == PROTOBUF_C_TYPE_MESSAGE) {
            every_symbol_of(type->fields[i].descriptor, file, talk);
        }
    }
}

START_TEST(everything_in_a_message_is_found)
{
    struct talk talk;
    open_scene();
    begin(&talk, V1);
    every_symbol_of(&ps__v1__attend_state__descriptor, COORDINATOR, &talk);
    every_symbol_of(&ps__v1__attend_report__descriptor, COORDINATOR, &talk);
    every_symbol_of(&ps__v1__describe_reply__descriptor, COORDINATOR, &talk);
    every_symbol_of(&ps__v1__push_pull_request__descriptor, SERVER, &talk);
    ck_assert_uint_gt(talk.n_heard, 100);
    end(&talk);
    close_scene();
}
END_TEST

START_TEST(the_table_of_symbols_is_in_order)
{
    for (uint32_t i = 1; i < PS_PROTO_SYMBOLS; i++) {
        ck_assert_int_lt(strcmp(ps_proto_symbols[i - 1].name, ps_proto_symbols[i].name), 0);
    }
}
END_TEST

Suite *suite_reflection(void)
{
    Suite *suite = suite_create("reflection");
    TCase *tcase = tcase_create("reflection");
    tcase_add_loop_test(tcase, files_and_symbols_of_every_kind_are_found, 0, 2);
    tcase_add_test(tcase, what_is_not_there_is_said_and_the_stream_goes_on);
    tcase_add_test(tcase, an_answer_names_its_question);
    tcase_add_test(tcase, the_services_listed_are_those_of_the_listener);
    tcase_add_test(tcase, bytes_that_are_no_question_end_the_stream);
    tcase_add_test(tcase, streams_are_bounded_and_one_that_has_ended_makes_room);
    tcase_add_test(tcase, a_client_that_asks_and_does_not_read_is_let_go);
    tcase_add_test(tcase, everything_in_a_message_is_found);
    tcase_add_test(tcase, the_table_of_symbols_is_in_order);
    suite_add_tcase(suite, tcase);
    return suite;
}
