package companion

import (
	"encoding/json"

	"github.com/headrace/headrace/companion/session"
	"github.com/headrace/headrace/nd"
)

// Batch describes a batch to the client; see the package's documentation.
type Batch struct {
	Token  uint64          `json:"token"`
	Memory uint64          `json:"memory"` // 0: no tensor has elements
	New    []Memory        `json:"new,omitempty"`
	Fields []Tensor        `json:"tensors"`
	IDs    []int64         `json:"ids"`
	Epoch  int64           `json:"epoch"`
	Step   int64           `json:"step"`
	View   int64           `json:"view"`
	Turn   int64           `json:"turn"`
	Weight float64         `json:"weight"`
	Errors json.RawMessage `json:"errors,omitempty"`
}

// Memory is memory that a client has not seen before.
type Memory struct {
	ID     uint64 `json:"id"`
	Kind   string `json:"kind"` // memfd or cuda_ipc
	Bytes  int64  `json:"bytes"`
	Handle string `json:"handle,omitempty"` // cuda_ipc: in hexadecimal
	UUID   string `json:"uuid,omitempty"`   // cuda_ipc: of the GPU
}

// Tensor is one field of a batch.
type Tensor struct {
	Offset     int64   `json:"offset"` // bytes into the memory
	DType      uint8   `json:"dtype"`  // number in package nd
	Shape      []int64 `json:"shape"`
	DeviceType int32   `json:"device_type"` // as DLPack: 1 CPU, 2 CUDA
	DeviceID   int32   `json:"device_id"`   // in the engine; the client's number may differ
}

// DLPack's numbers of host memory and of a GPU's.
const (
	deviceCPU  = 1
	deviceCUDA = 2
)

// describe describes a batch that lies in memory of these slots.
func describe(d session.Delivery, token uint64, from *slots) (Batch, *slot, error) {
	b := d.Batch
	meta := b.Meta()
	out := Batch{
		Token: token, Epoch: meta.Epoch, Step: meta.Step, View: meta.View, Turn: meta.Turn, Weight: d.Weight,
		Errors: d.Errors, IDs: []int64{}, Fields: []Tensor{},
	}
	for _, s := range b.Samples() {
		out.IDs = append(out.IDs, s.ID)
	}
	lent, onGPU, err := b.Export()
	if err != nil {
		return out, nil, err
	}
	var in *slot
	if onGPU {
		in = from.lend(lent)
		out.Memory = in.id
	}
	for i := range b.Fields() {
		t := b.TensorAt(i)
		field := Tensor{DType: uint8(t.DType), Shape: t.Shape, DeviceType: deviceCPU}
		if ordinal, ok := b.GPU(); ok {
			field.DeviceType, field.DeviceID = deviceCUDA, int32(ordinal)
		}
		if onGPU {
			field.Offset = int64(t.Address - lent.Address)
		}
		if len(t.Data) > 0 {
			if in == nil {
				if in = from.find(t.Data); in == nil {
					return out, nil, nd.Errorf(nd.ErrBug, "tensor %q lies in no slot of this client", t.Name)
				}
				out.Memory = in.id
			}
			field.Offset = in.offset(t.Data)
		}
		out.Fields = append(out.Fields, field)
	}
	return out, in, nil
}
