/* A typed 32-bit shared address of a struct, for PTX instructions, which take such addresses.  A member's
 * address is base + offset, as with a pointer, and costs no other instruction. */
#ifndef GPU_SHARED_ADDRESS_CUH
#define GPU_SHARED_ADDRESS_CUH

#include <stddef.h>

#include "../instructions/ptx.cuh"

template <class S> struct shared_address {
    using type = S;
    uint32_t value;
};

/* The shared address of a member, whose indices are constants. */
#define SHARED_MEMBER(object, member)                                                                          \
    ((object).value + (uint32_t)offsetof(typename decltype(object)::type, member))

/* Element `index` of an array of structs or of mbarriers. */
template <class S> PTX struct shared_address<S> shared_element(uint32_t array, int index) {
    return {array + index * (int)sizeof(S)};
}

PTX struct mbarrier mbarrier_element(uint32_t array, int index) {
    return {array + index * (int)sizeof(uint64_t)};
}

#endif
