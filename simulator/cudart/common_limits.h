/* Limits that are the same on all chips: constant memory, copies, textures, surfaces. */
#ifndef SIM_CUDART_COMMON_LIMITS_H
#define SIM_CUDART_COMMON_LIMITS_H

#include <limits.h>

/* HW: CUDA C++ Programming Guide, technical specifications by compute capability; deviceQuery of a card of 7.5
 * lists the same sizes of textures, layers and constants.  None was read from a card of the chips here. */
enum {
    WIDE = 128 * 1024,
    NARROW = 32 * 1024,
    DEEP = 16 * 1024,
    LAYERS = 2048,
    CUBES = 2046, /* layers of a cube map */
};

/* X(attribute, member of cudaDeviceProp, value) */
#define COMMON_LIMITS(X)                                                                                       \
    X(TotalConstantMemory, totalConstMem, 64 * 1024)                                                           \
    X(MaxPitch, memPitch, INT_MAX)                                                                             \
    X(TextureAlignment, textureAlignment, 512)                                                                 \
    X(TexturePitchAlignment, texturePitchAlignment, 32)                                                        \
    X(SurfaceAlignment, surfaceAlignment, 512)                                                                 \
    X(MaxTexture1DWidth, maxTexture1D, WIDE)                                                                   \
    X(MaxTexture1DMipmappedWidth, maxTexture1DMipmap, NARROW)                                                  \
    X(MaxTexture1DLayeredWidth, maxTexture1DLayered[0], NARROW)                                                \
    X(MaxTexture1DLayeredLayers, maxTexture1DLayered[1], LAYERS)                                               \
    X(MaxTexture2DWidth, maxTexture2D[0], WIDE)                                                                \
    X(MaxTexture2DHeight, maxTexture2D[1], 64 * 1024)                                                          \
    X(MaxTexture2DLinearWidth, maxTexture2DLinear[0], WIDE)                                                    \
    X(MaxTexture2DLinearHeight, maxTexture2DLinear[1], 65000)                                                  \
    X(MaxTexture2DLinearPitch, maxTexture2DLinear[2], 2097120)                                                 \
    X(MaxTexture2DMipmappedWidth, maxTexture2DMipmap[0], NARROW)                                               \
    X(MaxTexture2DMipmappedHeight, maxTexture2DMipmap[1], NARROW)                                              \
    X(MaxTexture2DGatherWidth, maxTexture2DGather[0], NARROW)                                                  \
    X(MaxTexture2DGatherHeight, maxTexture2DGather[1], NARROW)                                                 \
    X(MaxTexture2DLayeredWidth, maxTexture2DLayered[0], NARROW)                                                \
    X(MaxTexture2DLayeredHeight, maxTexture2DLayered[1], NARROW)                                               \
    X(MaxTexture2DLayeredLayers, maxTexture2DLayered[2], LAYERS)                                               \
    X(MaxTexture3DWidth, maxTexture3D[0], DEEP)                                                                \
    X(MaxTexture3DHeight, maxTexture3D[1], DEEP)                                                               \
    X(MaxTexture3DDepth, maxTexture3D[2], DEEP)                                                                \
    X(MaxTexture3DWidthAlt, maxTexture3DAlt[0], DEEP / 2)                                                      \
    X(MaxTexture3DHeightAlt, maxTexture3DAlt[1], DEEP / 2)                                                     \
    X(MaxTexture3DDepthAlt, maxTexture3DAlt[2], 2 * DEEP)                                                      \
    X(MaxTextureCubemapWidth, maxTextureCubemap, NARROW)                                                       \
    X(MaxTextureCubemapLayeredWidth, maxTextureCubemapLayered[0], NARROW)                                      \
    X(MaxTextureCubemapLayeredLayers, maxTextureCubemapLayered[1], CUBES)                                      \
    X(MaxSurface1DWidth, maxSurface1D, NARROW)                                                                 \
    X(MaxSurface2DWidth, maxSurface2D[0], WIDE)                                                                \
    X(MaxSurface2DHeight, maxSurface2D[1], 64 * 1024)                                                          \
    X(MaxSurface3DWidth, maxSurface3D[0], DEEP)                                                                \
    X(MaxSurface3DHeight, maxSurface3D[1], DEEP)                                                               \
    X(MaxSurface3DDepth, maxSurface3D[2], DEEP)                                                                \
    X(MaxSurface1DLayeredWidth, maxSurface1DLayered[0], NARROW)                                                \
    X(MaxSurface1DLayeredLayers, maxSurface1DLayered[1], LAYERS)                                               \
    X(MaxSurface2DLayeredWidth, maxSurface2DLayered[0], NARROW)                                                \
    X(MaxSurface2DLayeredHeight, maxSurface2DLayered[1], NARROW)                                               \
    X(MaxSurface2DLayeredLayers, maxSurface2DLayered[2], LAYERS)                                               \
    X(MaxSurfaceCubemapWidth, maxSurfaceCubemap, NARROW)                                                       \
    X(MaxSurfaceCubemapLayeredWidth, maxSurfaceCubemapLayered[0], NARROW)                                      \
    X(MaxSurfaceCubemapLayeredLayers, maxSurfaceCubemapLayered[1], CUBES)                                      \
    X(StreamPrioritiesSupported, streamPrioritiesSupported, 1)                                                 \
    X(GlobalL1CacheSupported, globalL1CacheSupported, 1)                                                       \
    X(LocalL1CacheSupported, localL1CacheSupported, 1)                                                         \
    X(ComputePreemptionSupported, computePreemptionSupported, 1)

/* X(attribute, value): those that cudaDeviceProp does not have */
#define COMMON_ATTRIBUTES(X)                                                                                   \
    X(GpuOverlap, 1)                                                                                           \
    X(MaxTexture1DLinearWidth, 1 << 28)

#endif
