package decode_test

import (
	"bytes"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/decode"
	"github.com/headrace/headrace/cuda/kernels"
)

// A chunk of zstd goes from pinned host memory to the GPU, is decoded there and comes back.
func Example() {
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 12, 0x61, 0, 0, 'f', 'r', 'o', 'm', ' ', 'a', ' ', 'f', 'r', 'a', 'm', 'e'}
	data, err := decodeOne("libcuda.so.1", frame, kernels.Zstd, 12)
	_, _ = data, err // "from a frame", nil
}

// decodeOne decodes a chunk to size bytes on the first GPU of a driver. (Errors of Close are
// left out.)
func decodeOne(library string, encoded []byte, method uint8, size int) ([]byte, error) {
	driver, err := cuda.Load(library)
	if err != nil {
		return nil, err
	}
	device, err := driver.Open(0)
	if err != nil {
		return nil, err
	}
	defer device.Close() //nolint:errcheck // what it gives back is the driver's
	stream, err := device.NewStream(0)
	if err != nil {
		return nil, err
	}
	defer stream.Close() //nolint:errcheck // as above

	// A Decoder is made once, for the largest batch.
	decoder, err := decode.Open(device, decode.Limits{Chunks: 1, Bytes: int64(size)})
	if err != nil {
		return nil, err
	}
	defer decoder.Close() //nolint:errcheck // as above

	host, err := device.AllocHost(int64(max(len(encoded), size) + 16)) // the kernels read in vectors
	if err != nil {
		return nil, err
	}
	defer device.FreeHost(host) //nolint:errcheck // as above
	output, err := device.Alloc(int64(size))
	if err != nil {
		return nil, err
	}
	defer device.Free(output) //nolint:errcheck // as above

	copy(host, encoded)
	batch := []decode.Chunk{{Src: cuda.Address(host), SrcBytes: len(encoded), Dst: output, DstBytes: size, Method: method}}
	if err := decoder.Start(stream, batch); err != nil {
		return nil, err
	}
	errs, err := decoder.Wait(nil)
	if err != nil {
		return nil, err // of the device
	}
	if errs[0] != nil {
		return nil, errs[0] // of the chunk: the others of a batch are decoded
	}
	var back cuda.Commands
	back.Copy(stream, cuda.Address(host), output, int64(size))
	if err := device.Run(&back); err != nil {
		return nil, err
	}
	if err := stream.Drain(); err != nil {
		return nil, err
	}
	return bytes.Clone(host[:size]), nil
}
