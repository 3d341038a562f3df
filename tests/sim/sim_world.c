/* sim_world.c — see sim_world.h. */
#include "sim/sim_world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

/* ---- The queue: a binary heap that knows where each event stands ---------------------------- */

static bool sooner(const struct sim_event *a, const struct sim_event *b)
{
    if (a->at_ns != b->at_ns) {
        return a->at_ns < b->at_ns;
    }
    return a->tie != b->tie ? a->tie < b->tie : a->order < b->order;
}

static void put(struct sim_world *world, size_t index, struct sim_event *event)
{
    world->heap[index] = event;
    event->place = index + 1;
}

static void sift_up(struct sim_world *world, size_t index, struct sim_event *event)
{
    while (index > 0 && sooner(event, world->heap[(index - 1) / 2])) {
        put(world, index, world->heap[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    put(world, index, event);
}

static void sift_down(struct sim_world *world, size_t index, struct sim_event *event)
{
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= world->n_heap) {
            break;
        }
        if (child + 1 < world->n_heap && sooner(world->heap[child + 1], world->heap[child])) {
            child++;
        }
        if (!sooner(world->heap[child], event)) {
            break;
        }
        put(world, index, world->heap[child]);
        index = child;
    }
    put(world, index, event);
}

static void heap_remove(struct sim_world *world, struct sim_event *event)
{
    size_t index = event->place - 1;
    event->place = 0;
    world->n_heap--;
    struct sim_event *last = world->heap[world->n_heap];
    if (last == event) {
        return;
    }
    if (index > 0 && sooner(last, world->heap[(index - 1) / 2])) {
        sift_up(world, index, last);
    } else {
        sift_down(world, index, last);
    }
}

void sim_event_init(struct sim_event *event, struct sim_node *node,
                    void (*run)(struct sim_event *event))
{
    *event = (struct sim_event){.run = run, .node = node};
    ps_list_init(&event->node_entry);
}

bool sim_event_pending(const struct sim_event *event)
{
    return event->place > 0 || !ps_list_empty(&event->node_entry);
}

void sim_event_stop(struct sim_world *world, struct sim_event *event)
{
    ps_list_remove(&event->node_entry);
    if (event->place > 0) {
        heap_remove(world, event);
    }
}

void sim_event_start(struct sim_world *world, struct sim_event *event, uint64_t after_ns)
{
    sim_event_stop(world, event);
    if (world->n_heap == world->n_room) {
        size_t n_room = world->n_room == 0 ? 256 : 2 * world->n_room;
        struct sim_event **heap =
            ps_mem_grow(NULL, PS_MEM_OTHER, world->heap, n_room * sizeof(struct sim_event *));
        PS_ASSERT(heap != NULL);
        world->heap = heap;
        world->n_room = n_room;
    }
    event->at_ns = world->now_ns + after_ns;
    event->tie = ps_rng_next(&world->rng);
    event->order = world->n_scheduled++;
    sift_up(world, world->n_heap++, event);
}

static void mix(struct sim_world *world, uint64_t value)
{
    world->trace_hash = ps_mix64(world->trace_hash ^ value);
}

bool sim_world_step(struct sim_world *world)
{
    if (world->n_heap == 0) {
        return false;
    }
    struct sim_event *event = world->heap[0];
    heap_remove(world, event);
    world->now_ns = event->at_ns;
    if (event->node != NULL && event->node->paused) {
        ps_list_append(&event->node->waiting, &event->node_entry);
        return true;
    }
    world->n_events++;
    mix(world, event->at_ns);
    mix(world, event->order);
    world->at = event->node;
    event->run(event);
    world->at = NULL;
    return true;
}

void sim_world_run_until(struct sim_world *world, uint64_t at_ns)
{
    while (world->broken[0] == '\0' && world->n_heap > 0 && world->heap[0]->at_ns <= at_ns) {
        (void)sim_world_step(world);
    }
    if (world->broken[0] == '\0' && world->now_ns < at_ns) {
        world->now_ns = at_ns;
    }
}

/* ---- Chance -------------------------------------------------------------------------------- */

uint64_t sim_below(struct sim_world *world, uint64_t n)
{
    return ps_rng_below(&world->rng, n);
}

bool sim_chance(struct sim_world *world, uint32_t per_mille)
{
    return per_mille > 0 && ps_rng_below(&world->rng, 1000) < per_mille;
}

uint64_t sim_heavy_tail(struct sim_world *world, uint64_t usual)
{
    uint64_t bits = ps_rng_next(&world->rng);
    int n_doublings = __builtin_ctzll(bits | 512); /* k with likelihood 2^-k-1, at most 9. */
    return (ps_rng_below(&world->rng, usual + 1)) << n_doublings;
}

/* ---- World and nodes ----------------------------------------------------------------------- */

struct sim_world *sim_world_create(uint64_t seed)
{
    struct sim_world *world = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*world));
    PS_ASSERT(world != NULL);
    world->seed = seed;
    world->rng = ps_rng_from(seed);
    return world;
}

void sim_world_destroy(struct sim_world *world)
{
    if (world == NULL) {
        return;
    }
    PS_ASSERT(world->n_heap == 0 || world->broken[0] != '\0');
    for (uint32_t i = 0; i < world->n_nodes; i++) {
        ps_mem_free(world->nodes[i]);
    }
    ps_mem_free(world->heap);
    ps_mem_free(world);
}

struct sim_node *sim_node_create(struct sim_world *world, const char *name)
{
    PS_ASSERT(world->n_nodes < SIM_NODES_MAX);
    struct sim_node *node = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*node));
    PS_ASSERT(node != NULL);
    node->world = world;
    node->number = world->n_nodes;
    (void)snprintf(node->name, sizeof(node->name), "%s", name);
    node->clock_offset_ns = sim_below(world, 1000 * SIM_S);
    ps_list_init(&node->waiting);
    world->nodes[world->n_nodes++] = node;
    return node;
}

void sim_node_pause(struct sim_node *node)
{
    node->paused = true;
    sim_trace(node->world, node, "pause", NULL, 0, 0);
}

void sim_node_resume(struct sim_node *node)
{
    if (!node->paused) {
        return;
    }
    node->paused = false;
    sim_trace(node->world, node, "resume", NULL, 0, 0);
    while (!ps_list_empty(&node->waiting)) {
        struct sim_event *event = PS_CONTAINER_OF(node->waiting.next, struct sim_event, node_entry);
        ps_list_remove(&event->node_entry);
        sim_event_start(node->world, event, 0);
    }
}

/* ---- Trace --------------------------------------------------------------------------------- */

static void print_line(const struct sim_world *world, const struct sim_line *line)
{
    (void)fprintf(
        stderr, "%6" PRIu64 ".%06" PRIu64 " ms  %-10s %-18s %-34s %" PRIu64 " %" PRIu64 "\n",
        line->at_ns / SIM_MS, line->at_ns % SIM_MS, line->node != NULL ? line->node->name : "world",
        line->what, line->detail != NULL ? line->detail : "", line->a, line->b);
    (void)world;
}

void sim_trace(struct sim_world *world, const struct sim_node *node, const char *what,
               const char *detail, uint64_t a, uint64_t b)
{
    struct sim_line *line = &world->lines[world->n_lines % SIM_TRACE_LINES];
    world->n_lines++;
    *line = (struct sim_line){world->now_ns, node, what, detail, a, b};
    mix(world, a);
    mix(world, b);
    if (world->verbose) {
        print_line(world, line);
    }
}

void sim_trace_dump(const struct sim_world *world)
{
    uint64_t first = world->n_lines > SIM_TRACE_LINES ? world->n_lines - SIM_TRACE_LINES : 0;
    for (uint64_t i = first; i < world->n_lines; i++) {
        print_line(world, &world->lines[i % SIM_TRACE_LINES]);
    }
}

void sim_break(struct sim_world *world, const char *fmt, ...)
{
    if (world->broken[0] != '\0') {
        return;
    }
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(world->broken, sizeof(world->broken), fmt, args);
    va_end(args);
    sim_trace(world, NULL, "BROKEN", NULL, 0, 0);
}
