#ifndef TIDEMARK_FAULT_CHANCE_H
#define TIDEMARK_FAULT_CHANCE_H

#include <stdint.h>

/* Random numbers that a seed determines: SplitMix64, after Steele, Lea and Flood (2014). */
static inline uint64_t chance_next(uint64_t *state) {
    uint64_t mixed = (*state += 0x9E3779B97F4A7C15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    return mixed ^ (mixed >> 31);
}

/* A number below `bound`, which is not 0. */
static inline uint64_t chance_below(uint64_t *state, uint64_t bound) {
    return chance_next(state) % bound;
}

#endif
