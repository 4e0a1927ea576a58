package certificates

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"
)

const host = "pod2-apiserver.pod2-system.svc"

// A CA is replaced in steps. After each step, the APIService of this step and of the one
// before trust the certificates of both steps: replicas and API servers are not in step.
func TestReplaceTheCA(t *testing.T) {
	life := lifetimes{whole: 100 * time.Hour, overlap: time.Hour}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c, published, before := contents{}, []byte(nil), contents(nil)
	var steps []string
	for hour := 0.0; hour < 160; hour += 0.5 {
		now := start.Add(time.Duration(hour * float64(time.Hour)))
		for {
			next, reason, err := c.next(now, published, host, life)
			if err != nil {
				t.Fatal(err)
			}
			if reason == "" {
				break
			}
			steps = append(steps, fmt.Sprintf("%gh %s", hour, reason))
			before, c = c, next
			for name, bundle := range map[string][]byte{"new": c.bundle(), "published": published} {
				for _, serving := range []contents{before, c} {
					certificate, err := tls.X509KeyPair(serving[certificateKey], serving[privateKey])
					if err != nil || bundle == nil {
						continue // at the start
					}
					if !trusts(bundle, certificate.Leaf, now, host) {
						t.Errorf("%s: the %s caBundle does not trust a certificate", steps[len(steps)-1], name)
					}
				}
			}
		}
		published = c.bundle()
	}
	want := `0h no usable CA
50.5h half of the CA's lifetime has passed
52h the APIService trusts the new CA
53.5h all replicas have the certificate of the new CA
101h half of the CA's lifetime has passed
102.5h the APIService trusts the new CA
104h all replicas have the certificate of the new CA
151.5h half of the CA's lifetime has passed
153h the APIService trusts the new CA
154.5h all replicas have the certificate of the new CA`
	if got := strings.Join(steps, "\n"); got != want {
		t.Errorf("the steps are\n%s\nwant\n%s", got, want)
	}
}

// Until the APIService has the new CA, the old certificate stays.
func TestWaitForTheAPIService(t *testing.T) {
	life := lifetimes{whole: 100 * time.Hour, overlap: time.Hour}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c, _, err := contents{}.next(start, nil, host, life)
	if err != nil {
		t.Fatal(err)
	}
	old := c.bundle()
	if c, _, err = c.next(start.Add(51*time.Hour), old, host, life); err != nil {
		t.Fatal(err)
	}
	if _, reason, err := c.next(start.Add(60*time.Hour), old, host, life); err != nil || reason != "" {
		t.Errorf("the server continues (%s, %v) before the APIService trusts the new CA", reason, err)
	}
}

// A Secret that does not hold usable certificates gets new ones.
func TestUnusableSecret(t *testing.T) {
	life := lifetimes{whole: 100 * time.Hour, overlap: time.Hour}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	good, _, err := contents{}.next(start, nil, host, life)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key, value, host string
		after            time.Duration
		want             string
	}{
		{caKey, "damaged", host, 0, "no usable CA"},
		{certificateKey, "damaged", host, 0, "no usable certificate"},
		{"other", "", "another.host.svc", 0, "no usable certificate"},
		{"other", "", host, 101 * time.Hour, "no usable CA"},
		{"other", "", host, 0, ""},
	} {
		changed := contents{c.key: []byte(c.value)}
		for key, value := range good {
			if key != c.key {
				changed[key] = value
			}
		}
		if _, reason, err := changed.next(start.Add(c.after), good.bundle(), c.host, life); err != nil || reason != c.want {
			t.Errorf("%s=%s for %s after %s: %q (%v), want %q", c.key, c.value, c.host, c.after, reason, err, c.want)
		}
	}
}

// The clocks of replicas and API servers differ by up to five minutes. No replica replaces the
// certificate of another one, and each API server accepts it.
func TestClocksDiffer(t *testing.T) {
	const half = 5 * time.Minute / 2
	life := lifetimes{whole: 100 * time.Hour, overlap: time.Hour}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c, published, changes := contents{}, []byte(nil), 0
	for minutes := 0; minutes < 160*60; minutes += 30 {
		for _, offset := range []time.Duration{0, -half, half, -half} {
			now := start.Add(time.Duration(minutes)*time.Minute + offset)
			next, reason, err := c.next(now, published, host, life)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(reason, "no usable") && minutes > 0 {
				t.Fatalf("%s: a replica whose clock differs by %s finds %s", now, offset, reason)
			}
			if reason != "" {
				c, changes = next, changes+1
			}
			published = c.bundle()
		}
		certificate, err := tls.X509KeyPair(c[certificateKey], c[privateKey])
		if err != nil {
			t.Fatal(err)
		}
		for _, offset := range []time.Duration{-half, 0, half} {
			if at := start.Add(time.Duration(minutes)*time.Minute + offset); !trusts(published, certificate.Leaf, at, host) {
				t.Errorf("an API server whose clock differs by %s does not accept the certificate at %s", offset, at)
			}
		}
	}
	if changes != 10 { // as in TestReplaceTheCA
		t.Errorf("the replicas made %d changes, want 10", changes)
	}
}
