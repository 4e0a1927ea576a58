package pod2

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// State is all that one decision about one Pod2 is made from: one view, read
// from caches.
type State struct {
	Now time.Time
	// Pod2 is never nil; it may be terminating. A field without a value counts as
	// its default. Leave the template as the user wrote it: a default of a later
	// release would change its hash and replace every pod.
	Pod2 *v1.Pod2
	// Pods, in name order: every pod of the namespace that this Pod2 controls (by
	// UID), that carries its label samplecrd.k8s.io/pod2, or that is known to have
	// a replica's name. Of each, decisions read metadata, spec.schedulingGates and
	// of the status phase, reason, message and conditions.
	Pods []*corev1.Pod
	// Networks are those that replicas ask for and that exist, in name order.
	Networks []*v1.Network
}

// ReplicaName is the name of the pod of an ordinal: web-0.
func ReplicaName(pod2 string, ordinal int32) string {
	return pod2 + "-" + strconv.FormatInt(int64(ordinal), 10)
}

// Ordinal is the inverse of ReplicaName: false for every name that ReplicaName
// would not give, such as web-01, web-+1 and web-99999999999.
func Ordinal(pod2, pod string) (int32, bool) {
	digits, ok := strings.CutPrefix(pod, pod2+"-")
	if !ok {
		return 0, false
	}
	ordinal, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	return int32(ordinal), true
}
