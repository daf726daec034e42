/* SPDX-License-Identifier: MIT */
/*
 * The kernels of train_mlp. Every sum is taken in one fixed order, so the same inputs give the same
 * bits on the same device. `make ptx` turns this file into train_kernels.ptx.
 *
 * Matrices are row-major: x[row * columns + column].
 */

/* A dense kernel's block: 64 threads make a TILE x TILE piece of the result, each thread 4 x 4 of
 * it, from slabs of DEPTH along the summed dimension. */
#define TILE  32
#define DEPTH 16

enum { SIDE = 8, PIXELS = SIDE * SIDE, CLASSES = 10 };

static __device__ unsigned mix(unsigned x)
{
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	return x ^ x >> 16;
}

/* One in eight views is shifted by -1, one in eight by +1, the others stay. */
static __device__ int shift(unsigned three_bits)
{
	return three_bits == 0 ? -1 : three_bits == 1 ? 1 : 0;
}

/*
 * Writes `views` versions of each image, shifted by up to a pixel and with another brightness:
 * out[(view * images + image) * PIXELS + pixel]. One thread per row of eight pixels.
 */
extern "C" __global__ void expand_views(const unsigned char *pixels, float *out, unsigned images,
                                        unsigned views, unsigned seed)
{
	unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
	unsigned sample = thread / SIDE;
	if (sample >= images * views)
		return;
	unsigned image = sample % images;
	int y = (int)(thread % SIDE);

	unsigned random = mix(sample ^ mix(seed));
	int dx = shift(random & 7);
	int dy = shift(random >> 3 & 7);
	float gain = (0.85f + 0.3f * (float)(random >> 8) / 16777216.0f) / 16.0f;

	int from_y = y - dy;
	bool row_inside = from_y >= 0 && from_y < SIDE;
	const unsigned char *from = pixels + image * PIXELS + from_y * SIDE;
	for (int x = 0; x < SIDE; x++) {
		int from_x = x - dx;
		bool inside = row_inside && from_x >= 0 && from_x < SIDE;
		out[thread * SIDE + x] = inside ? gain * (float)from[from_x] : 0.0f;
	}
}

/* Batch row b becomes sample order[b] of the shard; a sample's label is its image's. One block per
 * row, one thread per pixel. */
extern "C" __global__ void gather_batch(const float *shard, const unsigned *order,
                                        const unsigned *labels, unsigned images, float *batch,
                                        unsigned *batch_labels)
{
	unsigned row = blockIdx.x;
	unsigned sample = order[row];
	batch[row * PIXELS + threadIdx.x] = shard[sample * PIXELS + threadIdx.x];
	if (threadIdx.x == 0)
		batch_labels[row] = labels[sample % images];
}

/*
 * acc[i][j] = sum over k of A[row0 + i][k] * B[k][column0 + j] for this thread's 4 x 4 piece.
 * TRANSPOSE_A: A is stored [depth][rows]; TRANSPOSE_B: B is stored [columns][depth].
 */
template <bool TRANSPOSE_A, bool TRANSPOSE_B>
static __device__ void multiply(const float *a, const float *b, unsigned rows, unsigned columns,
                                unsigned depth, float acc[4][4])
{
	__shared__ __align__(16) float a_slab[DEPTH][TILE];
	__shared__ __align__(16) float b_slab[DEPTH][TILE];
	unsigned thread = threadIdx.x;
	unsigned row0 = blockIdx.y * TILE, column0 = blockIdx.x * TILE;
	unsigned my_row = thread / 8 * 4, my_column = thread % 8 * 4;

	for (unsigned k0 = 0; k0 < depth; k0 += DEPTH) {
		for (unsigned i = thread; i < TILE * DEPTH; i += 64) {
			/* Walk along the stored rows, so that neighbours read neighbours. */
			unsigned ak = TRANSPOSE_A ? i / TILE : i % DEPTH;
			unsigned ar = TRANSPOSE_A ? i % TILE : i / DEPTH;
			unsigned bk = TRANSPOSE_B ? i % DEPTH : i / TILE;
			unsigned bc = TRANSPOSE_B ? i / DEPTH : i % TILE;
			unsigned row = row0 + ar, column = column0 + bc;

			bool a_inside = row < rows && k0 + ak < depth;
			bool b_inside = column < columns && k0 + bk < depth;
			unsigned a_at =
			    TRANSPOSE_A ? (k0 + ak) * rows + row : row * depth + k0 + ak;
			unsigned b_at =
			    TRANSPOSE_B ? column * depth + k0 + bk : (k0 + bk) * columns + column;
			a_slab[ak][ar] = a_inside ? a[a_at] : 0.0f;
			b_slab[bk][bc] = b_inside ? b[b_at] : 0.0f;
		}
		__syncthreads();
#pragma unroll 4
		for (int k = 0; k < DEPTH; k++) {
			float4 av = *(const float4 *)&a_slab[k][my_row];
			float4 bv = *(const float4 *)&b_slab[k][my_column];
			float ai[4] = {av.x, av.y, av.z, av.w};
			float bj[4] = {bv.x, bv.y, bv.z, bv.w};
			for (int i = 0; i < 4; i++)
				for (int j = 0; j < 4; j++)
					acc[i][j] += ai[i] * bj[j];
		}
		__syncthreads();
	}
}

/* Calls body(row, column, value) for each element of this thread's piece that exists. */
template <typename Body>
static __device__ void each_element(unsigned rows, unsigned columns, const float acc[4][4],
                                    Body body)
{
	unsigned row0 = blockIdx.y * TILE + threadIdx.x / 8 * 4;
	unsigned column0 = blockIdx.x * TILE + threadIdx.x % 8 * 4;
	for (unsigned i = 0; i < 4; i++)
		for (unsigned j = 0; j < 4; j++)
			if (row0 + i < rows && column0 + j < columns)
				body(row0 + i, column0 + j, acc[i][j]);
}

/* y[batch][out] = x[batch][in] w[in][out] + bias, through ReLU if asked. */
extern "C" __global__ void dense_forward(const float *x, const float *w, const float *bias,
                                         float *y, unsigned batch, unsigned in, unsigned out,
                                         unsigned relu)
{
	float acc[4][4] = {};
	multiply<false, false>(x, w, batch, out, in, acc);
	each_element(batch, out, acc, [=](unsigned row, unsigned column, float value) {
		value += bias[column];
		y[row * out + column] = relu ? fmaxf(value, 0.0f) : value;
	});
}

/* dx[batch][in] = dy[batch][out] w^T, nothing where the ReLU that made x was off. */
extern "C" __global__ void dense_backward_input(const float *dy, const float *w, const float *x,
                                                float *dx, unsigned batch, unsigned in,
                                                unsigned out)
{
	float acc[4][4] = {};
	multiply<false, true>(dy, w, batch, in, out, acc);
	each_element(batch, in, acc, [=](unsigned row, unsigned column, float value) {
		unsigned at = row * in + column;
		dx[at] = x[at] > 0.0f ? value : 0.0f;
	});
}

/* dw[in][out] = x^T dy. */
extern "C" __global__ void dense_backward_weights(const float *x, const float *dy, float *dw,
                                                  unsigned batch, unsigned in, unsigned out)
{
	float acc[4][4] = {};
	multiply<true, false>(x, dy, in, out, batch, acc);
	each_element(in, out, acc, [=](unsigned row, unsigned column, float value) {
		dw[row * out + column] = value;
	});
}

/* db[out] = column sums of dy. One thread per column. */
extern "C" __global__ void dense_backward_bias(const float *dy, float *db, unsigned batch,
                                               unsigned out)
{
	unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
	if (column >= out)
		return;
	float sum = 0.0f;
	for (unsigned row = 0; row < batch; row++)
		sum += dy[row * out + column];
	db[column] = sum;
}

/* Cross-entropy of each sample, and its gradient with respect to the logits, already divided by the
 * batch size. One thread per sample. */
extern "C" __global__ void softmax_loss(const float *logits, const unsigned *labels, float *loss,
                                        float *dlogits, unsigned batch)
{
	unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
	if (row >= batch)
		return;
	const float *z = logits + row * CLASSES;
	float top = z[0];
	for (int c = 1; c < CLASSES; c++)
		top = fmaxf(top, z[c]);
	float sum = 0.0f;
	for (int c = 0; c < CLASSES; c++)
		sum += expf(z[c] - top);
	loss[row] = logf(sum) - (z[labels[row]] - top);
	for (int c = 0; c < CLASSES; c++) {
		float target = c == (int)labels[row] ? 1.0f : 0.0f;
		dlogits[row * CLASSES + c] = (expf(z[c] - top) / sum - target) / (float)batch;
	}
}

/* One step of Adam; correction1 and correction2 are 1 - beta^step. */
extern "C" __global__ void adam(float *weights, const float *gradient, float *mean, float *variance,
                                unsigned count, float rate, float correction1, float correction2)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= count)
		return;
	float g = gradient[i];
	float m = mean[i] = 0.9f * mean[i] + 0.1f * g;
	float v = variance[i] = 0.999f * variance[i] + 0.001f * g * g;
	weights[i] -= rate * (m / correction1) / (sqrtf(v / correction2) + 1e-8f);
}

/* sum += factor * x: averages the snapshots. */
extern "C" __global__ void accumulate(float *sum, const float *x, float factor, unsigned count)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		sum[i] += factor * x[i];
}

/* Adds the number of samples whose largest logit is their label's. The sum is of integers, so that
 * its order does not matter. */
extern "C" __global__ void count_correct(const float *logits, const unsigned *labels,
                                         unsigned samples, unsigned *correct)
{
	unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
	if (row >= samples)
		return;
	const float *z = logits + row * CLASSES;
	unsigned best = 0;
	for (unsigned c = 1; c < CLASSES; c++)
		if (z[c] > z[best])
			best = c;
	if (best == labels[row])
		atomicAdd(correct, 1u);
}
