package probe

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/zarr"
)

// The mean over all origins is what counting every one of them gives.
func TestSpans(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		n, k := 1+r.Int64N(60), 1+r.Int64N(20)
		c := 1 + r.Int64N(n)
		sum, least, most := int64(0), int64(math.MaxInt64), int64(0)
		for o := range n - c + 1 {
			cells := (o+c-1)/k - o/k + 1
			sum, least, most = sum+cells, min(least, cells), max(most, cells)
		}
		want := float64(sum) / float64(n-c+1)
		if mean, lo, hi := spans(n, c, k); math.Abs(mean-want) > 1e-9 || lo != least || hi != most {
			t.Errorf("crops of %d on an axis of %d in chunks of %d: %v, %d to %d, counted %v, %d to %d", c, n, k, mean, lo, hi, want, least, most)
		}
	}
}

// grid is an array's metadata.
func grid(t testing.TB, doc string) *zarr.Array {
	t.Helper()
	a, err := zarr.ParseArray([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The amplification of damacy's default scenario is known: 44.2 chunks instead of 16,
// 2.76 bytes decoded for each of the crop.
func TestCropOfTheDefaultScenario(t *testing.T) {
	a := grid(t, `{"zarr_format":2,"shape":[512,512,512],"chunks":[32,64,64],"dtype":"<u2","compressor":null,"fill_value":0,"order":"C","filters":null}`)
	shape, err := cropShape(a, nil)
	if err != nil || !slices.Equal(shape, []int64{128, 128, 128}) {
		t.Fatalf("the default crop is %v (%v)", shape, err)
	}
	c := newCrop(a, shape, 100_000, 0.5)
	if math.Abs(c.Chunks-44.156) > 0.001 || c.ChunksMin != 16 || c.ChunksMax != 45 || c.Bytes != 2<<21 {
		t.Errorf("%+v", c)
	}
	if want := c.Chunks * 0.5 * 262144 / (2 << 21); math.Abs(c.Decoded-want) > 1e-9 {
		t.Errorf("half of the chunks are there: %v decoded a byte, want %v", c.Decoded, want)
	}
	if want := c.Decoded * 100_000 / 262144; math.Abs(c.Stored-want) > 1e-9 {
		t.Errorf("%v stored a byte, want %v", c.Stored, want)
	}
}

func TestCropShapes(t *testing.T) {
	f := func(shape, want string, asked ...int64) {
		t.Helper()
		a := grid(t, `{"zarr_format":2,"shape":`+shape+`,"chunks":`+shape+`,"dtype":"|u1","compressor":null,"fill_value":0,"order":"C","filters":null}`)
		got, err := cropShape(a, asked)
		if want == "" && !errors.Is(err, nd.ErrConfig) || want != "" && dims(got) != want {
			t.Errorf("crop %v of %s is %v (%v), want %s", asked, shape, got, err, want)
		}
	}
	f("[7,5,512,100,512]", "1x1x128x100x128")
	f("[4096,4096]", "1024x1024")
	f("[3000000]", "1048576")
	f("[]", "one element")
	f("[64,64]", "8x9", 8, 9)
	f("[64,64]", "", 8)
	f("[64,64]", "", 8, 65)
	f("[64,64]", "", 8, 0)
}
