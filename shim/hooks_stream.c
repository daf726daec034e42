/*
 * What else is put into streams: waits for and writes of values, batches of them, semaphores of other APIs.
 * They pass the gate.
 */
#include "shim/shim.h"

GATED_2(cuSignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync_ptsz,
        (const CUexternalSemaphore *, extSemArray),
        (const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *, paramsArray), (unsigned int, numExtSems),
        (CUstream, stream))
GATED_2(cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz, (CUstream, stream), (unsigned int, count),
        (CUstreamBatchMemOpParams *, paramArray), (unsigned int, flags))
GATED_2(cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz, (CUstream, stream),
        (unsigned int, count), (CUstreamBatchMemOpParams *, paramArray), (unsigned int, flags))
GATED_2(cuStreamWaitValue32, cuStreamWaitValue32_ptsz, (CUstream, stream), (CUdeviceptr, addr),
        (cuuint32_t, value), (unsigned int, flags))
GATED_2(cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz, (CUstream, stream),
        (CUdeviceptr, addr), (cuuint32_t, value), (unsigned int, flags))
GATED_2(cuStreamWaitValue64, cuStreamWaitValue64_ptsz, (CUstream, stream), (CUdeviceptr, addr),
        (cuuint64_t, value), (unsigned int, flags))
GATED_2(cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz, (CUstream, stream),
        (CUdeviceptr, addr), (cuuint64_t, value), (unsigned int, flags))
GATED_2(cuStreamWriteValue32, cuStreamWriteValue32_ptsz, (CUstream, stream), (CUdeviceptr, addr),
        (cuuint32_t, value), (unsigned int, flags))
GATED_2(cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz, (CUstream, stream),
        (CUdeviceptr, addr), (cuuint32_t, value), (unsigned int, flags))
GATED_2(cuStreamWriteValue64, cuStreamWriteValue64_ptsz, (CUstream, stream), (CUdeviceptr, addr),
        (cuuint64_t, value), (unsigned int, flags))
GATED_2(cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz, (CUstream, stream),
        (CUdeviceptr, addr), (cuuint64_t, value), (unsigned int, flags))
GATED_2(cuWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync_ptsz,
        (const CUexternalSemaphore *, extSemArray),
        (const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *, paramsArray), (unsigned int, numExtSems),
        (CUstream, stream))
