/* id.c — see id.h. */
#include "base/id.h"

void ps_id_text(const struct ps_id *id, char text[PS_ID_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof(id->bytes); i++) {
        text[2 * i] = digits[id->bytes[i] >> 4];
        text[2 * i + 1] = digits[id->bytes[i] & 15u];
    }
    text[PS_ID_TEXT_BYTES - 1] = '\0';
}

bool ps_id_from(const uint8_t *data, size_t n_bytes, struct ps_id *ret)
{
    if (n_bytes != sizeof(ret->bytes)) {
        return false;
    }
    memcpy(ret->bytes, data, n_bytes);
    return true;
}
