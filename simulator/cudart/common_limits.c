/* Limits that are the same on all chips: constant memory, copies, textures, surfaces. */
#include "common_limits.h"

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

static const int limits[] = {
    [cudaDevAttrTotalConstantMemory] = 64 * 1024,
    [cudaDevAttrMaxPitch] = INT_MAX,
    [cudaDevAttrGpuOverlap] = 1,
    [cudaDevAttrTextureAlignment] = 512,
    [cudaDevAttrTexturePitchAlignment] = 32,
    [cudaDevAttrSurfaceAlignment] = 512,
    [cudaDevAttrMaxTexture1DWidth] = WIDE,
    [cudaDevAttrMaxTexture1DLinearWidth] = 1 << 28,
    [cudaDevAttrMaxTexture1DMipmappedWidth] = NARROW,
    [cudaDevAttrMaxTexture1DLayeredWidth] = NARROW,
    [cudaDevAttrMaxTexture1DLayeredLayers] = LAYERS,
    [cudaDevAttrMaxTexture2DWidth] = WIDE,
    [cudaDevAttrMaxTexture2DHeight] = 64 * 1024,
    [cudaDevAttrMaxTexture2DLinearWidth] = WIDE,
    [cudaDevAttrMaxTexture2DLinearHeight] = 65000,
    [cudaDevAttrMaxTexture2DLinearPitch] = 2097120,
    [cudaDevAttrMaxTexture2DMipmappedWidth] = NARROW,
    [cudaDevAttrMaxTexture2DMipmappedHeight] = NARROW,
    [cudaDevAttrMaxTexture2DGatherWidth] = NARROW,
    [cudaDevAttrMaxTexture2DGatherHeight] = NARROW,
    [cudaDevAttrMaxTexture2DLayeredWidth] = NARROW,
    [cudaDevAttrMaxTexture2DLayeredHeight] = NARROW,
    [cudaDevAttrMaxTexture2DLayeredLayers] = LAYERS,
    [cudaDevAttrMaxTexture3DWidth] = DEEP,
    [cudaDevAttrMaxTexture3DHeight] = DEEP,
    [cudaDevAttrMaxTexture3DDepth] = DEEP,
    [cudaDevAttrMaxTexture3DWidthAlt] = DEEP / 2,
    [cudaDevAttrMaxTexture3DHeightAlt] = DEEP / 2,
    [cudaDevAttrMaxTexture3DDepthAlt] = 2 * DEEP,
    [cudaDevAttrMaxTextureCubemapWidth] = NARROW,
    [cudaDevAttrMaxTextureCubemapLayeredWidth] = NARROW,
    [cudaDevAttrMaxTextureCubemapLayeredLayers] = CUBES,
    [cudaDevAttrMaxSurface1DWidth] = NARROW,
    [cudaDevAttrMaxSurface2DWidth] = WIDE,
    [cudaDevAttrMaxSurface2DHeight] = 64 * 1024,
    [cudaDevAttrMaxSurface3DWidth] = DEEP,
    [cudaDevAttrMaxSurface3DHeight] = DEEP,
    [cudaDevAttrMaxSurface3DDepth] = DEEP,
    [cudaDevAttrMaxSurface1DLayeredWidth] = NARROW,
    [cudaDevAttrMaxSurface1DLayeredLayers] = LAYERS,
    [cudaDevAttrMaxSurface2DLayeredWidth] = NARROW,
    [cudaDevAttrMaxSurface2DLayeredHeight] = NARROW,
    [cudaDevAttrMaxSurface2DLayeredLayers] = LAYERS,
    [cudaDevAttrMaxSurfaceCubemapWidth] = NARROW,
    [cudaDevAttrMaxSurfaceCubemapLayeredWidth] = NARROW,
    [cudaDevAttrMaxSurfaceCubemapLayeredLayers] = CUBES,
    [cudaDevAttrStreamPrioritiesSupported] = 1,
    [cudaDevAttrGlobalL1CacheSupported] = 1,
    [cudaDevAttrLocalL1CacheSupported] = 1,
    [cudaDevAttrComputePreemptionSupported] = 1,
};

int common_limit(enum cudaDeviceAttr attribute) {
    return (unsigned)attribute < sizeof limits / sizeof *limits ? limits[attribute] : 0;
}

void common_limits_of(struct cudaDeviceProp *p) {
    p->totalConstMem = limits[cudaDevAttrTotalConstantMemory];
    p->memPitch = limits[cudaDevAttrMaxPitch];
    p->textureAlignment = limits[cudaDevAttrTextureAlignment];
    p->texturePitchAlignment = limits[cudaDevAttrTexturePitchAlignment];
    p->surfaceAlignment = limits[cudaDevAttrSurfaceAlignment];
    p->maxTexture1D = limits[cudaDevAttrMaxTexture1DWidth];
    p->maxTexture1DMipmap = limits[cudaDevAttrMaxTexture1DMipmappedWidth];
    p->maxTexture1DLayered[0] = limits[cudaDevAttrMaxTexture1DLayeredWidth];
    p->maxTexture1DLayered[1] = limits[cudaDevAttrMaxTexture1DLayeredLayers];
    p->maxTexture2D[0] = limits[cudaDevAttrMaxTexture2DWidth];
    p->maxTexture2D[1] = limits[cudaDevAttrMaxTexture2DHeight];
    p->maxTexture2DMipmap[0] = limits[cudaDevAttrMaxTexture2DMipmappedWidth];
    p->maxTexture2DMipmap[1] = limits[cudaDevAttrMaxTexture2DMipmappedHeight];
    p->maxTexture2DLinear[0] = limits[cudaDevAttrMaxTexture2DLinearWidth];
    p->maxTexture2DLinear[1] = limits[cudaDevAttrMaxTexture2DLinearHeight];
    p->maxTexture2DLinear[2] = limits[cudaDevAttrMaxTexture2DLinearPitch];
    p->maxTexture2DGather[0] = limits[cudaDevAttrMaxTexture2DGatherWidth];
    p->maxTexture2DGather[1] = limits[cudaDevAttrMaxTexture2DGatherHeight];
    p->maxTexture2DLayered[0] = limits[cudaDevAttrMaxTexture2DLayeredWidth];
    p->maxTexture2DLayered[1] = limits[cudaDevAttrMaxTexture2DLayeredHeight];
    p->maxTexture2DLayered[2] = limits[cudaDevAttrMaxTexture2DLayeredLayers];
    p->maxTexture3D[0] = limits[cudaDevAttrMaxTexture3DWidth];
    p->maxTexture3D[1] = limits[cudaDevAttrMaxTexture3DHeight];
    p->maxTexture3D[2] = limits[cudaDevAttrMaxTexture3DDepth];
    p->maxTexture3DAlt[0] = limits[cudaDevAttrMaxTexture3DWidthAlt];
    p->maxTexture3DAlt[1] = limits[cudaDevAttrMaxTexture3DHeightAlt];
    p->maxTexture3DAlt[2] = limits[cudaDevAttrMaxTexture3DDepthAlt];
    p->maxTextureCubemap = limits[cudaDevAttrMaxTextureCubemapWidth];
    p->maxTextureCubemapLayered[0] = limits[cudaDevAttrMaxTextureCubemapLayeredWidth];
    p->maxTextureCubemapLayered[1] = limits[cudaDevAttrMaxTextureCubemapLayeredLayers];
    p->maxSurface1D = limits[cudaDevAttrMaxSurface1DWidth];
    p->maxSurface2D[0] = limits[cudaDevAttrMaxSurface2DWidth];
    p->maxSurface2D[1] = limits[cudaDevAttrMaxSurface2DHeight];
    p->maxSurface3D[0] = limits[cudaDevAttrMaxSurface3DWidth];
    p->maxSurface3D[1] = limits[cudaDevAttrMaxSurface3DHeight];
    p->maxSurface3D[2] = limits[cudaDevAttrMaxSurface3DDepth];
    p->maxSurface1DLayered[0] = limits[cudaDevAttrMaxSurface1DLayeredWidth];
    p->maxSurface1DLayered[1] = limits[cudaDevAttrMaxSurface1DLayeredLayers];
    p->maxSurface2DLayered[0] = limits[cudaDevAttrMaxSurface2DLayeredWidth];
    p->maxSurface2DLayered[1] = limits[cudaDevAttrMaxSurface2DLayeredHeight];
    p->maxSurface2DLayered[2] = limits[cudaDevAttrMaxSurface2DLayeredLayers];
    p->maxSurfaceCubemap = limits[cudaDevAttrMaxSurfaceCubemapWidth];
    p->maxSurfaceCubemapLayered[0] = limits[cudaDevAttrMaxSurfaceCubemapLayeredWidth];
    p->maxSurfaceCubemapLayered[1] = limits[cudaDevAttrMaxSurfaceCubemapLayeredLayers];
    p->streamPrioritiesSupported = p->globalL1CacheSupported = p->localL1CacheSupported = 1;
    p->computePreemptionSupported = 1;
}
