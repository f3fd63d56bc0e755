package agent

import (
	"context"
	"net"
	"time"

	"github.com/headrace/headrace/nd"
)

// resolveBound is how long a name server may take to answer for this agent's own name.
const resolveBound = 2 * time.Second

// endpoint is an address by which others reach this agent, and what its name stands for.
type endpoint struct {
	address string
	ip      net.IP
	port    int
}

// resolve looks an address up, which may take resolveBound: never in the agent's goroutine.
func (c *Config) resolve(ctx context.Context, address string) (endpoint, error) {
	at, literal, err := endpointOf(address)
	if err != nil || literal {
		return at, err
	}
	ctx, cancel := context.WithTimeout(ctx, resolveBound)
	defer cancel()
	host, _, _ := net.SplitHostPort(address) // it was parsed
	look := c.lookup
	if look == nil {
		look = func(ctx context.Context, host string) ([]net.IP, error) {
			return net.DefaultResolver.LookupIP(ctx, "ip", host)
		}
	}
	list, err := look(ctx, host)
	if err != nil {
		return at, nd.Errorf(nd.ErrIO, "agent: the address %s by which others reach it: %w", address, err)
	}
	if len(list) == 0 {
		return at, nd.Errorf(nd.ErrIO, "agent: the address %s by which others reach it: its name stands for none", address)
	}
	at.ip = list[0]
	return at, nil
}

// endpointOf parses an address; literal: there is no name in it.
func endpointOf(address string) (at endpoint, literal bool, err error) {
	host, port, err := splitAddress(address)
	if err != nil {
		return at, false, err
	}
	at = endpoint{address, net.ParseIP(host), port}
	return at, at.ip != nil, nil
}

// resolved gives the agent's address to a function, in the agent's goroutine: at once where there
// is nothing to look up. The function hears of an error too, and must see for itself whether what
// it wants is still to be done.
func (a *Agent) resolved(f func(endpoint, error)) {
	at, literal, err := endpointOf(a.address)
	if err != nil || literal {
		f(at, err)
		return
	}
	address := a.address
	a.done.Go(func() {
		at, err := a.config.resolve(a.ending, address)
		a.inbox.put(call(func() { f(at, err) }))
	})
}
