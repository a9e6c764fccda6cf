/* Frames: what travels between a trainer and a server. docs/PROTOCOL.md is the description for others.
 *
 * A frame is a fixed head, little-endian, then `meta` (small, structured: see wire.h), then the payload: raw
 * bytes of tensors, up to 2^63 - 1 of them. Nothing of a frame is trusted before it is checked. */
#ifndef PD_NET_FRAME_H
#define PD_NET_FRAME_H

#include <paddle/status.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PD_FRAME_MAGIC = 0x4C445043, /* "CPDL" */
    PD_FRAME_VERSION = 3,
    PD_FRAME_HEAD = 48,          /* bytes of a head on the wire */
    PD_FRAME_META_MAX = 4 << 20, /* a meta that announces more ends the connection */
};

struct pd_frame_head {
    uint16_t type; /* of the protocol on top; 0..15 are the handshake's (hello.h) */
    uint16_t flags;
    uint32_t meta;    /* bytes */
    uint64_t payload; /* bytes */
    uint64_t request; /* an answer carries the number of what it answers */
    uint64_t step;    /* of a message of the handshake: pd_frame_sum */
    uint64_t extra;   /* meaning by type */
};

void pd_frame_pack(const struct pd_frame_head *head, uint8_t out[PD_FRAME_HEAD]);
/* The checksum of a message of the handshake: of its head, with 0 for `step`, and of its meta. Damage to what
 * comes later is found by records (record.c). */
uint32_t pd_frame_sum(const struct pd_frame_head *head, const void *meta);
/* The version that the head's sender speaks; -1 when these are not our bytes. The place never changes. */
int pd_frame_version(const uint8_t bytes[PD_FRAME_HEAD]);
/* What the head announces, unchecked: to plan a read by, no more. */
void pd_frame_sizes(const uint8_t bytes[PD_FRAME_HEAD], uint64_t *meta, uint64_t *payload);
/* PD_FORMAT with a message for a wrong magic, another version or an oversized meta. */
pd_status pd_frame_unpack(const uint8_t bytes[PD_FRAME_HEAD], struct pd_frame_head *out);

#endif
