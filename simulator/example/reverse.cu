// Reverses 64 numbers through shared memory; the barrier between write and read is missing.
#include <cstdio>

template <int N> __global__ void reverse(int *numbers) {
    __shared__ int room[N];
    room[threadIdx.x] = numbers[threadIdx.x];
    numbers[threadIdx.x] = room[N - 1 - threadIdx.x];
}

int main() {
    int host[64], *device;
    for (int i = 0; i < 64; i++) {
        host[i] = i;
    }
    cudaMalloc(&device, sizeof host);
    cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice);
    reverse<64><<<1, 64>>>(device);
    cudaError_t error = cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
    std::printf("%s\n", cudaGetErrorString(error));
    cudaFree(device);
    return error != cudaSuccess;
}
