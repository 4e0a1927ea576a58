//go:build linux

package kernel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// CNIResults are the directories in which libcni keeps the plugins' result for each
// interface: those of the container runtime and of Multus.
var CNIResults = []string{"/var/lib/cni/results", "/var/lib/cni/multus/results"}

// Ports reads the results, and caches the files that do not change.
type Ports struct {
	dirs []string
	read map[string]result
}

type result struct {
	modified time.Time
	size     int64
	ports    []dataplane.Port
}

// NewPorts reads those directories, which need not exist.
func NewPorts(dirs []string) *Ports { return &Ports{dirs: dirs} }

// Read returns the ports that CNI made on this node. libcni records the pod of each
// interface; the pod's addresses are not read here. A file that does not parse is still
// being written, and is read once it is complete.
func (p *Ports) Read() ([]dataplane.Port, error) {
	read := map[string]result{}
	var ports []dataplane.Port
	for _, dir := range p.dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list the results of CNI: %w", err)
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			info, err := e.Info()
			if err != nil || !info.Mode().IsRegular() {
				continue // gone meanwhile, or not a file of libcni
			}
			r, known := p.read[path]
			if !known || !r.modified.Equal(info.ModTime()) || r.size != info.Size() {
				content, err := os.ReadFile(path)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					return nil, fmt.Errorf("read a result of CNI: %w", err)
				}
				r = result{info.ModTime(), info.Size(), parseResult(content)}
				for i := range r.ports {
					r.ports[i].Made = info.ModTime()
				}
			}
			read[path] = r
			ports = append(ports, r.ports...)
		}
	}
	p.read = read
	return ports, nil
}

// parseResult reads a file of libcni, of kind cniCacheV1. It has the arguments of the
// runtime and the interfaces of the result. Those without a sandbox are on the node.
//
//	{"kind":"cniCacheV1","cniArgs":[["K8S_POD_UID","5b0c..."],...],
//	 "result":{"interfaces":[{"name":"nw1001"},{"name":"veth5e11"},{"name":"net1","sandbox":"/run/netns/..."}]}}
func parseResult(content []byte) []dataplane.Port {
	var cached struct {
		Kind    string      `json:"kind"`
		CNIArgs [][2]string `json:"cniArgs"`
		Result  struct {
			Interfaces []struct {
				Name    string `json:"name"`
				Sandbox string `json:"sandbox"`
			} `json:"interfaces"`
		} `json:"result"`
	}
	if err := json.Unmarshal(content, &cached); err != nil || cached.Kind != "cniCacheV1" {
		return nil
	}
	var uid types.UID
	for _, arg := range cached.CNIArgs {
		if arg[0] == "K8S_POD_UID" {
			uid = types.UID(arg[1])
		}
	}
	var ports []dataplane.Port
	bridge, sandbox, inner := "", "", ""
	for _, i := range cached.Result.Interfaces {
		switch {
		case i.Name == "" || uid == "":
		case i.Sandbox != "":
			sandbox, inner = i.Sandbox, i.Name
		case dataplane.OwnBridge(i.Name) != 0: // the bridge plugin names it first
			bridge = i.Name
		case dataplane.OwnLink(i.Name) == 0:
			ports = append(ports, dataplane.Port{Interface: i.Name, Bridge: bridge, PodUID: uid})
		}
	}
	for p := range ports { // the plugin bridge makes one
		ports[p].Sandbox, ports[p].Inner = sandbox, inner
	}
	return ports
}
