/* library_rig.c — see library_rig.h. */
#include "library_rig.h"

#include <stdlib.h>

#include <semaphore.h>

#include "lib/test_main.h"
#include "os/clock.h"
#include "os/thread_exec.h"

struct fake_cluster *cluster;
static struct ps_thread_exec *thread;
static struct ps_inline_exec inline_exec;
struct ps_client *client;
float *gradient;
float *weights;

struct ps_client_ports library_ports(int kind)
{
    cluster = fake_cluster_create(2);
    thread = NULL;
    if (kind == THREAD) {
        ck_assert_int_eq(ps_thread_exec_create("cluster", &thread, NULL), PS_OK);
        cluster->net.port = ps_thread_exec_port(thread);
    } else {
        ps_inline_exec_init(&inline_exec, ps_clock_source, NULL);
        cluster->net.port = &inline_exec.base;
    }
    return (struct ps_client_ports){.transport = &cluster->net.base,
                                    .exec = cluster->net.port,
                                    .inline_exec = kind == INLINE ? &inline_exec : NULL};
}

void library_drop_ports(void)
{
    ps_thread_exec_destroy(thread);
    fake_cluster_destroy(cluster);
}

void library_start_as(int kind, enum ps_client_kind as)
{
    struct ps_client_ports ports = library_ports(kind);
    struct ps_client_options options = {.coordinator = "coordinator:1", .kind = as};
    struct ps_error err = {0};
    ck_assert_msg(ps_client_open_over(&ports, &options, &client, &err) == PS_OK, "%s", err.text);
    gradient = calloc(N_ELEMENTS, sizeof(float));
    weights = calloc(N_ELEMENTS, sizeof(float));
    ck_assert(gradient != NULL && weights != NULL);
    for (uint32_t i = 0; i < N_ELEMENTS; i++) {
        gradient[i] = (float)(i % 100);
    }
}

void library_start(int kind)
{
    library_start_as(kind, PS_CLIENT_WORKER);
}

void library_stop(void)
{
    ps_client_close(client);
    ps_thread_exec_destroy(thread); /* What it did is seen from now on. */
    thread = NULL;
    ck_assert_uint_eq(cluster->n_leaves, 1);
    ck_assert_uint_eq(cluster->net.n_channels, 0);
    library_drop_ports();
    free(gradient);
    free(weights);
}

/* Do something to the cluster, where it lives. */
struct deed {
    struct ps_mail mail;
    void (*run)(void);
    sem_t done;
};

static void run_deed(struct ps_mail *mail)
{
    struct deed *deed = PS_CONTAINER_OF(mail, struct deed, mail);
    deed->run();
    (void)sem_post(&deed->done);
}

void library_do(int kind, void (*run)(void))
{
    struct deed deed = {.mail.run = run_deed, .run = run};
    ck_assert_int_eq(sem_init(&deed.done, 0, 0), 0);
    ps_exec_post(cluster->net.port, &deed.mail);
    if (kind == INLINE) {
        ps_inline_exec_pump(&inline_exec);
    }
    (void)sem_wait(&deed.done);
    (void)sem_destroy(&deed.done);
}

struct ps_table library_define(void)
{
    struct ps_table_def def = {.name = "w", .n_dims = 1, .shape = {N_ELEMENTS}, .optimizer = "sgd"};
    struct ps_table table = {.number = 99};
    struct ps_error err = {0};
    ck_assert_msg(ps_client_define_table(client, &def, &table, &err) == PS_OK, "%s", err.text);
    return table;
}
