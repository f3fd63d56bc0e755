//go:build !amd64 || purego

package codec

import "github.com/headrace/headrace/nd"

func vectorConvert(_, _ nd.DType, _ bool, _ *Affine) ConvertPlane { return nil }
