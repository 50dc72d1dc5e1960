/* A libcuda for tests: memory is the host's, streams run at once, kernels are given to a callback. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef int (*Launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

static Launch on_launch;
static int64_t live_blocks, live_events;

void fake_set_launch(Launch callback) { on_launch = callback; }
int64_t fake_live_blocks(void) { return live_blocks; }
int64_t fake_live_events(void) { return live_events; }

CUresult cuInit(unsigned flags) { return 0; }
CUresult cuDriverGetVersion(int *version) { *version = 13000; return 0; }
CUresult cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal ? 101 : 0; }
CUresult cuDeviceGetCount(int *count) { *count = 1; return 0; }
CUresult cuDeviceGetAttribute(int *value, int attribute, int device) { *value = attribute == 75 ? 9 : 0; return 0; }
CUresult cuDevicePrimaryCtxRetain(void **context, int device) { *context = &live_blocks; return 0; }
CUresult cuCtxSetCurrent(void *context) { return 0; }
CUresult cuGetErrorName(CUresult error, const char **name) { *name = "CUDA_ERROR"; return 0; }
CUresult cuGetErrorString(CUresult error, const char **text) { *text = "an error"; return 0; }

/* An image is the name of its kernel behind "image ". */
CUresult cuLibraryLoadData(void **library, const void *code, void *a, void *b, unsigned c, void *d, void *e, unsigned f) {
  if (strncmp(code, "image ", 6)) return 200;
  *library = strdup((const char *)code + 6);
  return 0;
}
CUresult cuLibraryGetKernel(void **kernel, void *library, const char *name) {
  if (strcmp(library, name)) return 500;
  *kernel = library;
  return 0;
}
CUresult cuKernelGetFunction(void **function, void *kernel) { *function = kernel; return 0; }
CUresult cuFuncSetAttribute(void *function, int attribute, int value) { return 0; }
CUresult cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                        void *stream, void **parameters, void **extra) {
  return on_launch(f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);
}

CUresult cuDeviceGetDefaultMemPool(void **pool, int device) { *pool = &live_blocks; return 0; }
CUresult cuMemPoolSetAttribute(void *pool, int attribute, void *value) { return 0; }
/* Bytes that are reserved, and those that are used. */
CUresult cuMemPoolGetAttribute(void *pool, int attribute, void *value) { *(uint64_t *)value = attribute == 5 ? 4096 : 1024; return 0; }
CUresult cuMemAllocAsync(uint64_t *address, size_t size, void *stream) {
  live_blocks++;
  *address = (uint64_t)aligned_alloc(256, (size + 255) / 256 * 256);
  return 0;
}
CUresult cuMemGetInfo_v2(size_t *free, size_t *total) { *free = 1 << 20; *total = 1 << 30; return 0; }
CUresult cuMemFreeAsync(uint64_t address, void *stream) { live_blocks--; free((void *)address); return 0; }
CUresult cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream) { memcpy((void *)to, from, size); return 0; }
CUresult cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream) { memcpy(to, (void *)from, size); return 0; }
CUresult cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void *stream) { memcpy((void *)to, (void *)from, size); return 0; }

CUresult cuStreamCreate(void **stream, unsigned flags) { *stream = (void *)(uintptr_t)(64 + flags); return 0; }
CUresult cuStreamSynchronize(void *stream) { return 0; }
CUresult cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return 0; }
CUresult cuStreamBeginCapture_v2(void *stream, int mode) { return 0; }
CUresult cuStreamEndCapture(void *stream, void **graph) { *graph = stream; return 0; }
CUresult cuGraphInstantiateWithFlags(void **executable, void *graph, uint64_t flags) { *executable = graph; return 0; }
CUresult cuGraphLaunch(void *executable, void *stream) { return 0; }
CUresult cuGraphDestroy(void *graph) { return 0; }
CUresult cuGraphExecDestroy(void *executable) { return 0; }
CUresult cuEventCreate(void **event, unsigned flags) { live_events++; *event = malloc(1); return 0; }
CUresult cuEventRecord(void *event, void *stream) { return 0; }
CUresult cuEventElapsedTime(float *ms, void *start, void *end) { *ms = 2.0f; return 0; }
CUresult cuEventElapsedTime_v2(float *ms, void *start, void *end) { *ms = 2.0f; return 0; }
CUresult cuEventQuery(void *event) { return 0; }
CUresult cuEventSynchronize(void *event) { return 0; }
CUresult cuEventDestroy_v2(void *event) { live_events--; free(event); return 0; }

#define ENTRY(name) {#name, (void *)name}
static struct { const char *name; void *function; } entries[] = {
  ENTRY(cuInit), ENTRY(cuDriverGetVersion), ENTRY(cuDeviceGet), ENTRY(cuDeviceGetCount), ENTRY(cuDeviceGetAttribute), ENTRY(cuDevicePrimaryCtxRetain),
  ENTRY(cuCtxSetCurrent), ENTRY(cuGetErrorName), ENTRY(cuGetErrorString), ENTRY(cuLibraryLoadData), ENTRY(cuLibraryGetKernel),
  ENTRY(cuKernelGetFunction), ENTRY(cuFuncSetAttribute), ENTRY(cuLaunchKernel), ENTRY(cuDeviceGetDefaultMemPool),
  ENTRY(cuMemPoolSetAttribute), ENTRY(cuMemPoolGetAttribute), ENTRY(cuMemAllocAsync), ENTRY(cuMemFreeAsync),
  {"cuMemcpyHtoDAsync", (void *)cuMemcpyHtoDAsync_v2}, {"cuMemcpyDtoHAsync", (void *)cuMemcpyDtoHAsync_v2},
  {"cuMemGetInfo", (void *)cuMemGetInfo_v2}, {"cuMemcpyDtoDAsync", (void *)cuMemcpyDtoDAsync_v2}, ENTRY(cuStreamCreate), ENTRY(cuStreamSynchronize), ENTRY(cuStreamWaitEvent),
  {"cuStreamBeginCapture", (void *)cuStreamBeginCapture_v2}, ENTRY(cuStreamEndCapture),
  {"cuGraphInstantiate", (void *)cuGraphInstantiateWithFlags}, {"cuGraphInstantiateWithFlags", (void *)cuGraphInstantiateWithFlags},
  ENTRY(cuGraphLaunch), ENTRY(cuGraphDestroy), ENTRY(cuGraphExecDestroy), ENTRY(cuEventCreate), ENTRY(cuEventRecord),
  ENTRY(cuEventElapsedTime), {"cuEventElapsedTime", (void *)cuEventElapsedTime_v2}, ENTRY(cuEventQuery), ENTRY(cuEventSynchronize), {"cuEventDestroy", (void *)cuEventDestroy_v2},
};

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
  if (status) *status = 0;
  *function = 0;
  if (!strcmp(symbol, "cuGetProcAddress")) *function = (void *)cuGetProcAddress_v2;
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
    if (!strcmp(symbol, entries[i].name)) *function = entries[i].function;
  if (*function) return 0;
  if (status) *status = 1;
  return 500;
}
