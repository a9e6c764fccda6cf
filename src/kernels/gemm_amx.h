/* float32 products on the matrix unit of Intel processors (AMX), which multiplies bfloat16 and adds in
 * float32.
 *
 * Each number is split into three bfloat16 parts that add up to it exactly (8 + 8 + 8 bits of its 24), and
 * six of the nine products of parts are added up; the other three are below 2^-24 of the whole. So for every
 * element |error| <= (2^-24 + rounding of the float32 sums) * sum |a||b|  +  floor with sums of 16 terms that
 * are added up in turn: on the whole closer to the exact result than one chain of float32 multiply-adds. The
 * floor comes from parts and products below 2^-126, which the unit takes as 0; it is below 2^-30 of k *
 * max|A| max|B|, because matrices whose largest numbers are too small or too large for that are left to
 * others. */
#ifndef PD_KERNELS_GEMM_AMX_H
#define PD_KERNELS_GEMM_AMX_H

#include "kernels/gemm.h"

/* Row-major product as in gemm.h, of any size with k above 0. Returns 0 with C untouched where the processor,
 * the system or the build has no AMX, FLAGS_use_amx is 0, memory is short, or A or B hold Inf, NaN, or
 * numbers out of the range above. The result does not depend on the number of threads. */
int pd_amx_gemm(const struct pd_gemm *g);

/* Whether this machine and build have it; the flag is not asked. */
int pd_amx_ready(void);

#endif
