// Command pause is what a pod's sandbox runs: it keeps the pod's namespaces while
// the pod's containers come and go, and ends when it is told to.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}
