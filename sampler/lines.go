package sampler

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/headrace/headrace/nd"
)

// maxLine bounds the memory that one line takes: a row has a few dozen bytes, extra
// columns may have some text.
const maxLine = 1 << 20

// lines calls row for each line of a text that is not blank, without its end. No
// more than limit bytes are read.
func lines(r io.Reader, limit int64, row func(line []byte) error) error {
	scan := bufio.NewScanner(&limitedReader{r, limit, limit})
	scan.Buffer(nil, maxLine)
	var number int64
	for scan.Scan() {
		number++
		line := scan.Bytes()
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // as spreadsheets write it
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := row(line); err != nil {
			return atLine(number, err)
		}
	}
	err := scan.Err()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bufio.ErrTooLong):
		return nd.Errorf(nd.ErrCorrupt, "table: line %d is longer than %d bytes", number+1, maxLine)
	case errors.Is(err, nd.ErrBudget):
		return atLine(number+1, err)
	}
	return nd.Errorf(nd.ErrIO, "table: after line %d: %w", number, err)
}

// limitedReader fails where a text is longer than the limit: cut off, it would look
// whole.
type limitedReader struct {
	r           io.Reader
	left, limit int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left <= 0 {
		// The end of the text may be just here.
		var one [1]byte
		n, err := l.r.Read(one[:])
		if n == 0 {
			return 0, err
		}
		return 0, nd.Errorf(nd.ErrBudget, "more than %d bytes: raise MaxBytes", l.limit)
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}
