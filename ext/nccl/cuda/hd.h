// What marks code that runs on both sides. Plain functions of the plans are constexpr instead (nvcc's
// --expt-relaxed-constexpr).

#pragma once

#if defined(__CUDACC__)
#define PRUNED_HD __host__ __device__
#define PRUNED_UNROLL _Pragma("unroll")
// The loops over data have registers of their own: what a party knows besides is put aside for as long.
#define PRUNED_APART __noinline__
#else
#define PRUNED_HD
#define PRUNED_UNROLL
#define PRUNED_APART
#endif
