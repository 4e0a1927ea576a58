package view

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

var at = metav1.NewTime(time.Unix(1000, 0))

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u1", CreationTimestamp: at}
}

func text(records []Record) string {
	var b strings.Builder
	for _, r := range records {
		value, err := json.Marshal(r.Value)
		fmt.Fprintln(&b, r.Key, string(value), err)
	}
	return strings.ReplaceAll(b.String(), " <nil>\n", "\n")
}

func TestRecords(t *testing.T) {
	ready := []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "InvalidSpec", Message: "m", LastTransitionTime: at}}
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: meta("web-0"), Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "secret"}}}}}}
		p.Status.Phase = corev1.PodRunning
		change(p)
		return p
	}
	for name, row := range map[string]struct {
		got  []Record
		want string
	}{
		"Network": {OfNetwork(&v1.Network{ObjectMeta: meta("blue"), Spec: v1.NetworkSpec{CIDR: "10.0.0.0/24", ReuseDelaySeconds: ptr.To[int32](30)},
			Status: v1.NetworkStatus{Capacity: 253, Bound: 2, Available: 251, Gateway: "10.0.0.1", Conditions: ready}}),
			`networks/default/blue {"namespace":"default","name":"blue","cidr":"10.0.0.0/24","gateway":"10.0.0.1","type":"Overlay","capacity":253,"bound":2,"reserved":0,"resting":0,"available":251,"reuseDelaySeconds":30,"conditions":[{"type":"Ready","status":"False","reason":"InvalidSpec","message":"m","since":1000}]}` + "\n"},
		"AddressBlock": {OfAddressBlock(&v1.AddressBlock{ObjectMeta: meta("blue-0"), Spec: v1.AddressBlockSpec{Network: "blue", Entries: []v1.AddressEntry{
			{Address: "10.0.0.2", State: v1.AddressBound, Pod: "web-0", PodUID: "u1", Since: at, Owner: v1.AddressOwner{Kind: "Pod2", Name: "web"}},
			{Address: "fd00::2", State: v1.AddressResting, Pod: "a", Since: at}}}}),
			`addresses/default/blue/10.0.0.2 {"namespace":"default","network":"blue","address":"10.0.0.2","state":"Bound","pod":"web-0","uid":"u1","owner":"Pod2/web","since":1000}` + "\n" +
				`addresses/default/blue/fd00::2 {"namespace":"default","network":"blue","address":"fd00::2","state":"Resting","pod":"a","since":1000}` + "\n"},
		"AddressHistory": {OfAddressHistory(&v1.AddressHistory{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue-3", Labels: map[string]string{v1.NetworkLabel: "blue"}}, Spec: v1.AddressHistorySpec{Records: []v1.AddressRecord{
			{Address: "10.0.0.2", Pod: "web-0", PodUID: "u1", Node: "n1", From: &at, Until: at}, {Gap: true, From: &at, Until: at}, {Address: "10.0.0.2", Pod: "web-1", Until: at}}}}),
			`holders/default/blue/3/10.0.0.2 [{"pod":"web-0","uid":"u1","node":"n1","from":1000,"until":1000},{"pod":"web-1","until":1000}]` + "\n" +
				`holders/default/blue/3/gaps [{"from":1000,"until":1000}]` + "\n"},
		"Pod2": {OfPod2(&v1.Pod2{ObjectMeta: meta("web"), Spec: v1.Pod2Spec{Replicas: ptr.To[int32](3), Paused: true, Networks: []v1.Pod2Network{{Name: "blue"}},
			Ordinals: &v1.Pod2Ordinals{Start: 5}, ReserveOrdinals: []int32{6},
			UpdateStrategy: v1.Pod2UpdateStrategy{RollingUpdate: &v1.Pod2RollingUpdate{Partition: 1, MaxSurge: ptr.To(intstr.FromString("25%"))}}},
			Status: v1.Pod2Status{Replicas: 3, ReadyReplicas: 2, UpdatedReplicas: 1, AvailableReplicas: 2, CurrentRevision: "web-1", UpdateRevision: "web-2"}}),
			`pod2s/default/web {"namespace":"default","name":"web","desired":3,"replicas":3,"ready":2,"updated":1,"available":2,"current":"web-1","update":"web-2","strategy":"RollingUpdate","partition":1,"start":5,"reserved":[6],"surge":"25%","paused":true,"networks":["blue"]}` + "\n"},
		"a running replica, without its variables": {OfPod(pod(func(p *corev1.Pod) {
			p.Labels = map[string]string{v1.Pod2Label: "web", v1.PodIndexLabel: "0", v1.PodTemplateHashLabel: "h"}
			p.Annotations = map[string]string{v1.NetworksAnnotation: "blue", v1.InPlaceAnnotation: "{}"}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		})), `pods/default/web-0 {"namespace":"default","name":"web-0","uid":"u1","node":"n1","phase":"Running","ready":true,"pod2":"web","ordinal":"0","template":"h","inPlace":true,"networks":["blue"],"created":1000}` + "\n"},
		"a pod that waits for an address": {OfPod(pod(func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "SchedulingGated"},
				{Type: v1.ConditionAddressesBound, Status: corev1.ConditionFalse, Reason: "NetworkExhausted", Message: "m", LastTransitionTime: at}}
		})), `pods/default/web-0 {"namespace":"default","name":"web-0","uid":"u1","phase":"Pending","created":1000,"waits":{"type":"AddressesBound","status":"False","reason":"NetworkExhausted","message":"m","since":1000}}` + "\n"},
		"CronTab": {OfCronTab(&stablev1.CronTab{ObjectMeta: meta("job"), Spec: stablev1.CronTabSpec{CronSpec: "* * * * *", Suspend: ptr.To(true)}, Status: stablev1.CronTabStatus{LastScheduleTime: &at}}),
			`crontabs/default/job {"namespace":"default","name":"job","schedule":"* * * * *","suspended":true,"active":0,"last":1000}` + "\n"},
		"Node":  {OfNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}), `nodes//n1 {"name":"n1","ready":false}` + "\n"},
		"agent": {OfAgent(pod(func(*corev1.Pod) {})), `agents/default/web-0 {"node":"n1","ready":false}` + "\n"},
		"Event": {OfEvent(&corev1.Event{ObjectMeta: meta("e"), Type: "Warning", Reason: "InUse", Message: "m", InvolvedObject: corev1.ObjectReference{Kind: "Network", Name: "blue"}}),
			`events/default/e {"namespace":"default","type":"Warning","kind":"Network","name":"blue","reason":"InUse","message":"m","count":1,"last":1000}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := text(row.got); got != row.want {
				t.Errorf("got:\n%swant:\n%s", got, row.want)
			}
		})
	}
}
