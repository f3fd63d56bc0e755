// The mean of each crop of a batch: a block a crop. The order of additions is fixed by
// the number of threads, so that the result is the same on every GPU.
extern "C" __global__ void crop_means(const float* crops, float* means, unsigned int elements)
{
	__shared__ float sums[256];
	const float* crop = crops + static_cast<unsigned long long>(blockIdx.x) * elements;
	float sum = 0;
	for (unsigned int i = threadIdx.x; i < elements; i += blockDim.x)
		sum += crop[i];
	sums[threadIdx.x] = sum;
	__syncthreads();
	for (unsigned int half = blockDim.x / 2; half > 0; half /= 2) {
		if (threadIdx.x < half)
			sums[threadIdx.x] += sums[threadIdx.x + half];
		__syncthreads();
	}
	if (threadIdx.x == 0)
		means[blockIdx.x] = sums[0] / elements;
}
