/* test_address.c — what may be an address, and what is said when nobody is reached. */
#include <stdio.h>
#include <string.h>

#include <check.h>

#include "lib/test_main.h"
#include "rpc/rpc_impl.h"

#define LISTEN    PS_RPC_TO_LISTEN
#define ADVERTISE PS_RPC_TO_ADVERTISE
#define DIAL      PS_RPC_TO_DIAL

/* clang-format off */
static const struct {
    const char *address;
    enum ps_rpc_address_use use;
    const char *says; /* NULL: it is one. */
} addresses[] = {
    {"127.0.0.1:7070",                    DIAL,      NULL},
    {"[::1]:7070",                        DIAL,      NULL},
    {"[fe80::1%eth0]:7070",               DIAL,      NULL},
    {"localhost:65535",                   DIAL,      NULL},
    {"ps-0.ps.default.svc:7070",          DIAL,      NULL},
    {"some_host:1",                       DIAL,      NULL},
    {"dns:7070",                          DIAL,      NULL}, /* A host may be called so. */
    {"unix:/run/ps/socket",               DIAL,      NULL},
    {"unix:///run/ps/socket",             DIAL,      NULL},
    {"127.0.0.1:0",                       LISTEN,    NULL},
    {"0.0.0.0:7070",                      LISTEN,    NULL},
    {"[::]:0",                            LISTEN,    NULL},
    {"host:0",                            ADVERTISE, NULL},

    {"",                                  DIAL,      "empty"},
    {" ",                                 DIAL,      "white space"},
    {"host :7070",                        DIAL,      "white space"},
    {"host:7070\n",                       DIAL,      "white space"},
    {"a:1,b:1",                           DIAL,      "a list is not possible"},
    {"host",                              DIAL,      "write host:7070"},
    {"127.0.0.1",                         LISTEN,    "write 127.0.0.1:7070"},
    {"host:",                             DIAL,      "write host:7070"},
    {":7070",                             DIAL,      "write 127.0.0.1:7070"},
    {":7070",                             LISTEN,    "write 0.0.0.0:7070"},
    {"host:http",                         DIAL,      "'http' is no port"},
    {"host:-1",                           DIAL,      "'-1' is no port"},
    {"host:7070/x",                       DIAL,      "'7070/x' is no port"},
    {"host:65536",                        DIAL,      "65535 is the last"},
    {"host:99999999999999999999",         DIAL,      "65535 is the last"},
    {"host:000001",                       DIAL,      "65535 is the last"},
    {"host:0",                            DIAL,      "port 0 cannot be dialled"},
    {"::1:7070",                          DIAL,      "write [::1]:7070"},
    {"::1",                               DIAL,      "write [::1]:7070"},
    {"fe80::1%eth0:7070",                 DIAL,      "write [fe80::1%eth0]:7070"},
    {"2001:db8:0:0:0:0:0:1",              DIAL,      "write [2001:db8:0:0:0:0:0:1]:7070"},
    {":::7070",                           LISTEN,    "write [::]:7070"},
    {"[::1]",                             DIAL,      "write [::1]:7070"},
    {"[::1]:",                            DIAL,      "write [::1]:7070"},
    {"[localhost]:7070",                  DIAL,      "'localhost' is no IPv6 address"},
    {"[127.0.0.1]:7070",                  DIAL,      "'127.0.0.1' is no IPv6 address"},
    {"[fe80::1%]:7070",                   DIAL,      "is no IPv6 address"},
    {"[fe80::1]:7070",                    DIAL,      "write [fe80::1%eth0]:7070"},
    {"[]:7070",                           DIAL,      "no host is given"},
    {"[::1:7070",                         DIAL,      "a bracket is not closed"},
    {"[::1",                              DIAL,      "a bracket is not closed"},
    {"[",                                 LISTEN,    "a bracket is not closed"},
    {"a:b:c",                             DIAL,      "too many colons"},
    {"256.0.0.1:7070",                    DIAL,      "'256.0.0.1' is no IPv4 address"},
    {"1.2.3:7070",                        DIAL,      "'1.2.3' is no IPv4 address"},
    {"user@host:7070",                    DIAL,      "'user@host' is no name of a host"},
    {"h\xc3\xb6st:7070",                  DIAL,      "is no name of a host"},
    {"http://host:7070",                  DIAL,      "leave the scheme away: write host:7070"},
    {"http://host:7070/path",             DIAL,      "leave the scheme away: write host:7070"},
    {"dns:///host:7070",                  DIAL,      "leave the scheme away: write host:7070"},
    {"dns:host:7070",                     DIAL,      "leave the scheme away: write host:7070"},
    {"ipv6:[::1]:7070",                   DIAL,      "leave the scheme away: write [::1]:7070"},
    {"http://",                           DIAL,      "leave the scheme away: write HOST:PORT"},
    {"tcp:",                              DIAL,      "leave the scheme away: write HOST:PORT"},
    {"xds:///service",                    DIAL,      "leave the scheme away"},
    {"0.0.0.0:7070",                      DIAL,      "0.0.0.0 is every address"},
    {"[::]:7070",                         DIAL,      ":: is every address"},
    {"0.0.0.0:0",                         ADVERTISE, "0.0.0.0 is every address"},
    {"unix:",                             DIAL,      "write unix:/path"},
    {"unix:relative",                     LISTEN,    "write unix:/path"},
};
/* clang-format on */

START_TEST(an_address_is_taken_or_refused_with_what_to_write)
{
    struct ps_error err = {0};
    enum ps_status status = ps_rpc_address_check(addresses[_i].address, addresses[_i].use, &err);
    const char *says = addresses[_i].says;
    ck_assert_msg(status == (says == NULL ? PS_OK : PS_ERR_INVALID), "'%s': %d %s",
                  addresses[_i].address, (int)status, err.text);
    ck_assert_msg(says == NULL || strstr(err.text, says) != NULL, "'%s': %s", addresses[_i].address,
                  err.text);
}
END_TEST

START_TEST(the_length_of_an_address_is_bounded_to_the_byte)
{
    char address[PS_ADDRESS_BYTES_MAX + 2] = "unix:/";
    struct ps_error err = {0};
    const size_t n_most = strlen("unix:") + 107; /* sun_path, its final 0 excluded. */
    memset(address + 6, 'a', n_most - 6);
    ck_assert_int_eq(ps_rpc_address_check(address, DIAL, &err), PS_OK);
    address[n_most] = 'a';
    ck_assert_int_eq(ps_rpc_address_check(address, DIAL, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "at most 107 bytes, not 108"));

    memset(address, 'a', sizeof(address) - 1);
    memcpy(address + PS_ADDRESS_BYTES_MAX - 5, ":7070", 6);
    ck_assert_int_eq(ps_rpc_address_check(address, DIAL, &err), PS_OK);
    memcpy(address + PS_ADDRESS_BYTES_MAX - 5, "a:7070", 7);
    ck_assert_int_eq(ps_rpc_address_check(address, DIAL, &err), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "at most 255 bytes, not 256"));
}
END_TEST

static const struct {
    const char *address, *target, *served;
} forms[] = {
    {"127.0.0.1:0", "ipv4:127.0.0.1:0", "127.0.0.1:9"},
    {"[::1]:0", "ipv6:[::1]:0", "[::1]:9"},
    {"[fe80::1%lo]:0", "[fe80::1%lo]:0", "[fe80::1%lo]:9"},
    {"host:0", "host:0", "host:9"},
    {"0.0.0.0:0", "ipv4:0.0.0.0:0", "127.0.0.1:9"}, /* What is served can be dialled. */
    {"[::]:0", "ipv6:[::]:0", "127.0.0.1:9"},
    {"unix:/a/b", "unix:/a/b", "unix:/a/b"},
};

START_TEST(an_address_is_put_as_grpc_and_as_others_want_it)
{
    char text[PS_ADDRESS_BYTES_MAX + 1];
    ps_rpc_address_target(forms[_i].address, text, sizeof(text));
    ck_assert_str_eq(text, forms[_i].target);
    ck_assert(ps_rpc_address_served(forms[_i].address, 9, text, sizeof(text)));
    ck_assert_str_eq(text, forms[_i].served);
    bool any = strcmp(forms[_i].served, "127.0.0.1:9") == 0 && forms[_i].address[0] != '1';
    ck_assert_int_eq(ps_rpc_address_is_any(forms[_i].address), any);
}
END_TEST

#define ALL "failed to connect to all addresses; last error: "

/* clang-format off */
static const struct {
    grpc_status_code code;
    const char *grpc, *says;
} words[] = {
    {GRPC_STATUS_UNAVAILABLE, ALL "UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: "
                              "Connection refused", "connection refused: nothing serves there"},
    {GRPC_STATUS_UNAVAILABLE, ALL "UNKNOWN: unix:/a: No such file or directory",
                              "there is no such socket: nothing serves there"},
    {GRPC_STATUS_UNAVAILABLE, ALL "INTERNAL: ipv4:127.0.0.1:1: Trying to connect an http1.x server",
                              "it answers, but with HTTP/1: another program is there"},
    {GRPC_STATUS_UNAVAILABLE, ALL "UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed",
                              "it hangs up before it speaks gRPC: another program is there, or TLS"},
    {GRPC_STATUS_UNAVAILABLE, ALL "UNKNOWN: of a kind that nobody has seen",
                              ALL "UNKNOWN: of a kind that nobody has seen"},
    {GRPC_STATUS_UNAVAILABLE, "DNS resolution failed for a:1: C-ares status is not ARES_SUCCESS "
                              "qtype=A name=a is_balancer=0: Domain name not found",
                              "the name does not resolve: Domain name not found"},
    {GRPC_STATUS_UNAVAILABLE, "DNS resolution failed", "the name does not resolve: DNS resolution "
                              "failed"},
    {GRPC_STATUS_UNAVAILABLE, "Socket closed", "Socket closed"}, /* After it was connected. */
    {GRPC_STATUS_UNAVAILABLE, "Received http2 header with status: 503",
                        "it answers with HTTP status 503, not with gRPC: another program is there"},
    {GRPC_STATUS_UNIMPLEMENTED, "Method not found!",
                                "it speaks gRPC, but is no ps-server: Method not found!"},
    {GRPC_STATUS_DEADLINE_EXCEEDED, "Deadline Exceeded",
                  "no answer within 2.5 s: stopped, behind a firewall, or another program"},
};
/* clang-format on */

START_TEST(what_grpc_met_is_said_in_words_for_people)
{
    struct ps_error err = {.status = PS_ERR_UNAVAIL};
    (void)snprintf(err.text, sizeof(err.text), "%s", words[_i].grpc);
    ps_rpc_reach_explain(words[_i].code, 2500, &err);
    ck_assert_str_eq(err.text, words[_i].says);
    ck_assert_int_eq(err.status, PS_ERR_UNAVAIL);
}
END_TEST

static Suite *suite_address(void)
{
    Suite *suite = suite_create("address");
    TCase *tcase = tcase_create("address");
    tcase_add_loop_test(tcase, an_address_is_taken_or_refused_with_what_to_write, 0,
                        (int)PS_ARRAY_LEN(addresses));
    tcase_add_test(tcase, the_length_of_an_address_is_bounded_to_the_byte);
    tcase_add_loop_test(tcase, an_address_is_put_as_grpc_and_as_others_want_it, 0,
                        (int)PS_ARRAY_LEN(forms));
    tcase_add_loop_test(tcase, what_grpc_met_is_said_in_words_for_people, 0,
                        (int)PS_ARRAY_LEN(words));
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_address)
