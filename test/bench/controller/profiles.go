package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sync/errgroup"
)

// area is a part of a program, by the functions it consists of.
type area struct {
	name string
	of   *regexp.Regexp
}

// The parts of each program, of which a sample is in the first that any function on its
// stack is of: what the collector or a policy calls is theirs, whatever it is.
var (
	garbage = area{"garbage collection", regexp.MustCompile(`^runtime\.(gc(BgMarkWorker|AssistAlloc|Start)|bgsweep|bgscavenge)`)}

	serverAreas = []area{
		garbage,
		{"admission policies, our own and any", regexp.MustCompile(`/admission/plugin/(policy|cel|webhook/matchconditions)`)},
		{"managed fields", regexp.MustCompile(`/util/managedfields|structured-merge-diff`)},
		{"watches", regexp.MustCompile(`handlers\.(handleWatch|\(\*WatchServer\))|/storage/cacher\.\(\*(Cacher|cacheWatcher|watchCache)\)`)},
		{"patches, but for their policies and managed fields", regexp.MustCompile(`handlers\.\(\*(smpPatcher|jsonPatcher|applyPatcher)\)`)},
		{"authentication and authorization", regexp.MustCompile(`/(authentication|authorization|authorizer|rbac)[/.]`)},
		{"validation and defaults", regexp.MustCompile(`/core/validation\.|registry/rest\.Before(Create|Update)|/core/v1\.Set(Object)?Defaults_`)},
		{"the rest of updates, patches too", regexp.MustCompile(`registry/generic/registry\.\(\*Store\)\.Update\.func`)},
		{"etcd's client, with its encoding", regexp.MustCompile(`/storage/etcd3|etcd/client|google\.golang\.org/grpc`)},
		{"HTTP/2 and TLS", regexp.MustCompile(`crypto/tls\.|http2\.\(\*(Framer|bufferedWriter\w*)\)|http2\.\(\*serverConn\)\.(writeFrameAsync|readFrames|serve)$`)},
	}
	controllerAreas = []area{
		garbage,
		{"decisions (the pure packages)", regexp.MustCompile(`pod2/pkg/(pod2|network|ipam|attachment|endpoints|definition|ordinals)\.`)},
		{"requests", regexp.MustCompile(`client-go/rest\.(\(\*Request\)|Result)\.`)},
		{"watches and caches", regexp.MustCompile(`client-go/(rest/watch|tools/cache)|watch\.\(\*StreamWatcher\)`)},
		{"the rest of syncs", regexp.MustCompile(`pod2/pkg/reconcile\.`)},
		{"HTTP/2 and TLS", regexp.MustCompile(`crypto/tls\.|/http2\.`)},
	}
	heapAreas = []area{
		{"indexes of the caches", regexp.MustCompile(`tools/cache\.\(\*(storeIndex|threadSafeMap)\)`)},
		{"pods in the cache", regexp.MustCompile(`pkg/reconcile\.SlimPod|api/core/v1\.\(\*Pod\)`)},
		{"names: slices, and Services", regexp.MustCompile(`discovery/v1\.|api/core/v1\.\(\*Service\)`)},
		{"the ledger, and other objects of ours", regexp.MustCompile(`pkg/network\.|reconcile\.\(\*Reconciler\)\.readBlocks|AddressBlock|serializer/json\.|sigs\.k8s\.io/json`)},
		{"events and the queue", regexp.MustCompile(`api/core/v1\.\(\*(Event|ObjectReference)\)|workqueue|processorListener|main\.NewController`)},
	}
)

const elsewhere = "anything else"

// profiled is a program while one contender brings its pods up: seconds by area.
type profiled struct {
	program, contender string
	spent              map[string]float64
}

// share is how much of a profile's last value each area has, of 1.
func share(p *profile.Profile, value int, areas []area) map[string]float64 {
	in := func(s *profile.Sample) string {
		for _, a := range areas {
			for _, location := range s.Location {
				for _, line := range location.Line {
					if a.of.MatchString(line.Function.Name) {
						return a.name
					}
				}
			}
		}
		return elsewhere
	}
	shares, all := map[string]float64{}, 0.0
	for _, s := range p.Sample {
		shares[in(s)] += float64(s.Value[value])
		all += float64(s.Value[value])
	}
	for name := range shares {
		shares[name] /= all
	}
	return shares
}

// profileLaps are one lap more of those contenders that targets compare, whose times do not
// count, with profiles of who serves them: as long as half of the rounds took to be Ready.
func (b *bench) profileLaps(ctx context.Context, r *results) error {
	n := r.sizes[len(r.sizes)-1]
	for _, c := range contenders() {
		if c.name != rawTwice && c.name != deployment && c.name != pod2 && c.name != pod2OnOne || len(r.of(c.name, n)) == 0 {
			continue
		}
		path := fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(1, int(r.seconds(c.name, n, ready).median)))
		var server, ours *profile.Profile
		var group errgroup.Group
		b.begun = func() {
			group.Go(func() (err error) { server, err = b.profileServer(ctx, path); return err })
			if c.ours {
				group.Go(func() (err error) { ours, err = b.controller.profile(ctx, path); return err })
			}
		}
		l, err := b.lap(ctx, c, n, false, false)
		b.begun = nil
		if err != nil {
			return err
		}
		if err := group.Wait(); err != nil {
			return fmt.Errorf("profile %s: %w", c.name, err)
		}
		add := func(program string, p *profile.Profile, areas []area) {
			spent := share(p, len(p.SampleType)-1, areas)
			for name := range spent {
				spent[name] *= l.computed[program].Seconds()
			}
			r.profiles = append(r.profiles, profiled{program, c.name, spent})
		}
		add(apiServer, server, serverAreas)
		if c.ours {
			add(pod2Controller, ours, controllerAreas)
		}
	}
	return nil
}

func (b *bench) profileServer(ctx context.Context, path string) (*profile.Profile, error) {
	path, query, _ := strings.Cut(path, "?seconds=")
	stream, err := b.kube.Discovery().RESTClient().Get().AbsPath(path).Param("seconds", query).Timeout(10 * time.Minute).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	return profile.Parse(stream)
}

// profile of a controller, which answers where its metrics are.
func (p *process) profile(ctx context.Context, path string) (got *profile.Profile, err error) {
	err = get(ctx, strings.TrimSuffix(p.metricsURL, "/metrics")+path, func(body io.Reader) error {
		var all bytes.Buffer
		if _, err := all.ReadFrom(body); err != nil {
			return err
		}
		got, err = profile.ParseData(all.Bytes())
		return err
	})
	return got, err
}

// spentTable has the areas of a program as rows and the contenders as columns.
func (r *results) spentTable(program string, areas []area) string {
	var columns []profiled
	for _, p := range r.profiles {
		if p.program == program {
			columns = append(columns, p)
		}
	}
	if len(columns) == 0 {
		return ""
	}
	var s strings.Builder
	fmt.Fprintf(&s, "\n| %s, CPU seconds |", program)
	for _, c := range columns {
		fmt.Fprintf(&s, " %s |", c.contender)
	}
	s.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, a := range append(areas, area{name: elsewhere}) {
		fmt.Fprintf(&s, "| %s |", a.name)
		for _, c := range columns {
			fmt.Fprintf(&s, " %.1f |", c.spent[a.name])
		}
		s.WriteString("\n")
	}
	return s.String()
}

// heapTable is what the heap of the controller is made of while all stand.
func (r *results) heapTable() string {
	if r.standing.heap == nil {
		return ""
	}
	var s strings.Builder
	fmt.Fprintf(&s, "\n| heap of the controller in use, %d pods standing, by what allocated it | KiB a pod |\n|---|---|\n", r.standing.n)
	perPod := func(bytes float64) float64 { return bytes / float64(r.standing.n) / 1024 }
	for _, a := range append(heapAreas, area{name: elsewhere}) {
		fmt.Fprintf(&s, "| %s | %.2f |\n", a.name, perPod(r.standing.heap[a.name]*r.standing.live))
	}
	fmt.Fprintf(&s, "| of all these without a pod | %.2f |\n", perPod(r.standing.base))
	return s.String()
}
