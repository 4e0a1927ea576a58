// Command pause runs in a pod's sandbox. It keeps the pod's namespaces while containers of
// the pod start and end. It ends on a signal.
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
