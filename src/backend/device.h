/* Devices behind one small vtable. Today there is the CPU; a GPU brings a second table and nothing else
 * changes. */
#ifndef PD_BACKEND_DEVICE_H
#define PD_BACKEND_DEVICE_H

#include <paddle/status.h>
#include <stddef.h>

struct pd_device {
    const char *name;
    /* Memory on the device, aligned to 64 bytes. NULL when there is none left. Does not block. */
    void *(*alloc)(const struct pd_device *device, size_t size);
    void (*release)(const struct pd_device *device, void *memory);
    /* Copies between this device and the host in the order of its stream; `host` to device, device to `host`.
     */
    void (*to_device)(const struct pd_device *device, void *to, const void *host, size_t size);
    void (*to_host)(const struct pd_device *device, void *host, const void *from, size_t size);
    /* Waits until all that was started on the device is done. */
    void (*wait)(const struct pd_device *device);
};

extern const struct pd_device pd_device_cpu;

#endif
