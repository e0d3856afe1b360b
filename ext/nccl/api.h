/* The engine's C interface; prism/gpu/pruned/__init__.py is its Python side and says what everything means.
 *
 * Functions return a status, openers a handle that is null if they fail; pruned_error() then says why. A handle is used
 * by one thread at a time. pruned_wait() goes on with what was started on a handle; it returns PRUNED_PENDING after
 * 50 ms, or when a signal came in, and is then called again.
 */

#ifndef PRUNED_API_H
#define PRUNED_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PRUNED_API __attribute__((visibility("default")))

enum pruned_status {
  PRUNED_DONE = 0,
  PRUNED_PENDING = 1,
  PRUNED_ABORTED = 2,
  PRUNED_PEER_LOST = 3,
  PRUNED_MISMATCH = 4,
  PRUNED_INVALID = 5,
  PRUNED_FAILED = 6,
};

typedef struct pruned_handle pruned_handle;

typedef struct {
  const char* directory;
  const char* group;
  int32_t size;
  int32_t rank;
  const int32_t* sandbox;
  int32_t sandbox_size;
  const int32_t* nodes; /* of each member, for trees; null: each member is a node of its own */
} pruned_membership;

typedef struct {
  int32_t kind, dtype, reduce, root, size;
  int32_t tree; /* along two trees, not a ring */
  int32_t has_sends, has_receives; /* whether there is an entry for each member in `sends`, `receives` */
  int64_t count;
  const int64_t* sends;
  const int64_t* receives;
} pruned_op;

typedef struct {
  int32_t mode; /* exact, left, prefolded, replicas */
  const void* head;
  const void* tail;
  const void* final;
  const void* branches[4]; /* for trees, by slot */
} pruned_contribution;

typedef struct {
  const int64_t* posts;
  int64_t posts_size;
  int64_t latency, transfer;
} pruned_pace;

typedef struct {
  int64_t sends, receives, sent_bytes, received_bytes;
} pruned_moved;

typedef struct {
  int64_t receive, reduce, store, send, complete, first, last;
} pruned_member_step;

typedef struct {
  int64_t delayed, adders, total, complete, owner, first, last;
} pruned_arc_step;

typedef struct {
  int64_t tree, top, above, slot, carries, members, below;
} pruned_branch;

PRUNED_API const char* pruned_error(void);

PRUNED_API pruned_handle* pruned_open_member(const pruned_membership* membership, int32_t replicas);
PRUNED_API pruned_handle* pruned_open_arc(const pruned_membership* membership);
PRUNED_API pruned_handle* pruned_open_peers(const pruned_membership* membership);
PRUNED_API pruned_handle* pruned_open_branches(const pruned_membership* membership);
PRUNED_API pruned_handle* pruned_open_pipe(const char* directory, const char* name);
PRUNED_API void pruned_close(pruned_handle* handle);

PRUNED_API int pruned_start_member(pruned_handle* handle, const pruned_op* op, const void* input, void* output);
/* `pace` may be null here and below: then nothing is paced. */
PRUNED_API int pruned_start_arc(pruned_handle* handle, const pruned_op* op, const pruned_contribution* contribution,
                                const pruned_pace* pace);
PRUNED_API int pruned_start_branches(pruned_handle* handle, const pruned_op* op,
                                     const pruned_contribution* contribution, const pruned_pace* pace);
PRUNED_API int pruned_start_peers(pruned_handle* handle, const pruned_op* op, const void* data,
                                  const pruned_pace* pace);
PRUNED_API int pruned_start_send(pruned_handle* handle, const void* data, int64_t bytes, int64_t start,
                                 int64_t duration);
PRUNED_API int pruned_start_receive(pruned_handle* handle, void* data, int64_t bytes);
PRUNED_API int pruned_wait(pruned_handle* handle, pruned_moved* moved);

/* A bridge's records are sealed by these functions (seal.h), which are libsodium's, with a key of the connection. */
typedef struct {
  const void* encrypt;
  const void* decrypt;
  uint8_t key[32];
} pruned_seal;

/* One side of a bridge (bridge.h) over a connected socket, which it closes. Parties are 'm' (member), 'a' (the arc
 * after), 'p' (peers) or 'b' (branches), and a rank; a pipe has none. An edge of a tree is the one above `child`. A
 * turn is PRUNED_DONE if the other side has ended the stream. */
typedef struct {
  const char* name; /* of the group, or of the pipe */
  int32_t is_pipe;
  int32_t from_role, from_rank, to_role, to_rank;
  int32_t is_edge, tree, child, up;
} pruned_link;

typedef struct pruned_bridge pruned_bridge;

PRUNED_API pruned_bridge* pruned_open_bridge(const char* directory, const pruned_link* link, const pruned_seal* seal,
                                             int32_t socket, int32_t outwards);
PRUNED_API int pruned_turn_bridge(pruned_bridge* bridge);
PRUNED_API void pruned_close_bridge(pruned_bridge* bridge);

/* By how many ns the clock that all hosts agree on is ahead of CLOCK_MONOTONIC here, and how much before its time
 * virtual parties let go of what they send; 0 where there is one host. */
PRUNED_API void pruned_set_clock(int64_t ahead, int64_t lead);

/* Ends all calls on the directory, now and later; the first reason is the one that they tell. */
PRUNED_API int pruned_abort(const char* directory, const char* reason);
/* PRUNED_ABORTED, with the reason, if somebody has. */
PRUNED_API int pruned_check(const char* directory);

/* Plans, for looking at. `steps` null asks for their number only; it returns it, or -1. */
PRUNED_API int64_t pruned_member_plan(const pruned_op* op, int32_t rank, pruned_member_step* steps);
PRUNED_API int64_t pruned_arc_plan(const pruned_op* op, const pruned_membership* membership, pruned_arc_step* steps);
/* The branches that a member keeps. */
PRUNED_API int64_t pruned_branches(const pruned_membership* membership, pruned_branch* rows);
/* When b has each send of the arc, given when a's sends were handed over: as many entries as the arc has sends. */
PRUNED_API int pruned_release_times(const pruned_op* op, const pruned_membership* membership, const pruned_pace* pace,
                                    const int64_t* arrivals, int64_t arrivals_size, int64_t* times);

#ifdef __cplusplus
}
#endif

#endif
