/* The C interface of a rank's residency; prism/gpu/cuda/residency.py is its Python side.
 *
 * The library is preloaded. It answers the program's cudaMalloc and cudaFree; what stands here moves what they gave.
 * Functions return a status, and residency_error() says why one is not RESIDENCY_DONE. One thread at a time calls them;
 * the program's other threads may allocate and free meanwhile. No kernel may use the memory from residency_out() until
 * residency_in() has returned.
 */

#ifndef RESIDENCY_API_H
#define RESIDENCY_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RESIDENCY_API __attribute__((visibility("default")))

enum residency_status {
  RESIDENCY_DONE = 0,
  RESIDENCY_DEVICE_FULL = 1, /* physical memory did not become free */
  RESIDENCY_POOL_FULL = 2,   /* the host pool cannot hold the copy; nothing was moved */
  RESIDENCY_SPILL_FULL = 3,  /* the file cannot be written; the copy stays in the pool */
  RESIDENCY_CORRUPT = 4,     /* the file is not what was written to it */
  RESIDENCY_INVALID = 5,     /* called out of order, or with wrong arguments */
  RESIDENCY_FAILED = 6,      /* the driver or the system refused */
};

/* What one call moved. */
typedef struct {
  uint64_t bytes;   /* of device memory */
  uint64_t ns;      /* from the call to the return */
  uint64_t free;    /* bytes of physical memory that the device has free afterwards */
  uint64_t device;  /* its number in this process */
  uint64_t copying; /* ns from the begin of the first copy to the end of the last, by the device's clock */
  uint64_t starved; /* ns of these in which none was under way: the next one's memory was not open, or not pinned */
} residency_moved;

typedef struct {
  uint64_t segments;      /* that cudaMalloc has given and cudaFree has not got back */
  uint64_t bytes;         /* their physical memory, were all of them in */
  uint64_t resident;      /* bytes of it that the device holds now */
  uint64_t passed;        /* requests that were left to the runtime: small ones */
} residency_figures;

/* The kinds of calls of the driver that moves are made of. */
enum residency_call {
  RESIDENCY_CALL_SETTLE = 0,  /* wait for what the program has on the device */
  RESIDENCY_CALL_PIN = 1,     /* a slot of the host pool */
  RESIDENCY_CALL_CREATE = 2,  /* physical memory */
  RESIDENCY_CALL_MAP = 3,     /* put it behind addresses */
  RESIDENCY_CALL_OPEN = 4,    /* let the device use them */
  RESIDENCY_CALL_UNMAP = 5,
  RESIDENCY_CALL_RELEASE = 6, /* physical memory */
  RESIDENCY_CALL_COPY = 7,    /* begin a copy */
  RESIDENCY_CALL_WAIT = 8,    /* for copies */
  RESIDENCY_CALL_PAUSE = 9,   /* for memory that others are giving back */
  RESIDENCY_CALLS = 10,
};

/* All calls of a kind that this process has made. */
typedef struct {
  uint64_t count;
  uint64_t ns; /* from call to return, together */
} residency_tally;

RESIDENCY_API const char* residency_error(void);

/* Use the host pool in the file `path`, of `slots` slots of 32 MiB, as owner `owner` (from 1); the file may be new. */
RESIDENCY_API int32_t residency_open(const char* path, uint32_t slots, uint32_t owner);

/* Copy all memory to the pool and give its physical memory back; waits for what the device does. */
RESIDENCY_API int32_t residency_out(residency_moved* moved);

/* Get physical memory again and copy back; waits up to `patience_ms` for each piece of memory that others are giving
   back. */
RESIDENCY_API int32_t residency_in(uint32_t patience_ms, residency_moved* moved);

/* Move the host copy to a file, which is removed when it has been read. */
RESIDENCY_API int32_t residency_spill(const char* path, residency_moved* moved);

/* Ask for room through this socket by 24 bytes: how many are needed, how many free, and the number of the device;
 * answered by one, 1 to try again. */
RESIDENCY_API void residency_ask_through(int32_t descriptor);

RESIDENCY_API void residency_read(residency_figures* figures);

/* By kind, RESIDENCY_CALLS of them. */
RESIDENCY_API void residency_read_calls(residency_tally* tallies);

#ifdef __cplusplus
}
#endif

#endif
