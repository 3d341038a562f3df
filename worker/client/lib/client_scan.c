/* client_scan.c — all rows of a sparse table, one room full after the other. */
#include <ps/client.h>

#include "client/lib/client_impl.h"

enum ps_status ps_client_scan(struct ps_client *client, struct ps_scan *scan, struct ps_error *err)
{
    enum ps_status status = PS_CLIENT_CHECK(err, client, scan);
    return status == PS_OK ? ps_fail(err, PS_ERR_UNSUPPORTED, "scans are not there yet") : status;
}
