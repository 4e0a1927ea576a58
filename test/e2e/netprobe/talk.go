package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// serve answers until it is killed.
func serve(address string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	packets, err := (&net.ListenConfig{}).ListenPacket(context.Background(), "udp", address)
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- echo(packets) }()
	server := &http.Server{Addr: address, ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		fmt.Fprintf(w, "%s at %s, asked by %s\n", host, withoutPort(local.String()), withoutPort(r.RemoteAddr))
	})}
	go func() { failed <- server.ListenAndServe() }()
	return <-failed
}

func withoutPort(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// echo sends every datagram back to its sender.
func echo(packets net.PacketConn) error {
	buffer := make([]byte, 64<<10)
	for {
		n, from, err := packets.ReadFrom(buffer)
		if err != nil {
			return err
		}
		// The sender may be unreachable by now. It will notice the missing answer.
		_, _ = packets.WriteTo(buffer[:n], from)
	}
}

// get asks all targets at once, each over its own connection. It prints the answers in the
// order of the targets.
func get(w io.Writer, timeout time.Duration, targets []string) {
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	each(w, targets, func(target string) (string, error) {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+target+"/", nil)
		if err != nil {
			return "", err
		}
		response, err := client.Do(request)
		if err != nil {
			return "", reason(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return strings.TrimSpace(string(body)), err
	})
}

// reason is the part of an error that is the same each time: without ports and URLs.
func reason(err error) error {
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return errors.New("no answer")
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		err = cause
	}
	return err
}

// lookup prints the addresses of each name, sorted.
func lookup(w io.Writer, timeout time.Duration, names []string) {
	each(w, names, func(name string) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		addresses, err := net.DefaultResolver.LookupHost(ctx, name)
		if missing := (*net.DNSError)(nil); errors.As(err, &missing) && missing.IsNotFound {
			return missing.Err, nil
		}
		slices.Sort(addresses)
		return strings.Join(addresses, " "), err
	})
}

// source prints the source address that the routes choose, without sending anything.
func source(w io.Writer, addresses []string) {
	each(w, addresses, func(address string) (string, error) {
		conn, err := (&net.Dialer{}).DialContext(context.Background(), "udp", net.JoinHostPort(address, "9"))
		if err != nil {
			return "", reason(err)
		}
		defer conn.Close()
		return withoutPort(conn.LocalAddr().String()), nil
	})
}

// each asks for all items at once and prints "ITEM: ANSWER" in their order.
func each(w io.Writer, items []string, ask func(string) (string, error)) {
	answers := make([]string, len(items))
	var all sync.WaitGroup
	for i, item := range items {
		all.Go(func() {
			answer, err := ask(item)
			if err != nil {
				answer = err.Error()
			}
			answers[i] = answer
		})
	}
	all.Wait()
	for i, item := range items {
		fmt.Fprintf(w, "%s: %s\n", item, answers[i])
	}
}

// ping counts the datagrams that come back. It sends count datagrams or, if that is 0, sends
// until stop is closed. It continues despite losses, to show how long a path is broken.
func ping(w io.Writer, count int, stop <-chan bool, interval, timeout time.Duration, target string) error {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "udp", target)
	if err != nil {
		return err
	}
	defer conn.Close()
	var sent atomic.Int64
	sent.Store(int64(count))
	received := make(chan int)
	go func() {
		came := map[string]bool{} // a datagram may arrive twice
		buffer := make([]byte, 64)
		for total := sent.Load(); total == 0 || len(came) < int(total); total = sent.Load() {
			n, err := conn.Read(buffer)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err == nil { // "connection refused" belongs to an earlier datagram
				came[string(buffer[:n])] = true
			}
		}
		received <- len(came)
	}()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	i := 0
	for going := true; going; {
		_, _ = fmt.Fprintf(conn, "%d", i) // an error, such as unreachable, counts as lost
		i++
		select {
		case <-tick.C:
			going = i != count
		case <-stop:
			going = false
		}
	}
	sent.Store(int64(i))
	if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d sent, %d received\n", i, <-received)
	return nil
}
