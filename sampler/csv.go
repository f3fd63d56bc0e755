package sampler

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/nd"
)

// ReadCSV reads a table of comma-separated values, a row a line, the first of them
// the names of TableCrops. In place of start there may be a column for each axis:
// start0, start1, …; numbers within start and flip have a space between. Errors are
// as those of ReadJSONLines.
func ReadCSV(r io.Reader, config TableCrops) (*Table, error) {
	t, err := newTableReader(config)
	if err != nil {
		return nil, err
	}
	feed := &lineFeed{}
	records := csv.NewReader(feed)
	records.ReuseRecord, records.TrimLeadingSpace = true, true
	var columns *csvColumns
	err = lines(r, t.config.MaxBytes, func(line []byte) error {
		feed.line = append(append(feed.line[:0], line...), '\n')
		record, err := records.Read()
		if err != nil {
			return csvError(err)
		}
		if columns == nil {
			columns, err = t.csvHeader(record)
			return err
		}
		row, err := t.parseCSV(columns, record)
		if err != nil {
			return err
		}
		return t.add(row)
	})
	if err != nil {
		return nil, err
	}
	if columns == nil {
		return nil, nd.Errorf(nd.ErrCorrupt, "table: empty: the first line must name the columns")
	}
	return t.finish(), nil
}

// lineFeed gives a csv.Reader one line at a time, so that a quote which is not
// closed cannot take in the rest of the text.
type lineFeed struct{ line []byte }

func (f *lineFeed) Read(p []byte) (int, error) {
	if len(f.line) == 0 {
		return 0, io.EOF
	}
	n := copy(p, f.line)
	f.line = f.line[n:]
	return n, nil
}

// csvError is the reader's error without its own count of lines.
func csvError(err error) error {
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return nd.Errorf(nd.ErrCorrupt, "column %d: %w", parse.Column, parse.Err)
	}
	return nd.Errorf(nd.ErrCorrupt, "%w", err)
}

// csvColumns is where the known names are; -1 where they are not.
type csvColumns struct {
	array, start, flip, weight int
	axes                       []int // of start0, start1, …
}

func (r *tableReader) csvHeader(names []string) (*csvColumns, error) {
	c := &csvColumns{array: -1, start: -1, flip: -1, weight: -1, axes: slices.Repeat([]int{-1}, len(r.table.windows.shape))}
	known := map[string]*int{"array": &c.array, "start": &c.start, "flip": &c.flip, "weight": &c.weight}
	for axis := range c.axes {
		known["start"+strconv.Itoa(axis)] = &c.axes[axis]
	}
	var unknown []string
	for i, name := range names {
		name = strings.TrimSpace(name)
		at := known[name]
		if at == nil {
			unknown = append(unknown, strconv.Quote(name))
			continue
		}
		if *at >= 0 {
			return nil, nd.Errorf(nd.ErrCorrupt, "column %s is there twice", name)
		}
		*at = i
	}
	if len(unknown) > 0 && !r.config.Extra {
		return nil, unknownNames(unknown)
	}
	return c, r.checkColumns(c)
}

// checkColumns asks for what must be there.
func (r *tableReader) checkColumns(c *csvColumns) error {
	missing := slices.Index(c.axes, -1)
	has := slices.ContainsFunc(c.axes, func(at int) bool { return at >= 0 })
	switch {
	case c.start >= 0 && has:
		return nd.Errorf(nd.ErrCorrupt, "columns start and start0 … are both there: give one of them")
	case c.start < 0 && missing >= 0:
		return nd.Errorf(nd.ErrCorrupt, "column start%d is missing, and there is no column start", missing)
	case c.array < 0 && len(r.table.windows.groups) > 1:
		return nd.Errorf(nd.ErrCorrupt, "column array is missing: there are %d", len(r.table.windows.groups))
	}
	return nil
}

func (r *tableReader) parseCSV(c *csvColumns, record []string) (row tableRow, err error) {
	if c.array >= 0 {
		if row.group, err = r.groupNamed(strings.TrimSpace(record[c.array])); err != nil {
			return row, err
		}
	}
	if c.start >= 0 {
		if row.start, err = integers("start", record[c.start]); err != nil {
			return row, err
		}
	} else {
		for axis, at := range c.axes {
			n, err := strconv.ParseInt(strings.TrimSpace(record[at]), 10, 64)
			if err != nil {
				return row, fmt.Errorf("start%d %.80q is not a number", axis, record[at])
			}
			row.start = append(row.start, n)
		}
	}
	if c.flip >= 0 {
		if row.flip, err = integers("flip", record[c.flip]); err != nil {
			return row, err
		}
	}
	if c.weight >= 0 {
		weight, err := strconv.ParseFloat(strings.TrimSpace(record[c.weight]), 64)
		if err != nil {
			return row, fmt.Errorf("weight %.80q is not a number", record[c.weight])
		}
		row.weight = &weight
	}
	return row, nil
}
