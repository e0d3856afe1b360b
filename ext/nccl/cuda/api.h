/* The device engine's C interface, for the process of a sandbox rank on a GPU.
 *
 * Functions return 0, or -1, and prism_device_error() says why. The order is begin, then for each group of sandbox and
 * virtual members group() and its operations in program order by planned(), then start(); identify() at any time after
 * group(). Until begin() every nccl call passes through to the real library.
 */

#ifndef PRUNED_DEVICE_API_H
#define PRUNED_DEVICE_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PRISM_DEVICE_API __attribute__((visibility("default")))

typedef struct {
  const char* directory; /* where sandbox processes leave what opens their FIFOs; must exist */
  const char* board;     /* prism/net/board.py's file; null: nobody is shown anything */
  const char* releases;  /* of releases.h's layout, this rank's; null: nothing is paced */
  int32_t place;         /* of this rank on the board */
  int32_t sandbox_ranks; /* on the board */
  int64_t ops;           /* on the board */
  int32_t device;        /* CUDA's number; -1: the current one */
  int32_t arc_device;    /* -1: the same */
  int64_t pool_bytes;    /* device memory for payloads that are read ahead */
  int32_t channels;      /* CTAs for each party of an operation; 0: by its size */
  int32_t sharing;       /* sandbox ranks whose kernels run on one device at one time; 0: one */
  int32_t mode;          /* of contribution: 0 exact, 1 left (zeros: without payloads), 2 prefolded, 3 replicas */
} prism_device_setup;

/* A payload: bytes of a file; path null: there is none. It begins at the operation's first element. */
typedef struct {
  const char* path;
  int64_t offset, nbytes;
} prism_device_part;

/* One message of a point-to-point operation or a pairwise collective, with a virtual or a sandbox member. */
typedef struct {
  int32_t peer;  /* group rank */
  int32_t sends; /* 1: to the peer, 0: from it */
  int64_t nbytes;
  prism_device_part payload; /* what a virtual peer sends; none: zeros */
} prism_device_partner;

typedef struct {
  int32_t kind, dtype, reduce, root; /* numbers of prism.core.graph: OpKind, DTYPES, REDUCES; root: group rank or -1 */
  int64_t count;                     /* as prism.gpu.pruned.Op counts */
  int64_t op;                        /* its column on the board; -1: it is not shown */
  int64_t entry;                     /* number among the rank's planned operations, over all groups, from 0 */
  int64_t latency, transfer;         /* ns, of the whole operation */
  /* What virtual members bring, as pruned::Contribution says: */
  prism_device_part head, tail, final;
  int32_t partners_size; /* SEND_RECV, GATHER, SCATTER, ALL_TO_ALL, in any order */
  const prism_device_partner* partners;
  int32_t uneven; /* 1: one block of a collective of uneven blocks, a broadcast of an all_gather's or a reduction of a
                     reduce_scatter's */
} prism_device_op;

/* The first thing that went wrong. */
enum prism_device_kind {
  PRISM_DEVICE_FINE = 0,
  PRISM_DEVICE_MISMATCH = 1, /* the program does not do what was planned */
  PRISM_DEVICE_ABORTED = 2,
  PRISM_DEVICE_FAILED = 3, /* CUDA or a file */
};

typedef struct {
  int32_t kind;
  char group[128];
  int64_t number; /* the operation's among the group's planned ones */
  char text[512];
} prism_device_report;

typedef struct {
  int64_t fifos, pool, stash, reserved; /* bytes of device memory */
  int64_t hits, misses, stalls;         /* payloads, as on the board */
  double start_seconds;                 /* what prism_device_start() took */
} prism_device_figures;

PRISM_DEVICE_API const char* prism_device_error(void);

PRISM_DEVICE_API int prism_device_begin(const prism_device_setup* setup);

/* `reserve_bytes`: device memory that NCCL's own communicator of `size` ranks would take; taken when the first
 * communicator of the group is made, given back when its last one is closed. */
PRISM_DEVICE_API int prism_device_group(const char* name, int32_t size, int32_t rank, const int32_t* sandbox,
                                        int32_t sandbox_size, int64_t reserve_bytes);
PRISM_DEVICE_API int prism_device_planned(const char* group, const prism_device_op* op);
/* What communicator an ncclUniqueId means: members `ranks` (group ranks) of a group, in the communicator's order. */
PRISM_DEVICE_API int prism_device_identify(const uint8_t id[128], const char* group, const int32_t* ranks,
                                           int32_t ranks_size);
/* Loads all kernels, takes all memory, opens what other sandbox processes have left, and begins to read ahead. Blocks
 * until those processes have come so far too. */
PRISM_DEVICE_API int prism_device_start(void);
/* 0 and kind PRISM_DEVICE_FINE as long as nothing went wrong. */
PRISM_DEVICE_API int prism_device_state(prism_device_report* report);
PRISM_DEVICE_API int prism_device_measure(prism_device_figures* figures);
PRISM_DEVICE_API void prism_device_end(void);

#ifdef __cplusplus
}
#endif

#endif
