package zarr

import "testing"

const shardedDoc = `{"zarr_format":3,"node_type":"array","shape":[1024,1024],"data_type":"uint16",
"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[256,512]}},
"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},"fill_value":7,
"codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[32,64],
"codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":3}}],
"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"crc32c"}]}}]}`

func TestSharded(t *testing.T) {
	a, err := ParseArray([]byte(shardedDoc))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v %s", a, a.Canonical())
	if n := a.Levels[0].Index.Size(); n != 64*16+4 {
		t.Errorf("index of %d bytes", n)
	}
}
