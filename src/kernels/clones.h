/* Function clones for newer instruction sets, chosen at load time. The baseline is SSE4.2.
 *
 * Put PD_CLONES before a static function with a plain loop over arrays; no OpenMP inside (pd_parallel calls
 * it with ranges). Sanitizer builds run the plain code. */
#ifndef PD_KERNELS_CLONES_H
#define PD_KERNELS_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(PD_SANITIZED)
#define PD_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PD_CLONES
#endif

#endif
