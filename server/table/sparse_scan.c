/* sparse_scan.c — see sparse_scan.h. */
#include "table/sparse_scan.h"

#include <string.h>

#include "base/assert.h"
#include "table/sparse_impl.h"

uint32_t ps_sparse_scan_rows_max(const struct ps_sparse *sparse)
{
    /* Wide rows are looked at one by one when zeros are skipped: no more bytes than a call has. */
    uint32_t n = PS_CALL_PAYLOAD_BYTES / (sparse->shape.row_floats * (uint32_t)sizeof(float));
    return n < PS_SCAN_ROWS ? n : PS_SCAN_ROWS;
}

static const float *weights_of(const struct ps_sparse *sparse, const float *row)
{
    return ps_row_weights_at(&sparse->shape, sparse->rate, row, sparse->scratch);
}

static bool wanted(const struct ps_sparse *sparse, const float *row, bool skip_zeros)
{
    return ps_row_live(&sparse->shape, sparse->clock, row) &&
           !(skip_zeros && ps_row_zero(weights_of(sparse, row), sparse->spec.width));
}

/* Look at the rows from `at` on, to the end of a page at most. @return the one behind the last */
static uint64_t look(const struct ps_sparse *sparse, struct ps_sparse_scan *scan, uint64_t at,
                     uint64_t end)
{
    for (; at < end && scan->n < scan->n_max; at++) {
        const float *row = ps_row_in(sparse, (uint32_t)at);
        if (wanted(sparse, row, scan->skip_zeros)) {
            scan->room[scan->n++] =
                (struct ps_sparse_item){.key = ps_row_key(row), .row = (uint32_t)at};
        }
    }
    return at;
}

void ps_sparse_scan_step(const struct ps_sparse *sparse, struct ps_sparse_scan *scan)
{
    uint32_t page_bits = sparse->shape.page_bits;
    uint64_t n_all = (uint64_t)sparse->n_pages << page_bits;
    uint64_t at = scan->cursor;
    PS_ASSERT(scan->n_max > 0);
    scan->n = 0;
    for (uint32_t n_left = ps_sparse_scan_rows_max(sparse);
         at < n_all && n_left > 0 && scan->n < scan->n_max;) {
        const struct ps_page *page = sparse->pages[at >> page_bits].page;
        uint64_t first = at >> page_bits << page_bits;
        uint64_t end = first + (page == NULL ? 0 : ps_page_rows(&sparse->shape, page));
        if (at >= end) { /* Given up, or not that long: as much work as a row. */
            at = first + ((uint64_t)1 << page_bits);
            n_left--;
            continue;
        }
        end = end - at < n_left ? end : at + n_left;
        uint64_t next = look(sparse, scan, at, end);
        n_left -= (uint32_t)(next - at);
        at = next;
    }
    scan->cursor = at;
    scan->done = at >= n_all;
    scan->rows = ps_sparse_sort(scan->room, scan->room + scan->n_max, scan->n);
    for (uint32_t i = 0; i < scan->n; i++) {
        scan->keys[i] = scan->rows[i].key;
    }
}

void ps_sparse_scan_read(const struct ps_sparse *sparse, const struct ps_sparse_scan *scan,
                         uint8_t *to)
{
    size_t n_bytes = sparse->spec.width * sizeof(float);
    for (uint32_t i = 0; i < scan->n; i++, to += n_bytes) {
        memcpy(to, weights_of(sparse, ps_row_in(sparse, scan->rows[i].row)), n_bytes);
    }
}
