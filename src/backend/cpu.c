/* The CPU as a device: memory is the host's, copies are plain, nothing to wait for. */
#include <string.h>

#include "backend/device.h"
#include "base/alloc.h"

static void *cpu_alloc(const struct pd_device *device, size_t size)
{
    (void)device;
    return pd_malloc_aligned(size);
}

static void cpu_release(const struct pd_device *device, void *memory)
{
    (void)device;
    pd_free_aligned(memory);
}

static void cpu_copy(const struct pd_device *device, void *to, const void *from, size_t size)
{
    (void)device;
    if (size) memcpy(to, from, size);
}

static void cpu_wait(const struct pd_device *device)
{
    (void)device;
}

const struct pd_device pd_device_cpu = {
    .name = "cpu",
    .alloc = cpu_alloc,
    .release = cpu_release,
    .to_device = cpu_copy,
    .to_host = cpu_copy,
    .wait = cpu_wait,
};
