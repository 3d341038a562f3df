/* places.c — see places.h. */
#include "model/places.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

#define CALL_SHIFT 32u /* A mark: the number of the call above, that of the key below. */

void ps_places_init(struct ps_places *places, struct ps_mem *mem)
{
    *places = (struct ps_places){.mem = mem};
}

void ps_places_deinit(struct ps_places *places)
{
    ps_mem_free(places->marks);
    *places = (struct ps_places){0};
}

enum ps_status ps_places_reserve(struct ps_places *places, size_t n)
{
    if (n <= places->capacity) {
        return PS_OK;
    }
    size_t n_room = n + n / 4; /* Units differ a little. */
    uint64_t *marks = ps_mem_array(places->mem, PS_MEM_OTHER, n_room, sizeof(*marks));
    if (marks == NULL) {
        return PS_ERR_NOMEM;
    }
    ps_mem_free(places->marks);
    places->marks = marks; /* Zeros: met by no call. */
    places->capacity = n_room;
    return PS_OK;
}

/* Calls are numbered from 1; after 2^32 of them the marks of the first would look new. */
static uint64_t next_call(struct ps_places *places)
{
    places->call++;
    if (places->call == 0) {
        memset(places->marks, 0, places->capacity * sizeof(*places->marks));
        places->call = 1;
    }
    return (uint64_t)places->call << CALL_SHIFT;
}

uint32_t ps_places_find(struct ps_places *places, const struct ps_unique_keys *keys, uint64_t *to,
                        uint32_t *index)
{
    if (keys->n == 0) {
        return 0;
    }
    uint64_t call = next_call(places);
    uint32_t n_distinct = 0;
    for (size_t i = 0; i < keys->n; i++) {
        if (keys->lists != NULL && keys->lists[i] != keys->list) {
            continue;
        }
        PS_ASSERT(keys->keys[i] < places->capacity);
        uint64_t *mark = &places->marks[keys->keys[i]];
        if (*mark < call) { /* Of an earlier call. */
            *mark = call | n_distinct;
            to[n_distinct++] = keys->keys[i];
        }
        index[i] = (uint32_t)*mark;
    }
    return n_distinct;
}
