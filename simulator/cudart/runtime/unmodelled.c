/* Functions of CUDA that the simulator does not model: textures of the driver's API, mipmaps,
 * other processes, mapped memory, graphics.  Each prints its name and returns "not supported", so that a
 * program that has them links, and runs as long as it calls none.  Hints about where memory should lie succeed
 * and do nothing.
 *
 * The names are those of CUDA 13's headers.  These are not included here, so that a function without parameters
 * can stand for every one of them. */

int runtime_unmodelled(const char *what); /* shim.h, errors.c */
int runtime_result(int error);

/* clang-format off */
#define RUNTIME_CALLS(X) \
    X(__cudaGetProcAddress) X(__cudaRegisterHostVar) X(__cudaRegisterUnifiedTable) \
    X(cudaArrayGetMemoryRequirements) X(cudaArrayGetPlane) X(cudaArrayGetSparseProperties) \
    X(cudaDestroyExternalMemory) \
    X(cudaDestroyExternalSemaphore) \
    X(cudaDeviceDisablePeerAccess) X(cudaDeviceFlushGPUDirectRDMAWrites) \
    X(cudaDeviceGetCacheConfig) X(cudaDeviceGetGraphMemAttribute) X(cudaDeviceGetHostAtomicCapabilities) \
    X(cudaDeviceGetNvSciSyncAttributes) X(cudaDeviceGetP2PAtomicCapabilities) X(cudaDeviceGetP2PAttribute) \
    X(cudaDeviceGetSharedMemConfig) X(cudaDeviceGetTexture1DLinearMaxWidth) \
    X(cudaDeviceGraphMemTrim) X(cudaDeviceRegisterAsyncNotification) X(cudaDeviceSetGraphMemAttribute) \
    X(cudaDeviceUnregisterAsyncNotification) \
    X(cudaEGLStreamConsumerAcquireFrame) X(cudaEGLStreamConsumerConnect) \
    X(cudaEGLStreamConsumerConnectWithFlags) X(cudaEGLStreamConsumerDisconnect) \
    X(cudaEGLStreamConsumerReleaseFrame) X(cudaEGLStreamProducerConnect) \
    X(cudaEGLStreamProducerDisconnect) X(cudaEGLStreamProducerPresentFrame) \
    X(cudaEGLStreamProducerReturnFrame) X(cudaEventCreateFromEGLSync) X(cudaExternalMemoryGetMappedBuffer) \
    X(cudaExternalMemoryGetMappedMipmappedArray) X(cudaFreeMipmappedArray) \
    X(cudaFuncGetParamInfo) X(cudaGLGetDevices) \
    X(cudaGLMapBufferObject) X(cudaGLMapBufferObjectAsync) X(cudaGLRegisterBufferObject) \
    X(cudaGLSetBufferObjectMapFlags) X(cudaGLSetGLDevice) X(cudaGLUnmapBufferObject) \
    X(cudaGLUnmapBufferObjectAsync) X(cudaGLUnregisterBufferObject) \
    X(cudaGetExportTable) X(cudaGetMipmappedArrayLevel) X(cudaGetSurfaceObjectResourceDesc) \
    X(cudaGetTextureObjectResourceDesc) X(cudaGetTextureObjectResourceViewDesc) \
    X(cudaGetTextureObjectTextureDesc) \
    X(cudaGraphAddExternalSemaphoresSignalNode) X(cudaGraphAddExternalSemaphoresWaitNode) \
    X(cudaGraphAddMemAllocNode) \
    X(cudaGraphAddMemFreeNode) \
    X(cudaGraphAddMemcpyNodeFromSymbol) X(cudaGraphAddMemcpyNodeToSymbol) \
    X(cudaGraphAddNode) X(cudaGraphChildGraphNodeGetGraph) \
    X(cudaGraphConditionalHandleCreate) X(cudaGraphDebugDotPrint) \
    X(cudaGraphDestroyNode) X(cudaGraphEventRecordNodeGetEvent) X(cudaGraphEventRecordNodeSetEvent) \
    X(cudaGraphEventWaitNodeGetEvent) X(cudaGraphEventWaitNodeSetEvent) \
    X(cudaGraphExecChildGraphNodeSetParams) \
    X(cudaGraphExecEventRecordNodeSetEvent) X(cudaGraphExecEventWaitNodeSetEvent) \
    X(cudaGraphExecExternalSemaphoresSignalNodeSetParams) \
    X(cudaGraphExecExternalSemaphoresWaitNodeSetParams) X(cudaGraphExecGetFlags) \
    X(cudaGraphExecMemcpyNodeSetParamsFromSymbol) X(cudaGraphExecMemcpyNodeSetParamsToSymbol) \
    X(cudaGraphExecNodeSetParams) \
    X(cudaGraphExternalSemaphoresSignalNodeGetParams) X(cudaGraphExternalSemaphoresSignalNodeSetParams) \
    X(cudaGraphExternalSemaphoresWaitNodeGetParams) X(cudaGraphExternalSemaphoresWaitNodeSetParams) \
    X(cudaGraphGetEdges) X(cudaGraphHostNodeGetParams) \
    X(cudaGraphInstantiateWithParams) X(cudaGraphKernelNodeCopyAttributes) \
    X(cudaGraphKernelNodeGetAttribute) X(cudaGraphKernelNodeSetAttribute) \
    X(cudaGraphKernelNodeSetParam) X(cudaGraphKernelNodeUpdatesApply) \
    X(cudaGraphMemAllocNodeGetParams) X(cudaGraphMemFreeNodeGetParams) \
    X(cudaGraphMemcpyNodeGetParams) \
    X(cudaGraphMemcpyNodeSetParamsFromSymbol) X(cudaGraphMemcpyNodeSetParamsToSymbol) \
    X(cudaGraphMemsetNodeGetParams) \
    X(cudaGraphNodeGetDependencies) X(cudaGraphNodeGetDependentNodes) \
    X(cudaGraphNodeSetParams) \
    X(cudaGraphReleaseUserObject) X(cudaGraphRemoveDependencies) X(cudaGraphRetainUserObject) \
    X(cudaGraphicsEGLRegisterImage) X(cudaGraphicsGLRegisterBuffer) \
    X(cudaGraphicsGLRegisterImage) X(cudaGraphicsMapResources) X(cudaGraphicsResourceGetMappedEglFrame) \
    X(cudaGraphicsResourceGetMappedMipmappedArray) X(cudaGraphicsResourceGetMappedPointer) \
    X(cudaGraphicsResourceSetMapFlags) X(cudaGraphicsSubResourceGetMappedArray) \
    X(cudaGraphicsUnmapResources) X(cudaGraphicsUnregisterResource) \
    X(cudaGraphicsVDPAURegisterOutputSurface) X(cudaGraphicsVDPAURegisterVideoSurface) X(cudaHostGetFlags) \
    X(cudaImportExternalMemory) X(cudaImportExternalSemaphore) X(cudaIpcCloseMemHandle) \
    X(cudaIpcGetEventHandle) X(cudaIpcGetMemHandle) X(cudaIpcOpenEventHandle) X(cudaIpcOpenMemHandle) \
    X(cudaLibraryGetManaged) X(cudaLibraryGetUnifiedFunction) X(cudaLogsCurrent) X(cudaLogsDumpToFile) \
    X(cudaLogsDumpToMemory) X(cudaLogsRegisterCallback) X(cudaLogsUnregisterCallback) \
    X(cudaMallocMipmappedArray) \
    X(cudaMemDiscardAndPrefetchBatchAsync) X(cudaMemDiscardBatchAsync) X(cudaMemGetDefaultMemPool) \
    X(cudaMemGetMemPool) X(cudaMemPoolExportPointer) X(cudaMemPoolExportToShareableHandle) \
    X(cudaMemPoolGetAccess) X(cudaMemPoolImportFromShareableHandle) X(cudaMemPoolImportPointer) \
    X(cudaMemPrefetchBatchAsync) X(cudaMemRangeGetAttribute) \
    X(cudaMemRangeGetAttributes) X(cudaMemSetMemPool) \
    X(cudaMemcpy3DBatchAsync) X(cudaMemcpy3DPeer) X(cudaMemcpy3DPeerAsync) \
    X(cudaMemcpyArrayToArray) X(cudaMemcpyBatchAsync) X(cudaMemcpyFromArrayAsync) \
    X(cudaMemcpyToArrayAsync) \
    X(cudaMipmappedArrayGetMemoryRequirements) X(cudaMipmappedArrayGetSparseProperties) \
    X(cudaSetValidDevices) X(cudaSignalExternalSemaphoresAsync) \
    X(cudaStreamBeginCaptureToGraph) X(cudaStreamCopyAttributes) \
    X(cudaStreamGetAttribute) X(cudaStreamGetCaptureInfo) X(cudaStreamGetDevice) \
    X(cudaStreamUpdateCaptureDependencies) X(cudaUserObjectCreate) \
    X(cudaUserObjectRelease) X(cudaUserObjectRetain) X(cudaVDPAUGetDevice) X(cudaVDPAUSetVDPAUDevice) \
    X(cudaWaitExternalSemaphoresAsync)

#define UNMODELLED_DRIVER_CALLS(X) \
    X(cuArray3DCreate_v2) X(cuArray3DGetDescriptor_v2) X(cuArrayCreate_v2) X(cuArrayDestroy) \
    X(cuArrayGetDescriptor_v2) X(cuArrayGetMemoryRequirements) X(cuArrayGetPlane) \
    X(cuArrayGetSparseProperties) X(cuCheckpointProcessCheckpoint) \
    X(cuCheckpointProcessGetRestoreThreadId) X(cuCheckpointProcessGetState) X(cuCheckpointProcessLock) \
    X(cuCheckpointProcessRestore) X(cuCheckpointProcessUnlock) X(cuCoredumpGetAttribute) \
    X(cuCoredumpGetAttributeGlobal) X(cuCoredumpSetAttribute) X(cuCoredumpSetAttributeGlobal) \
    X(cuCtxCreate_v2) X(cuCtxCreate_v3) X(cuCtxDisablePeerAccess) X(cuCtxEnablePeerAccess) \
    X(cuCtxFromGreenCtx) X(cuCtxGetApiVersion) X(cuCtxGetCacheConfig) X(cuCtxGetDevResource) \
    X(cuCtxGetDevice_v2) X(cuCtxGetExecAffinity) X(cuCtxGetFlags) X(cuCtxGetId) X(cuCtxGetLimit) \
    X(cuCtxGetSharedMemConfig) X(cuCtxGetStreamPriorityRange) X(cuCtxRecordEvent) \
    X(cuCtxResetPersistingL2Cache) X(cuCtxSetFlags) X(cuCtxSetLimit) \
    X(cuCtxSynchronize_v2) X(cuCtxWaitEvent) X(cuDestroyExternalMemory) \
    X(cuDestroyExternalSemaphore) X(cuDevResourceGenerateDesc) X(cuDevSmResourceSplitByCount) \
    X(cuDeviceCanAccessPeer) X(cuDeviceComputeCapability) X(cuDeviceGetByPCIBusId) \
    X(cuDeviceGetDefaultMemPool) X(cuDeviceGetDevResource) X(cuDeviceGetExecAffinitySupport) \
    X(cuDeviceGetGraphMemAttribute) X(cuDeviceGetHostAtomicCapabilities) X(cuDeviceGetLuid) \
    X(cuDeviceGetMemPool) X(cuDeviceGetP2PAtomicCapabilities) X(cuDeviceGetP2PAttribute) \
    X(cuDeviceGetPCIBusId) X(cuDeviceGetProperties) X(cuDeviceGetTexture1DLinearMaxWidth) \
    X(cuDeviceGetUuid_v2) X(cuDeviceGraphMemTrim) X(cuDevicePrimaryCtxReset_v2) \
    X(cuDevicePrimaryCtxSetFlags_v2) X(cuDeviceRegisterAsyncNotification) X(cuDeviceSetGraphMemAttribute) \
    X(cuDeviceSetMemPool) X(cuDeviceUnregisterAsyncNotification) X(cuEventRecordWithFlags) \
    X(cuExternalMemoryGetMappedBuffer) X(cuExternalMemoryGetMappedMipmappedArray) \
    X(cuFlushGPUDirectRDMAWrites) X(cuFuncGetModule) X(cuFuncGetParamInfo) X(cuFuncIsLoaded) \
    X(cuGetExportTable) X(cuGraphAddBatchMemOpNode) \
    X(cuGraphAddChildGraphNode) X(cuGraphAddDependencies_v2) X(cuGraphAddEmptyNode) \
    X(cuGraphAddEventRecordNode) X(cuGraphAddEventWaitNode) X(cuGraphAddExternalSemaphoresSignalNode) \
    X(cuGraphAddExternalSemaphoresWaitNode) X(cuGraphAddHostNode) X(cuGraphAddKernelNode_v2) \
    X(cuGraphAddMemAllocNode) X(cuGraphAddMemFreeNode) X(cuGraphAddMemcpyNode) X(cuGraphAddMemsetNode) \
    X(cuGraphAddNode_v2) X(cuGraphBatchMemOpNodeGetParams) X(cuGraphBatchMemOpNodeSetParams) \
    X(cuGraphChildGraphNodeGetGraph) X(cuGraphClone) X(cuGraphConditionalHandleCreate) X(cuGraphCreate) \
    X(cuGraphDebugDotPrint) X(cuGraphDestroy) X(cuGraphDestroyNode) X(cuGraphEventRecordNodeGetEvent) \
    X(cuGraphEventRecordNodeSetEvent) X(cuGraphEventWaitNodeGetEvent) X(cuGraphEventWaitNodeSetEvent) \
    X(cuGraphExecBatchMemOpNodeSetParams) X(cuGraphExecChildGraphNodeSetParams) X(cuGraphExecDestroy) \
    X(cuGraphExecEventRecordNodeSetEvent) X(cuGraphExecEventWaitNodeSetEvent) \
    X(cuGraphExecExternalSemaphoresSignalNodeSetParams) X(cuGraphExecExternalSemaphoresWaitNodeSetParams) \
    X(cuGraphExecGetFlags) X(cuGraphExecHostNodeSetParams) X(cuGraphExecKernelNodeSetParams_v2) \
    X(cuGraphExecMemcpyNodeSetParams) X(cuGraphExecMemsetNodeSetParams) X(cuGraphExecNodeSetParams) \
    X(cuGraphExecUpdate_v2) X(cuGraphExternalSemaphoresSignalNodeGetParams) \
    X(cuGraphExternalSemaphoresSignalNodeSetParams) X(cuGraphExternalSemaphoresWaitNodeGetParams) \
    X(cuGraphExternalSemaphoresWaitNodeSetParams) X(cuGraphGetEdges_v2) X(cuGraphGetNodes) \
    X(cuGraphGetRootNodes) X(cuGraphHostNodeGetParams) X(cuGraphHostNodeSetParams) \
    X(cuGraphInstantiateWithFlags) X(cuGraphInstantiateWithParams) X(cuGraphInstantiate_v2) \
    X(cuGraphKernelNodeCopyAttributes) X(cuGraphKernelNodeGetAttribute) X(cuGraphKernelNodeGetParams_v2) \
    X(cuGraphKernelNodeSetAttribute) X(cuGraphKernelNodeSetParams_v2) X(cuGraphLaunch) \
    X(cuGraphMemAllocNodeGetParams) X(cuGraphMemFreeNodeGetParams) X(cuGraphMemcpyNodeGetParams) \
    X(cuGraphMemcpyNodeSetParams) X(cuGraphMemsetNodeGetParams) X(cuGraphMemsetNodeSetParams) \
    X(cuGraphNodeFindInClone) X(cuGraphNodeGetDependencies_v2) X(cuGraphNodeGetDependentNodes_v2) \
    X(cuGraphNodeGetEnabled) X(cuGraphNodeGetType) X(cuGraphNodeSetEnabled) X(cuGraphNodeSetParams) \
    X(cuGraphReleaseUserObject) X(cuGraphRemoveDependencies_v2) X(cuGraphRetainUserObject) \
    X(cuGraphUpload) X(cuGraphicsMapResources) X(cuGraphicsResourceGetMappedMipmappedArray) \
    X(cuGraphicsResourceGetMappedPointer_v2) X(cuGraphicsResourceSetMapFlags_v2) \
    X(cuGraphicsSubResourceGetMappedArray) X(cuGraphicsUnmapResources) X(cuGraphicsUnregisterResource) \
    X(cuGreenCtxCreate) X(cuGreenCtxDestroy) X(cuGreenCtxGetDevResource) X(cuGreenCtxGetId) \
    X(cuGreenCtxRecordEvent) X(cuGreenCtxStreamCreate) X(cuGreenCtxWaitEvent) X(cuImportExternalMemory) \
    X(cuImportExternalSemaphore) X(cuIpcCloseMemHandle) X(cuIpcGetEventHandle) X(cuIpcGetMemHandle) \
    X(cuIpcOpenEventHandle) X(cuIpcOpenMemHandle_v2) X(cuKernelGetLibrary) X(cuKernelGetParamInfo) \
    X(cuKernelSetCacheConfig) X(cuLaunchCooperativeKernelMultiDevice) X(cuLibraryGetManaged) \
    X(cuLibraryGetUnifiedFunction) X(cuLinkAddData_v2) X(cuLinkAddFile_v2) X(cuLinkCreate_v2) \
    X(cuLogsCurrent) X(cuLogsDumpToFile) X(cuLogsDumpToMemory) X(cuLogsRegisterCallback) \
    X(cuLogsUnregisterCallback) X(cuMemAddressFree) X(cuMemAddressReserve) X(cuMemAllocFromPoolAsync) \
    X(cuMemAllocPitch_v2) X(cuMemBatchDecompressAsync) X(cuMemCreate) X(cuMemDiscardAndPrefetchBatchAsync) \
    X(cuMemDiscardBatchAsync) X(cuMemExportToShareableHandle) X(cuMemGetAccess) X(cuMemGetAddressRange_v2) \
    X(cuMemGetAllocationGranularity) X(cuMemGetAllocationPropertiesFromHandle) X(cuMemGetDefaultMemPool) \
    X(cuMemGetHandleForAddressRange) X(cuMemGetMemPool) X(cuMemHostGetDevicePointer_v2) \
    X(cuMemHostGetFlags) X(cuMemHostRegister_v2) X(cuMemHostUnregister) X(cuMemImportFromShareableHandle) \
    X(cuMemMap) X(cuMemMapArrayAsync) X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemPoolExportPointer) \
    X(cuMemPoolExportToShareableHandle) X(cuMemPoolGetAccess) X(cuMemPoolGetAttribute) \
    X(cuMemPoolImportFromShareableHandle) X(cuMemPoolImportPointer) \
    X(cuMemPoolSetAttribute) X(cuMemPoolTrimTo) X(cuMemPrefetchBatchAsync) X(cuMemRangeGetAttribute) \
    X(cuMemRangeGetAttributes) X(cuMemRelease) X(cuMemRetainAllocationHandle) X(cuMemSetAccess) \
    X(cuMemSetMemPool) X(cuMemUnmap) X(cuMemcpy2D) X(cuMemcpy2DAsync) \
    X(cuMemcpy2DUnaligned) X(cuMemcpy3D) X(cuMemcpy3DAsync) \
    X(cuMemcpy3DBatchAsync) X(cuMemcpy3DBatchAsync_v2) X(cuMemcpy3DPeer) \
    X(cuMemcpy3DPeerAsync) X(cuMemcpyAtoA) X(cuMemcpyAtoA_v2) X(cuMemcpyAtoD) \
    X(cuMemcpyAtoD_v2) X(cuMemcpyAtoH) X(cuMemcpyAtoHAsync) X(cuMemcpyAtoHAsync_v2) X(cuMemcpyAtoH_v2) \
    X(cuMemcpyBatchAsync) X(cuMemcpyBatchAsync_v2) X(cuMemcpyDtoA) X(cuMemcpyDtoA_v2) X(cuMemcpyDtoD) \
    X(cuMemcpyDtoDAsync) X(cuMemcpyDtoH) X(cuMemcpyDtoHAsync) X(cuMemcpyHtoA) X(cuMemcpyHtoAAsync) \
    X(cuMemcpyHtoAAsync_v2) X(cuMemcpyHtoA_v2) X(cuMemcpyHtoD) X(cuMemcpyHtoDAsync) X(cuMemcpyPeer) \
    X(cuMemcpyPeerAsync) X(cuMemsetD16) X(cuMemsetD2D16) X(cuMemsetD2D16Async) X(cuMemsetD2D16_v2) \
    X(cuMemsetD2D32) X(cuMemsetD2D32Async) X(cuMemsetD2D32_v2) X(cuMemsetD2D8) X(cuMemsetD2D8Async) \
    X(cuMemsetD2D8_v2) X(cuMemsetD32) X(cuMemsetD8) X(cuMipmappedArrayCreate) X(cuMipmappedArrayDestroy) \
    X(cuMipmappedArrayGetLevel) X(cuMipmappedArrayGetMemoryRequirements) \
    X(cuMipmappedArrayGetSparseProperties) X(cuModuleEnumerateFunctions) X(cuModuleGetFunctionCount) \
    X(cuModuleGetLoadingMode) X(cuMulticastAddDevice) X(cuMulticastBindAddr) X(cuMulticastBindMem) \
    X(cuMulticastCreate) X(cuMulticastGetGranularity) X(cuMulticastUnbind) \
    X(cuOccupancyAvailableDynamicSMemPerBlock) X(cuOccupancyMaxPotentialClusterSize) \
    X(cuPointerGetAttributes) X(cuPointerSetAttribute) X(cuSignalExternalSemaphoresAsync) \
    X(cuStreamAddCallback) X(cuStreamBatchMemOp) X(cuStreamBatchMemOp_v2) \
    X(cuStreamBeginCapture) X(cuStreamBeginCaptureToGraph) X(cuStreamBeginCapture_v2) \
    X(cuStreamCopyAttributes) X(cuStreamEndCapture) X(cuStreamGetAttribute) X(cuStreamGetCaptureInfo) \
    X(cuStreamGetCaptureInfo_v2) X(cuStreamGetCaptureInfo_v3) X(cuStreamGetCtx) X(cuStreamGetCtx_v2) \
    X(cuStreamGetDevice) X(cuStreamGetFlags) X(cuStreamGetGreenCtx) \
    X(cuStreamGetPriority) X(cuStreamSetAttribute) X(cuStreamUpdateCaptureDependencies) \
    X(cuStreamUpdateCaptureDependencies_v2) X(cuStreamWaitValue32) X(cuStreamWaitValue32_v2) \
    X(cuStreamWaitValue64) X(cuStreamWaitValue64_v2) X(cuStreamWriteValue32) X(cuStreamWriteValue32_v2) \
    X(cuStreamWriteValue64) X(cuStreamWriteValue64_v2) X(cuSurfObjectCreate) X(cuSurfObjectDestroy) \
    X(cuSurfObjectGetResourceDesc) X(cuTexObjectCreate) X(cuTexObjectDestroy) \
    X(cuTexObjectGetResourceDesc) X(cuTexObjectGetResourceViewDesc) X(cuTexObjectGetTextureDesc) \
    X(cuThreadExchangeStreamCaptureMode) X(cuUserObjectCreate) X(cuUserObjectRelease) \
    X(cuUserObjectRetain) X(cuWaitExternalSemaphoresAsync) \
    X(cuCtxAttach) X(cuCtxDetach) X(cuDeviceGetNvSciSyncAttributes) X(cuFuncSetBlockShape) \
    X(cuFuncSetSharedSize) X(cuLaunch) X(cuLaunchGrid) X(cuLaunchGridAsync) X(cuLinkComplete) \
    X(cuLinkDestroy) X(cuModuleGetSurfRef) X(cuModuleGetTexRef) X(cuOccupancyMaxPotentialBlockSize) \
    X(cuOccupancyMaxPotentialBlockSizeWithFlags) X(cuParamSetSize) X(cuParamSetTexRef) X(cuParamSetf) \
    X(cuParamSeti) X(cuParamSetv) X(cuSurfRefGetArray) X(cuSurfRefSetArray) X(cuTexRefCreate) \
    X(cuTexRefDestroy) X(cuTexRefGetAddressMode) X(cuTexRefGetAddress_v2) X(cuTexRefGetArray) \
    X(cuTexRefGetBorderColor) X(cuTexRefGetFilterMode) X(cuTexRefGetFlags) X(cuTexRefGetFormat) \
    X(cuTexRefGetMaxAnisotropy) X(cuTexRefGetMipmapFilterMode) X(cuTexRefGetMipmapLevelBias) \
    X(cuTexRefGetMipmapLevelClamp) X(cuTexRefGetMipmappedArray) X(cuTexRefSetAddress2D_v3) \
    X(cuTexRefSetAddressMode) X(cuTexRefSetAddress_v2) X(cuTexRefSetArray) X(cuTexRefSetBorderColor) \
    X(cuTexRefSetFilterMode) X(cuTexRefSetFlags) X(cuTexRefSetFormat) X(cuTexRefSetMaxAnisotropy) \
    X(cuTexRefSetMipmapFilterMode) X(cuTexRefSetMipmapLevelBias) X(cuTexRefSetMipmapLevelClamp) \
    X(cuTexRefSetMipmappedArray)

/* As compiled with --default-stream per-thread. */
#define PER_THREAD_CALLS(X) \
    X(__cudaLaunchKernel_ptsz) X(cudaEventRecordWithFlags_ptsz) X(cudaEventRecord_ptsz) \
    X(cudaFreeAsync_ptsz) X(cudaGetDriverEntryPointByVersion_ptsz) X(cudaGetDriverEntryPoint_ptsz) \
    X(cudaGraphInstantiateWithParams_ptsz) X(cudaGraphLaunch_ptsz) X(cudaGraphUpload_ptsz) \
    X(cudaLaunchCooperativeKernel_ptsz) X(cudaLaunchHostFunc_ptsz) X(cudaLaunchKernelExC_ptsz) \
    X(cudaLaunchKernel_ptsz) X(cudaMallocAsync_ptsz) X(cudaMallocFromPoolAsync_ptsz) \
    X(cudaMemDiscardAndPrefetchBatchAsync_ptsz) X(cudaMemDiscardBatchAsync_ptsz) \
    X(cudaMemPrefetchAsync_ptsz) X(cudaMemPrefetchBatchAsync_ptsz) X(cudaMemcpy2DArrayToArray_ptds) \
    X(cudaMemcpy2DAsync_ptsz) X(cudaMemcpy2DFromArrayAsync_ptsz) X(cudaMemcpy2DFromArray_ptds) \
    X(cudaMemcpy2DToArrayAsync_ptsz) X(cudaMemcpy2DToArray_ptds) X(cudaMemcpy2D_ptds) \
    X(cudaMemcpy3DAsync_ptsz) X(cudaMemcpy3DBatchAsync_ptsz) X(cudaMemcpy3DPeerAsync_ptsz) \
    X(cudaMemcpy3DPeer_ptds) X(cudaMemcpy3D_ptds) X(cudaMemcpyArrayToArray_ptds) X(cudaMemcpyAsync_ptsz) \
    X(cudaMemcpyBatchAsync_ptsz) X(cudaMemcpyFromArrayAsync_ptsz) X(cudaMemcpyFromArray_ptds) \
    X(cudaMemcpyFromSymbolAsync_ptsz) X(cudaMemcpyFromSymbol_ptds) X(cudaMemcpyToArrayAsync_ptsz) \
    X(cudaMemcpyToArray_ptds) X(cudaMemcpyToSymbolAsync_ptsz) X(cudaMemcpyToSymbol_ptds) \
    X(cudaMemcpy_ptds) X(cudaMemset2DAsync_ptsz) X(cudaMemset2D_ptds) X(cudaMemset3DAsync_ptsz) \
    X(cudaMemset3D_ptds) X(cudaMemsetAsync_ptsz) X(cudaMemset_ptds) \
    X(cudaSignalExternalSemaphoresAsync_ptsz) X(cudaStreamAddCallback_ptsz) \
    X(cudaStreamAttachMemAsync_ptsz) X(cudaStreamBeginCaptureToGraph_ptsz) X(cudaStreamBeginCapture_ptsz) \
    X(cudaStreamCopyAttributes_ptsz) X(cudaStreamEndCapture_ptsz) X(cudaStreamGetAttribute_ptsz) \
    X(cudaStreamGetCaptureInfo_ptsz) X(cudaStreamGetDevice_ptsz) X(cudaStreamGetFlags_ptsz) \
    X(cudaStreamGetId_ptsz) X(cudaStreamGetPriority_ptsz) X(cudaStreamIsCapturing_ptsz) \
    X(cudaStreamQuery_ptsz) X(cudaStreamSetAttribute_ptsz) X(cudaStreamSynchronize_ptsz) \
    X(cudaStreamUpdateCaptureDependencies_ptsz) X(cudaStreamWaitEvent_ptsz) \
    X(cudaWaitExternalSemaphoresAsync_ptsz)

#define HINTS(X) \
    X(cudaMemPrefetchAsync) X(cudaMemAdvise) X(cuMemPrefetchAsync) X(cuMemPrefetchAsync_v2) X(cuMemAdvise) \
    X(cuMemAdvise_v2) X(cudaStreamAttachMemAsync) X(cuStreamAttachMemAsync) X(cudaMemPoolSetAccess) \
    X(cuMemPoolSetAccess) X(cudaDeviceSetSharedMemConfig) X(cudaFuncSetSharedMemConfig) X(cuCtxSetCacheConfig) \
    X(cuCtxSetSharedMemConfig) X(cuFuncSetSharedMemConfig)
/* clang-format on */

#define STUB(name)                                                                                             \
    int name(void);                                                                                            \
    int name(void) {                                                                                           \
        return runtime_unmodelled(#name);                                                                      \
    }
/* cudaErrorNotSupported and CUDA_ERROR_NOT_SUPPORTED are the same number. */
RUNTIME_CALLS(STUB)
UNMODELLED_DRIVER_CALLS(STUB)
PER_THREAD_CALLS(STUB)

#define HINT(name)                                                                                             \
    int name(void);                                                                                            \
    int name(void) {                                                                                           \
        return runtime_result(0);                                                                              \
    }
HINTS(HINT)
