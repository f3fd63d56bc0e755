package launcher

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/headrace/headrace/launcher/rendezvous"
)

// signalOf is the signal that ended a context of signal.NotifyContext.
func signalOf(cause error) syscall.Signal {
	if strings.Contains(cause.Error(), os.Interrupt.String()) {
		return syscall.SIGINT
	}
	return syscall.SIGTERM
}

// listen catches the signals that stop the job and those that are passed on.
// SIGPIPE is caught to be ignored: a console that nobody reads must not end the
// launcher, and a plain ignore would be inherited by the workers. SIGHUP stays
// ignored under nohup.
func (sh *shell) listen() chan os.Signal {
	signals := make(chan os.Signal, 64)
	for _, n := range slices.Concat(sh.spec.Signals, forwarded(), conventional()) {
		if n != syscall.SIGHUP || !signal.Ignored(n) {
			signal.Notify(signals, n)
		}
	}
	signal.Notify(signals, syscall.SIGPIPE)
	if sh.spec.Adopt {
		signal.Notify(signals, syscall.SIGCHLD)
	}
	return signals
}

// feed starts what turns signals into events.
func (sh *shell) feed(ctx context.Context, signals chan os.Signal) {
	sh.talks.Go(func() {
		ended := ctx.Done()
		for {
			select {
			case n := <-signals:
				if n, ok := n.(syscall.Signal); ok {
					sh.signalled(n)
				}
			case <-ended:
				sh.box.put(event{kind: contextEnded})
				ended = nil
			case <-sh.stop:
				return
			}
		}
	})
}

// hear starts what turns the group's words into events.
func (sh *shell) hear(g rendezvous.Group) {
	sh.talks.Go(func() {
		for {
			select {
			case e := <-g.Events():
				if sh.live != nil {
					sh.box.put(event{kind: called, call: func() { sh.heardLive(g, e) }})
				} else {
					sh.box.put(event{kind: groupSpoke, group: e})
				}
			case d := <-g.Relayed():
				sh.relayed(d)
			case <-sh.stop:
				return
			}
		}
	})
}

func (sh *shell) signalled(n syscall.Signal) {
	switch n {
	case syscall.SIGPIPE:
	case syscall.SIGCHLD:
		sh.spawner.later(sh.spawner.reapAdopted)
	default:
		sh.box.put(event{kind: signalCame, signal: n})
	}
}
