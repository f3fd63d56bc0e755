package zarr

import "strings"

// settingsOf lists the settings of a codec of version 3 whose meaning is known;
// known is false for codecs that package codec does not read, which refuses them
// by their name.
func settingsOf(name string) (settings []string, known bool) {
	// What a compressor was told. Its stream holds all that a decoder needs, so
	// none of these, under whatever compressor, changes the data.
	encoder := []string{"level", "clevel", "acceleration", "blocksize", "typesize", "nthreads", "checksum"}
	switch strings.TrimPrefix(name, "numcodecs.") {
	case "bytes", "endian":
		return []string{"endian"}, true
	case "transpose":
		return []string{"order"}, true
	case "sharding_indexed":
		return []string{"chunk_shape", "codecs", "index_codecs", "index_location"}, true
	case "crc32c":
		return []string{"location"}, true
	case "blosc":
		return append(encoder, "cname", "shuffle"), true
	case "zstd", "gzip", "zlib", "lz4":
		return encoder, true
	case "shuffle":
		return []string{"elementsize"}, true
	case "delta":
		return []string{"dtype", "astype"}, true
	case "fixedscaleoffset":
		return []string{"dtype", "astype", "scale", "offset"}, true
	case "quantize":
		return []string{"dtype", "astype", "digits"}, true
	case "bitround":
		return []string{"dtype", "keepbits"}, true
	case "astype":
		return []string{"encode_dtype", "decode_dtype"}, true
	case "packbits":
		return nil, true
	}
	return nil, false
}

// checkSettings refuses settings of a codec that are not known: a member of a
// configuration may change the meaning of the data, and nothing marks those that
// do not. "id" is the codec's name once more, as numcodecs writes it.
func checkSettings(e extension) error {
	settings, known := settingsOf(e.name)
	if !known {
		return nil
	}
	_, err := e.only("codec", append([]string{"id"}, settings...)...)
	return err
}
