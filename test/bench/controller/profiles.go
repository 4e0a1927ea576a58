package main

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sync/errgroup"

	"github.com/pod2/pod2/test/bench/measure"
)

// area is a part of a program, defined by its functions.
type area struct {
	name string
	of   *regexp.Regexp
}

// The areas of each program. A sample belongs to the first area that contains a function on
// its stack. So all work that the garbage collector or a policy calls counts as theirs.
var (
	garbage = area{"garbage collection", regexp.MustCompile(`^runtime\.(gc(BgMarkWorker|AssistAlloc|Start)|bgsweep|bgscavenge)`)}

	serverAreas = []area{
		garbage,
		{"admission policies of Pod2 and others", regexp.MustCompile(`/admission/plugin/(policy|cel|webhook/matchconditions)`)},
		{"managed fields", regexp.MustCompile(`/util/managedfields|structured-merge-diff`)},
		{"watches", regexp.MustCompile(`handlers\.(handleWatch|\(\*WatchServer\))|/storage/cacher\.\(\*(Cacher|cacheWatcher|watchCache)\)`)},
		{"patches, without policies and managed fields", regexp.MustCompile(`handlers\.\(\*(smpPatcher|jsonPatcher|applyPatcher)\)`)},
		{"authentication and authorization", regexp.MustCompile(`/(authentication|authorization|authorizer|rbac)[/.]`)},
		{"validation and defaults", regexp.MustCompile(`/core/validation\.|registry/rest\.Before(Create|Update)|/core/v1\.Set(Object)?Defaults_`)},
		{"other parts of updates and patches", regexp.MustCompile(`registry/generic/registry\.\(\*Store\)\.Update\.func`)},
		{"etcd client, with its encoding", regexp.MustCompile(`/storage/etcd3|etcd/client|google\.golang\.org/grpc`)},
		{"HTTP/2 and TLS", regexp.MustCompile(`crypto/tls\.|http2\.\(\*(Framer|bufferedWriter\w*)\)|http2\.\(\*serverConn\)\.(writeFrameAsync|readFrames|serve)$`)},
	}
	controllerAreas = []area{
		garbage,
		{"decisions (the pure packages)", regexp.MustCompile(`pod2/pkg/(attachment|crontab|ipam|network|network/multus|node|ordinals|plan|pod2|pod2/dns)\.`)},
		{"requests", regexp.MustCompile(`client-go/rest\.(\(\*Request\)|Result)\.`)},
		{"watches and caches", regexp.MustCompile(`client-go/(rest/watch|tools/cache)|watch\.\(\*StreamWatcher\)`)},
		{"other parts of syncs", regexp.MustCompile(`pod2/pkg/reconcile\.`)},
		{"HTTP/2 and TLS", regexp.MustCompile(`crypto/tls\.|/http2\.`)},
	}
	heapAreas = []area{
		{"indexes of the caches", regexp.MustCompile(`tools/cache\.\(\*(storeIndex|threadSafeMap)\)`)},
		{"pods in the cache", regexp.MustCompile(`pkg/reconcile\.(SlimPod|common)|api/core/v1\.\(\*Pod\)`)},
		{"DNS names: EndpointSlices and Services", regexp.MustCompile(`discovery/v1\.|api/core/v1\.\(\*Service\)`)},
		{"AddressBlocks and other objects of Pod2", regexp.MustCompile(`pkg/network\.|reconcile\.\(\*\w+\)\.readBlocks|AddressBlock|serializer/json\.|sigs\.k8s\.io/json`)},
		{"events and the queue", regexp.MustCompile(`api/core/v1\.\(\*(Event|ObjectReference)\)|workqueue|processorListener|main\.NewController`)},
	}
)

const elsewhere = "anything else"

// names of the areas, and of the rest.
func names(areas []area) (all []string) {
	for _, a := range areas {
		all = append(all, a.name)
	}
	return append(all, elsewhere)
}

// share is each area's part of a profile's last value; the sum is 1.
func share(p *profile.Profile, areas []area) map[string]float64 {
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
		value := float64(s.Value[len(s.Value)-1])
		shares[in(s)] += value
		all += value
	}
	for name := range shares {
		shares[name] /= all
	}
	return shares
}

// profileLaps runs one more lap of each contender that targets compare, and profiles the
// programs that serve it. The times of these laps do not count. A profile is as long as the
// median time until all pods are Ready.
func (b *bench) profileLaps(ctx context.Context) {
	n := b.N()
	for _, c := range contenders() {
		if c.name != rawTwice && c.name != deployment && c.name != pod2 && c.name != pod2OnOne || b.Count(c.name, n, "ready") == 0 {
			continue
		}
		seconds := fmt.Sprint(max(1, int(b.Median(c.name, n, "ready"))))
		var server, ours *profile.Profile
		var group errgroup.Group
		b.begun = func() {
			group.Go(func() error { return measure.Try(func() { server = b.profileServer(ctx, seconds) }) })
			if c.ours() {
				group.Go(func() error {
					return measure.Try(func() { ours = profileOf(ctx, b.controller, "/debug/pprof/profile?seconds="+seconds) })
				})
			}
		}
		l := b.lap(ctx, c, n, nil)
		b.begun = nil
		measure.Check(group.Wait())
		add := func(program string, p *profile.Profile, areas []area) {
			shares := share(p, areas)
			for _, area := range names(areas) {
				b.Add(shares[area]*l.Median("CPU until Ready", program), "profile", program, c.name, area)
			}
		}
		add(apiServer, server, serverAreas)
		if c.ours() {
			add(pod2Controller, ours, controllerAreas)
		}
	}
}

func (b *bench) profileServer(ctx context.Context, seconds string) *profile.Profile {
	request := b.Kube.Discovery().RESTClient().Get().AbsPath("/debug/pprof/profile").Param("seconds", seconds).Timeout(10 * time.Minute)
	return measure.Must(profile.ParseData(measure.Must(request.DoRaw(ctx))))
}

func profileOf(ctx context.Context, c *measure.Controller, path string) *profile.Profile {
	return measure.Must(profile.ParseData(c.Fetch(ctx, path)))
}
