// A libnccl.so.2 that does nothing but tell the test program what it is asked: each function strong by its "p" name and
// weak by its own, as the real one has them. Functions get eleven words; a caller fills as many as it declares.

#include <cstdio>

extern "C" void test_told(const char* line);  // the test program's
extern "C" int test_result();

namespace {

using Word = long;

int tell(const char* name, Word a = 0, Word b = 0, Word c = 0, Word d = 0, Word e = 0, Word f = 0, Word g = 0,
         Word h = 0, Word i = 0, Word j = 0, Word k = 0) {
  char line[400];
  std::snprintf(line, sizeof line, "real %s %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld", name, a, b, c, d, e, f, g, h,
                i, j, k);
  test_told(line);
  return test_result();
}

/// That it is loaded once only.
const int loaded = (test_told("real loaded"), 0);

}  // namespace

#define BOTH(result, name, parameters, body)                                                  \
  extern "C" __attribute__((weak)) result name parameters body                                \
  extern "C" result p##name parameters body

#define WORDS                                                                                 \
  (Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h, Word i, Word j, Word k)
#define TELLS(name) BOTH(int, name, WORDS, { return tell(#name, a, b, c, d, e, f, g, h, i, j, k); })

TELLS(ncclGetVersion)
TELLS(ncclGetUniqueId)
TELLS(ncclCommInitRankScalable)
TELLS(ncclCommFinalize)
TELLS(ncclCommDestroy)
TELLS(ncclCommAbort)
TELLS(ncclCommRevoke)
TELLS(ncclCommSplit)
TELLS(ncclCommShrink)
TELLS(ncclCommGetAsyncError)
TELLS(ncclCommCount)
TELLS(ncclCommCuDevice)
TELLS(ncclCommUserRank)
TELLS(ncclCommRegister)
TELLS(ncclCommDeregister)
TELLS(ncclCommWindowRegister)
TELLS(ncclCommWindowDeregister)
TELLS(ncclDevCommCreate)
TELLS(ncclDevCommDestroy)
TELLS(ncclRedOpCreatePreMulSum)
TELLS(ncclRedOpDestroy)
TELLS(ncclReduce)
TELLS(ncclBcast)
TELLS(ncclBroadcast)
TELLS(ncclAllReduce)
TELLS(ncclReduceScatter)
TELLS(ncclAllGather)
TELLS(ncclAlltoAll)
TELLS(ncclGather)
TELLS(ncclScatter)
TELLS(ncclSend)
TELLS(ncclRecv)
TELLS(ncclGroupStart)
TELLS(ncclGroupEnd)
TELLS(ncclGroupSimulateEnd)
TELLS(ncclMemAlloc)
TELLS(ncclMemFree)
#ifdef FAKE_NCCL_2_29
TELLS(ncclCommGrow)
TELLS(ncclCommGetUniqueId)
TELLS(ncclCommSuspend)
TELLS(ncclCommResume)
TELLS(ncclCommMemStats)
TELLS(ncclGetPeerDevicePointer)
TELLS(ncclGetLsaMultimemDevicePointer)
TELLS(ncclPutSignal)
TELLS(ncclSignal)
TELLS(ncclWaitSignal)
#endif

BOTH(const char*, ncclGetErrorString, (int), { return "real text of a result"; })
BOTH(const char*, ncclGetLastError, (Word), { return "real last error"; })

struct Id {
  char bytes[128];
};
BOTH(int, ncclCommInitRank, (Word comm, Word size, Id id, Word rank),
     { return tell("ncclCommInitRank", comm, size, id.bytes[0], id.bytes[127], rank); })
BOTH(int, ncclCommInitRankConfig, (Word comm, Word size, Id id, Word rank, Word config),
     { return tell("ncclCommInitRankConfig", comm, size, id.bytes[0], id.bytes[127], rank, config); })

/// Asks its own functions by name, with handles of its own, as the real one does.
extern "C" int ncclCommInitAll(Word comms, Word count, Word devices);
BOTH(int, ncclCommInitAll, (Word comms, Word count, Word devices), {
  tell("ncclCommInitAll", comms, count, devices);
  ncclGetUniqueId(41, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  return ncclCommGetAsyncError(42, 43, 0, 0, 0, 0, 0, 0, 0, 0, 0);
})
