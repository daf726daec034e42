/* SPDX-License-Identifier: MIT */
/* The kernels of an ordinary small training: what real programs ask of the executor. */

extern "C" __global__ void vector_add(const float *a, const float *b, float *c, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		c[i] = a[i] + b[i];
}

extern "C" __global__ void matmul(const float *a, const float *b, float *c, int m, int n, int k)
{
	int row = blockIdx.y * blockDim.y + threadIdx.y;
	int column = blockIdx.x * blockDim.x + threadIdx.x;
	if (row >= m || column >= n)
		return;
	float sum = 0;
	for (int i = 0; i < k; i++)
		sum += a[row * k + i] * b[i * n + column];
	c[row * n + column] = sum;
}

#define TILE 16

extern "C" __global__ void matmul_tiled(const float *a, const float *b, float *c, int m, int n,
					int k)
{
	__shared__ float left[TILE][TILE], right[TILE][TILE];
	int row = blockIdx.y * TILE + threadIdx.y;
	int column = blockIdx.x * TILE + threadIdx.x;
	float sum = 0;
	for (int t = 0; t < k; t += TILE) {
		int x = t + threadIdx.x, y = t + threadIdx.y;
		left[threadIdx.y][threadIdx.x] = row < m && x < k ? a[row * k + x] : 0;
		right[threadIdx.y][threadIdx.x] = y < k && column < n ? b[y * n + column] : 0;
		__syncthreads();
		for (int i = 0; i < TILE; i++)
			sum += left[threadIdx.y][i] * right[i][threadIdx.x];
		__syncthreads();
	}
	if (row < m && column < n)
		c[row * n + column] = sum;
}

extern "C" __global__ void bias_relu(float *x, const float *bias, int rows, int columns)
{
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * columns;
	     i += gridDim.x * blockDim.x)
		x[i] = fmaxf(x[i] + bias[i % columns], 0.0f);
}

/* One block per row. */
extern "C" __global__ void softmax_cross_entropy(const float *logits, const int *labels,
						 float *gradient, float *loss, int columns)
{
	extern __shared__ float scratch[];
	const float *row = logits + (size_t)blockIdx.x * columns;
	float largest = -INFINITY;
	for (int i = threadIdx.x; i < columns; i += blockDim.x)
		largest = fmaxf(largest, row[i]);
	scratch[threadIdx.x] = largest;
	__syncthreads();
	for (int s = blockDim.x / 2; s > 0; s >>= 1) {
		if (threadIdx.x < s)
			scratch[threadIdx.x] = fmaxf(scratch[threadIdx.x], scratch[threadIdx.x + s]);
		__syncthreads();
	}
	largest = scratch[0];
	__syncthreads();
	float sum = 0;
	for (int i = threadIdx.x; i < columns; i += blockDim.x)
		sum += expf(row[i] - largest);
	scratch[threadIdx.x] = sum;
	__syncthreads();
	for (int s = blockDim.x / 2; s > 0; s >>= 1) {
		if (threadIdx.x < s)
			scratch[threadIdx.x] += scratch[threadIdx.x + s];
		__syncthreads();
	}
	sum = scratch[0];
	int label = labels[blockIdx.x];
	for (int i = threadIdx.x; i < columns; i += blockDim.x)
		gradient[(size_t)blockIdx.x * columns + i] =
			expf(row[i] - largest) / sum - (i == label ? 1.0f : 0.0f);
	if (threadIdx.x == 0)
		atomicAdd(loss, logf(sum) + largest - row[label]);
}

extern "C" __global__ void sgd(float *weights, const float *gradient, float rate, float decay, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		weights[i] -= rate * (gradient[i] + decay * weights[i]);
}

extern "C" __global__ void adam(float *w, float *m, float *v, const float *g, float rate, float b1,
				float b2, float epsilon, float correction1, float correction2, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	m[i] = b1 * m[i] + (1 - b1) * g[i];
	v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
	w[i] -= rate * (m[i] / correction1) / (sqrtf(v[i] / correction2) + epsilon);
}

extern "C" __global__ void embedding(const float4 *table, const int *index, float4 *out, int width)
{
	for (int i = threadIdx.x; i < width; i += blockDim.x)
		out[(size_t)blockIdx.x * width + i] = table[(size_t)index[blockIdx.x] * width + i];
}

extern "C" __global__ void reduce_sum(const float *x, float *out, int n)
{
	__shared__ float partial[32];
	float sum = 0;
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		sum += x[i];
	for (int s = 16; s > 0; s >>= 1)
		sum += __shfl_xor_sync(0xffffffffu, sum, s);
	if (threadIdx.x % 32 == 0)
		partial[threadIdx.x / 32] = sum;
	__syncthreads();
	if (threadIdx.x < 32) {
		sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
		for (int s = 16; s > 0; s >>= 1)
			sum += __shfl_down_sync(0xffffffffu, sum, s);
		if (threadIdx.x == 0)
			atomicAdd(out, sum);
	}
}

extern "C" __global__ void layer_norm(const float *x, float *y, int columns)
{
	__shared__ float mean, inverse;
	const float *row = x + (size_t)blockIdx.x * columns;
	if (threadIdx.x == 0) {
		float sum = 0, square = 0;
		for (int i = 0; i < columns; i++)
			sum += row[i];
		sum /= columns;
		for (int i = 0; i < columns; i++)
			square += (row[i] - sum) * (row[i] - sum);
		mean = sum;
		inverse = rsqrtf(square / columns + 1e-5f);
	}
	__syncthreads();
	for (int i = threadIdx.x; i < columns; i += blockDim.x)
		y[(size_t)blockIdx.x * columns + i] = (row[i] - mean) * inverse;
}

extern "C" __global__ void gelu_tanh(const float *x, float *y, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		y[i] = 0.5f * x[i] *
		       (1 + tanhf(0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}

extern "C" __global__ void math(const float *x, float *y, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	float v = x[i];
	float *out = y + (size_t)i * 12;
	out[0] = expf(v);
	out[1] = logf(v);
	out[2] = sqrtf(v);
	out[3] = rsqrtf(v);
	out[4] = 1 / v;
	out[5] = sinf(v);
	out[6] = cosf(v);
	out[7] = tanhf(v);
	out[8] = powf(v, 1.7f);
	out[9] = erff(v);
	out[10] = __expf(v) + __logf(v) + __sinf(v) + __fdividef(1, v);
	out[11] = floorf(v) + ceilf(v) + rintf(v) + truncf(v);
}
