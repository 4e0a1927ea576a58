package main

import "testing"

func TestRemoveSeccomp(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"there", `{"hostname":"a","linux":{"seccomp":{"defaultAction":"SCMP_ACT_ERRNO"},"x":18446744073709551615}}`, `{"hostname":"a","linux":{"x":18446744073709551615}}`},
		{"not there", `{"linux":{"x":[1]}}`, `{"linux":{"x":[1]}}`},
		{"of another operating system", `{"hostname":"a"}`, `{"hostname":"a"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := removeSeccomp([]byte(tt.in)); err != nil || string(got) != tt.want {
				t.Errorf("got %s, %v; want %s", got, err, tt.want)
			}
		})
	}
}
