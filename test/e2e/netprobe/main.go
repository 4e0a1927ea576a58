// Command netprobe is the program in the pods of the end-to-end tests. It is a server, and
// with `kubectl exec` it reports the network as a pod sees it. Its image has no other file.
// Each command prints lines that tests compare. It succeeds if it could send its requests:
// a missing answer is a result too.
//
//	netprobe serve [ADDRESS]                  an HTTP server that reports both ends of a request, and a UDP echo; :8080
//	netprobe get [-timeout 2s] HOST:PORT...   192.168.0.3:8080: web-1 at 192.168.0.3, asked by 192.168.0.2
//	netprobe ping [-count 10] [-interval 10ms] HOST:PORT    10 sent, 10 received; -count 0: until the standard input ends
//	netprobe echo ADDRESS...                  192.168.0.1: answers, to an ICMP echo request
//	netprobe inject NODE VNI MAC HOST:PORT TEXT   172.18.0.11: sent, in a VXLAN packet like that of another node
//	netprobe forge [-skip-tc] DEV MAC IP TO-MAC HOST:PORT [TEXT]   a datagram with these sources; without TEXT, an ARP reply or a neighbour advertisement
//	netprobe neighbours                       192.168.0.1 0a:58:c0:a8:00:01, for each address whose MAC address the kernel knows
//	netprobe hear ADDRESS TEXT                datagrams, one a line, until one is TEXT
//	netprobe lookup NAME...                   web-1.web: 192.168.0.3
//	netprobe source ADDRESS...                203.0.113.10: 10.244.1.5, the source address that the routes choose
//	netprobe links                            net1 up mtu 1450 0a:58:c0:a8:00:02 192.168.0.2/16
//	netprobe routes                           default via 10.244.1.1 dev eth0 metric 0
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "netprobe:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: netprobe serve | get | ping | echo | inject | forge | neighbours | say | hear | lookup | source | links | routes")
	}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	timeout := flags.Duration("timeout", 2*time.Second, "how long to wait for an answer")
	count := flags.Int("count", 10, "number of pings; 0 pings until the standard input ends")
	skip := flags.Bool("skip-tc", false, "send by a socket that skips programs of tc")
	interval := flags.Duration("interval", 10*time.Millisecond, "time between pings")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "serve":
		address := ":8080"
		if flags.NArg() > 0 {
			address = flags.Arg(0)
		}
		return serve(address)
	case "get":
		get(os.Stdout, *timeout, flags.Args())
		return nil
	case "ping":
		stop := make(chan bool)
		if *count == 0 {
			go func() {
				_, _ = io.Copy(io.Discard, os.Stdin)
				close(stop)
			}()
		}
		return ping(os.Stdout, *count, stop, *interval, *timeout, flags.Arg(0))
	case "echo":
		askEcho(os.Stdout, *timeout, flags.Args())
		return nil
	case "inject":
		if flags.NArg() != 5 {
			return fmt.Errorf("usage: netprobe inject NODE VNI MAC HOST:PORT TEXT")
		}
		return inject(os.Stdout, flags.Arg(0), flags.Arg(1), flags.Arg(2), flags.Arg(3), flags.Arg(4))
	case "forge":
		if flags.NArg() < 5 {
			return fmt.Errorf("usage: netprobe forge [-skip-tc] DEV MAC IP TO-MAC HOST:PORT [TEXT]")
		}
		return forge(*skip, flags.Arg(0), flags.Args()[1:])
	case "neighbours":
		return neighbours(os.Stdout)
	case "say":
		if flags.NArg() != 2 {
			return fmt.Errorf("usage: netprobe say HOST:PORT TEXT")
		}
		return say(flags.Arg(0), []byte(flags.Arg(1)))
	case "hear":
		return hear(os.Stdout, *timeout, flags.Arg(0), flags.Arg(1))
	case "lookup":
		lookup(os.Stdout, *timeout, flags.Args())
		return nil
	case "source":
		source(os.Stdout, flags.Args())
		return nil
	case "links":
		return links(os.Stdout)
	case "routes":
		return routes(os.Stdout)
	default:
		return fmt.Errorf("there is no command %s", args[0])
	}
}
