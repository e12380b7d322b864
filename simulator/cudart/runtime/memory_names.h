/* Names of allocations that the host may use.  They say what kind of memory an address belongs to. */
#ifndef SIM_CUDART_MEMORY_NAMES_H
#define SIM_CUDART_MEMORY_NAMES_H

#define MANAGED_MEMORY     "cudaMallocManaged"
#define PINNED_MEMORY      "cudaHostAlloc"
#define PAGE_LOCKED_MEMORY "cudaMallocHost"
#define REGISTERED_MEMORY  "cudaHostRegister"

#endif
