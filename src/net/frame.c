/* See frame.h. On the wire: magic u32, version u16, type u16, flags u16, zero u16, meta u32, payload u64,
 * request u64, step u64, extra u64. The first three fields keep their places in every version, so that two
 * versions can tell each other which they are. */
#include "net/frame.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "net/wire.h"

void pd_frame_pack(const struct pd_frame_head *head, uint8_t out[PD_FRAME_HEAD])
{
    pd_le_put(out, PD_FRAME_MAGIC, 4);
    pd_le_put(out + 4, PD_FRAME_VERSION, 2);
    pd_le_put(out + 6, head->type, 2);
    pd_le_put(out + 8, head->flags, 2);
    pd_le_put(out + 10, 0, 2);
    pd_le_put(out + 12, head->meta, 4);
    pd_le_put(out + 16, head->payload, 8);
    pd_le_put(out + 24, head->request, 8);
    pd_le_put(out + 32, head->step, 8);
    pd_le_put(out + 40, head->extra, 8);
}

uint32_t pd_frame_sum(const struct pd_frame_head *head, const void *meta)
{
    struct pd_frame_head plain = *head;
    uint8_t bytes[PD_FRAME_HEAD];
    plain.step = 0;
    pd_frame_pack(&plain, bytes);
    return pd_crc32c(pd_crc32c(0, bytes, sizeof bytes), meta, head->meta);
}

int pd_frame_version(const uint8_t bytes[PD_FRAME_HEAD])
{
    return pd_le_get(bytes, 4) == PD_FRAME_MAGIC ? (int)pd_le_get(bytes + 4, 2) : -1;
}

void pd_frame_sizes(const uint8_t bytes[PD_FRAME_HEAD], uint64_t *meta, uint64_t *payload)
{
    *meta = pd_le_get(bytes + 12, 4);
    *payload = pd_le_get(bytes + 16, 8);
}

pd_status pd_frame_unpack(const uint8_t bytes[PD_FRAME_HEAD], struct pd_frame_head *out)
{
    int version = pd_frame_version(bytes);
    if (version < 0 && bytes[0] == 0x16 && bytes[1] == 0x03)
        return pd_fail(PD_FORMAT,
                       "the other side uses TLS, and this process does not: set PADDLE_PS_TLS_CERT, "
                       "PADDLE_PS_TLS_KEY and PADDLE_PS_TLS_CA in every process");
    if (version < 0)
        return pd_fail(PD_FORMAT,
                       "these bytes are no message of ours (they start with %02x %02x %02x %02x): does "
                       "another program use this port?",
                       bytes[0], bytes[1], bytes[2], bytes[3]);
    if (version != PD_FRAME_VERSION)
        return pd_fail(PD_FORMAT,
                       "protocol version %d against %d: install the same version of cpaddle on all machines",
                       version, PD_FRAME_VERSION);
    struct pd_frame_head head = {
        .type = (uint16_t)pd_le_get(bytes + 6, 2),
        .flags = (uint16_t)pd_le_get(bytes + 8, 2),
        .meta = (uint32_t)pd_le_get(bytes + 12, 4),
        .payload = pd_le_get(bytes + 16, 8),
        .request = pd_le_get(bytes + 24, 8),
        .step = pd_le_get(bytes + 32, 8),
        .extra = pd_le_get(bytes + 40, 8),
    };
    if (pd_le_get(bytes + 10, 2) != 0)
        return pd_fail(PD_FORMAT, "a message of type %d is malformed: a field that must be 0 is not",
                       head.type);
    if (head.meta > PD_FRAME_META_MAX)
        return pd_fail(PD_FORMAT, "a message of type %d announces a meta part of %u bytes; the most is %d",
                       head.type, (unsigned)head.meta, PD_FRAME_META_MAX);
    if (head.payload > INT64_MAX)
        return pd_fail(PD_FORMAT, "a message of type %d announces a payload of 2^63 bytes or more",
                       head.type);
    *out = head;
    return PD_OK;
}
