package launcher

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// How the values of flags and of their variables are read: each function here gives
// one that reads a value into a field of the Spec. Its error goes on from the flag's
// name: "is …", "has …".

func text(field func(*Spec) *string) func(*Spec, string) error {
	return func(s *Spec, v string) error { *field(s) = v; return nil }
}

// toggle takes "" from the command line, and 0 or 1 from a variable.
func toggle(field func(*Spec) *bool) func(*Spec, string) error {
	return func(s *Spec, v string) error {
		if v == "" {
			v = "1"
		}
		n, err := strconv.Atoi(strings.TrimSpace(v))
		*field(s) = n != 0
		if err != nil {
			return fmt.Errorf("is %q: 0 or 1", v)
		}
		return nil
	}
}

const minInt = -1 << 62

// whole reads a number that is at least low; Validate has the other limits.
func whole(field func(*Spec) *int, low int) func(*Spec, string) error {
	return func(s *Spec, v string) error {
		n, err := strconv.Atoi(strings.TrimSpace(v))
		if err != nil {
			return fmt.Errorf("is %q: a whole number is needed", v)
		}
		if n < low {
			return fmt.Errorf("is %d: at least %d", n, low)
		}
		*field(s) = n
		return nil
	}
}

func seconds(field func(*Spec) *time.Duration) func(*Spec, string) error {
	return func(s *Spec, v string) error {
		f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		if err != nil || !(f >= 0 && f < 1e9) { // NaN too
			return fmt.Errorf("is %q: a number of seconds, at least 0", v)
		}
		*field(s) = time.Duration(f * float64(time.Second))
		return nil
	}
}

func setInterval(s *Spec, v string) error {
	f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
	if err != nil {
		return fmt.Errorf("is %q: a number of seconds", v)
	}
	s.MonitorInterval = f
	return nil
}

func setNodes(s *Spec, v string) error {
	low, high, ranged := strings.Cut(v, ":")
	if !ranged {
		high = low
	}
	a, errA := strconv.Atoi(strings.TrimSpace(low))
	b, errB := strconv.Atoi(strings.TrimSpace(high))
	if errA != nil || errB != nil {
		return fmt.Errorf("is %q: N or MIN:MAX", v)
	}
	s.MinNodes, s.MaxNodes = a, b
	return nil
}

func setPort(s *Spec, v string) error {
	if err := whole(func(s *Spec) *int { return &s.MasterPort }, 0)(s, v); err != nil {
		return err
	}
	s.AnyPort = s.MasterPort == 0
	return nil
}

// setConf reads k=v pairs; torchrun ignores blanks around them.
func setConf(s *Spec, v string) error {
	s.Conf = map[string]string{}
	for pair := range strings.SplitSeq(v, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if key, value = strings.TrimSpace(key), strings.TrimSpace(value); !ok || key == "" || value == "" {
			return fmt.Errorf("has %q: KEY=VALUE is needed", pair)
		}
		s.Conf[key] = value
	}
	return nil
}

func setBinding(s *Spec, v string) error {
	s.NumaBinding = v
	if v == "" {
		return fmt.Errorf(`is "": node, socket, exclusive or core-complex`)
	}
	return nil
}

func setCompletion(s *Spec, v string) error {
	switch s.Show = Show(v); s.Show {
	case ShowBash, ShowZsh, ShowTcsh:
		return nil
	}
	s.Show = ""
	return fmt.Errorf("is %q: bash, zsh or tcsh", v)
}

// streams reads 0..3, or rank:0..3 pairs. torchrun's pattern takes ranks of one
// digit only; here they may have more.
func streams(field func(*Spec) *PerRank) func(*Spec, string) error {
	return func(s *Spec, v string) error {
		p := PerRank{}
		if n, ok := streamBits(v); ok {
			p.All = n
			*field(s) = p
			return nil
		}
		p.Ranks = map[int]Streams{}
		for pair := range strings.SplitSeq(v, ",") {
			rank, bits, _ := strings.Cut(pair, ":")
			r, err := strconv.ParseUint(rank, 10, 16)
			n, ok := streamBits(bits)
			if err != nil || !ok {
				return fmt.Errorf("is %q: 0 to 3, or RANK:0..3 pairs with commas between them", v)
			}
			p.Ranks[int(r)] = n
		}
		*field(s) = p
		return nil
	}
}

func streamBits(v string) (Streams, bool) {
	if len(v) != 1 || v[0] < '0' || v[0] > '3' {
		return 0, false
	}
	return Streams(v[0] - '0'), true
}

func setLocalRanks(s *Spec, v string) error {
	s.LocalRanks = nil
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		n, err := strconv.Atoi(part)
		if err != nil {
			return fmt.Errorf("is %q: local ranks with commas between them", v)
		}
		s.LocalRanks = append(s.LocalRanks, n)
	}
	return nil
}

// words splits at commas; two commas stand for one within a word.
func words(field func(*Spec) *[]string) func(*Spec, string) error {
	return func(s *Spec, v string) error {
		var list []string
		const comma = "\x00"
		for part := range strings.SplitSeq(strings.ReplaceAll(v, ",,", comma), ",") {
			if part = strings.TrimSpace(strings.ReplaceAll(part, comma, ",")); part != "" {
				list = append(list, part)
			}
		}
		*field(s) = list
		return nil
	}
}
