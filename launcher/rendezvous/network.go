package rendezvous

import (
	"context"
	"net"
	"strconv"
	"time"
)

// network is what a group needs of the host's network; tests have their own.
type network struct {
	dial   func(ctx context.Context, address string) (net.Conn, error)
	listen func(host string, port int) (net.Listener, error) // host "": all addresses
	hold   func(port int) (*Port, error)
	// mine reports whether a host's name or address belongs to this machine.
	mine func(ctx context.Context, host string) (bool, error)
}

// dialTimeout bounds one attempt to reach a peer; a lost SYN is sent again after 1 s
// and 3 s.
const dialTimeout = 5 * time.Second

func kernel() *network {
	return &network{
		dial: func(ctx context.Context, address string) (net.Conn, error) {
			d := net.Dialer{Timeout: dialTimeout}
			return d.DialContext(ctx, "tcp", address)
		},
		listen: func(host string, port int) (net.Listener, error) {
			return net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		},
		hold: HoldPort,
		mine: isMine,
	}
}

// isMine compares a host's addresses with those of this machine's interfaces. A
// name decides nothing: short names and CNAMEs are as good as others.
func isMine(ctx context.Context, host string) (bool, error) {
	if loopback(host) {
		return true, nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return false, err
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false, err
	}
	for _, o := range own {
		ip, ok := o.(*net.IPNet)
		for _, a := range addrs {
			if ok && ip.IP.Equal(a.Unmap().AsSlice()) {
				return true, nil
			}
		}
	}
	return false, nil
}
