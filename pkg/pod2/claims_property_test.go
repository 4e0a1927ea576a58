package pod2

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/chance"
)

func gi(n int) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(fmt.Sprintf("%dGi", n))}
}

func claimTemplate(name string, size int) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: ptr.To("fast"), Resources: corev1.VolumeResourceRequirements{Requests: gi(size)},
	}}
}

func storageClasses() []*storagev1.StorageClass {
	return []*storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, AllowVolumeExpansion: ptr.To(true)},
		{ObjectMeta: metav1.ObjectMeta{Name: "slow"}},
	}
}

// arbitraryClaims adds templates or none, and PVCs of all kinds.
func arbitraryClaims(dice *rand.Rand, s *State) {
	s.StorageClasses = storageClasses()
	if chance.One(dice, 3) {
		return
	}
	s.Pod2.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claimTemplate("data", 1+dice.IntN(2)), claimTemplate("log", 1)}[:1+dice.IntN(2)]
	if chance.One(dice, 2) {
		s.Pod2.Spec.PersistentVolumeClaimRetentionPolicy = &v1.Pod2ClaimRetentionPolicy{
			WhenDeleted: chance.Pick(dice, "", v1.RetainClaim, v1.DeleteClaim), WhenScaled: chance.Pick(dice, "", v1.RetainClaim, v1.DeleteClaim),
		}
	}
	for _, name := range []string{
		"data-web-0", "data-web-00", "data-web-1", "data-web-2", "data-web-3", "data-web-4", "data-web-7", "data-web-x", "log-web-0", "log-web-1", "other-web-0",
	} {
		if chance.One(dice, 2) {
			s.Claims = append(s.Claims, arbitraryClaim(dice, s.Pod2, name))
		}
	}
}

func arbitraryClaim(dice *rand.Rand, p *v1.Pod2, name string) *corev1.PersistentVolumeClaim {
	size := 1 + dice.IntN(3)
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("u-" + name), Labels: map[string]string{
			v1.Pod2Label: "web", v1.PodIndexLabel: name[strings.LastIndexByte(name, '-')+1:],
		}},
		Spec:   corev1.PersistentVolumeClaimSpec{StorageClassName: chance.Pick(dice, nil, ptr.To("fast"), ptr.To("slow"), ptr.To("gone")), Resources: corev1.VolumeResourceRequirements{Requests: gi(size)}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: chance.Pick(dice, corev1.ClaimBound, corev1.ClaimBound, corev1.ClaimPending), Capacity: gi(1 + dice.IntN(size))},
	}
	switch dice.IntN(8) {
	case 0:
		c.Labels = nil
	case 1:
		c.Labels[v1.Pod2Label] = "other"
	case 2:
		c.Labels[v1.PodIndexLabel] = "99"
	}
	own := metav1.NewControllerRef(p, pod2Kind)
	switch dice.IntN(6) {
	case 0:
		own.Controller = nil
		c.OwnerReferences = []metav1.OwnerReference{*own}
	case 1:
		own.UID, own.Controller = "u-earlier", nil
		c.OwnerReferences = []metav1.OwnerReference{*own}
	case 2:
		own.UID, own.Kind, own.Name = "u-other", "Database", "db"
		c.OwnerReferences = []metav1.OwnerReference{*own}
	}
	if chance.One(dice, 4) {
		c.Annotations = map[string]string{v1.SurgeClaimAnnotation: "true"}
	}
	if chance.One(dice, 8) {
		c.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	}
	return c
}

// applyClaims applies the part of a plan about PVCs as the API server would, except those
// that are created with a pod.
func applyClaims(s *State, p Plan) error {
	s.Claims = slices.Clone(s.Claims)
	change := func(c ClaimChange) error {
		i := slices.IndexFunc(s.Claims, func(o *corev1.PersistentVolumeClaim) bool { return o.Name == c.Claim.Name && o.UID == c.Claim.UID })
		if i < 0 || s.Claims[i].ResourceVersion != c.Claim.ResourceVersion {
			return fmt.Errorf("change PVC %s: no such PVC, or another version", c.Claim.Name)
		}
		created++
		s.Claims[i] = c.Claim.DeepCopy()
		s.Claims[i].ResourceVersion = fmt.Sprint(created)
		return nil
	}
	for _, c := range p.ChangeClaims {
		if err := change(c); err != nil {
			return err
		}
	}
	for _, d := range p.DeleteClaims {
		i := slices.IndexFunc(s.Claims, func(o *corev1.PersistentVolumeClaim) bool { return o.Name == d.Name && o.UID == d.UID })
		if i < 0 || s.Claims[i].DeletionTimestamp != nil {
			return fmt.Errorf("delete PVC %s: no such PVC", d.Name)
		}
		s.Claims[i] = s.Claims[i].DeepCopy()
		s.Claims[i].DeletionTimestamp = ptr.To(metav1.NewTime(s.Now))
	}
	for _, c := range p.CreateClaims {
		if err := createClaim(s, c); err != nil {
			return err
		}
	}
	for _, c := range p.GrowClaims {
		if err := change(c); err != nil {
			return err
		}
	}
	return nil
}

func createClaim(s *State, c *corev1.PersistentVolumeClaim) error {
	i, exists := slices.BinarySearchFunc(s.Claims, c.Name, func(o *corev1.PersistentVolumeClaim, name string) int { return cmp.Compare(o.Name, name) })
	if exists {
		return fmt.Errorf("create PVC %s: already exists", c.Name)
	}
	created++
	c = c.DeepCopy()
	c.UID, c.ResourceVersion = types.UID(fmt.Sprintf("u%d", created)), fmt.Sprint(created)
	s.Claims = slices.Insert(slices.Clone(s.Claims), i, c)
	return nil
}

// stepClaims acts for others: the garbage collector, storage drivers, and with faults
// people who delete PVCs.
func (w *world) stepClaims() {
	var claims []*corev1.PersistentVolumeClaim
	for _, old := range w.Claims {
		c := old.DeepCopy()
		_, ordinal, _ := parseClaim(w.Pod2, c.Name)
		used := slices.ContainsFunc(w.Pods, func(pod *corev1.Pod) bool { return pod.Name == fmt.Sprintf("web-%d", ordinal) })
		gone := c.DeletionTimestamp != nil && !used || len(c.OwnerReferences) > 0 && c.OwnerReferences[0].UID == "u-earlier"
		switch {
		case gone && chance.One(w.dice, 2):
			continue
		case w.faults && chance.One(w.dice, 10):
			c.DeletionTimestamp = ptr.To(metav1.NewTime(w.Now))
		case chance.One(w.dice, 2):
			c.Status.Phase, c.Status.Capacity = corev1.ClaimBound, c.Spec.Resources.Requests
		}
		claims = append(claims, c)
	}
	w.Claims = claims
	if w.faults && chance.One(w.dice, 4) {
		s := &w.Pod2.Spec
		if s.PersistentVolumeClaimRetentionPolicy != nil {
			s.PersistentVolumeClaimRetentionPolicy.WhenScaled = chance.Pick(w.dice, v1.RetainClaim, v1.DeleteClaim)
			s.PersistentVolumeClaimRetentionPolicy.WhenDeleted = chance.Pick(w.dice, v1.RetainClaim, v1.DeleteClaim)
		}
		if len(s.VolumeClaimTemplates) > 0 {
			s.VolumeClaimTemplates[0].Spec.Resources.Requests = gi(1 + w.dice.IntN(3))
		}
	}
}

// brokenClaimPromise returns which promise about PVCs a plan breaks, "" for none.
func brokenClaimPromise(s State, p Plan) string {
	claims, pods := map[string]*corev1.PersistentVolumeClaim{}, map[string]bool{}
	for _, c := range s.Claims {
		claims[c.Name] = c
	}
	for _, pod := range s.Pods {
		pods[pod.Name] = true
	}
	foreign := func(c *corev1.PersistentVolumeClaim) bool {
		label := c.Labels[v1.Pod2Label]
		return label != "" && label != "web" || slices.ContainsFunc(c.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == "Database" || r.UID == "u-earlier" })
	}
	for _, c := range slices.Concat(p.ChangeClaims, p.GrowClaims) {
		is := claims[c.Claim.Name]
		if is == nil || is.UID != c.Claim.UID || is.DeletionTimestamp != nil || foreign(is) {
			return fmt.Sprintf("claim %s is changed", c.Claim.Name)
		}
	}
	for _, c := range p.GrowClaims {
		is := claims[c.Claim.Name]
		if is.Status.Phase != corev1.ClaimBound || ptr.Deref(is.Spec.StorageClassName, "") != "fast" || c.Claim.Spec.Resources.Requests.Storage().Cmp(*is.Spec.Resources.Requests.Storage()) <= 0 {
			return fmt.Sprintf("claim %s grows", is.Name)
		}
	}
	retain := s.Pod2.Spec.PersistentVolumeClaimRetentionPolicy == nil || s.Pod2.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled != v1.DeleteClaim
	for _, d := range p.DeleteClaims {
		is, name := claims[d.Name], d.Name[strings.IndexByte(d.Name, '-')+1:]
		switch {
		case d.Pod != name:
			return fmt.Sprintf("PVC %s is deleted if pod %s does not exist", d.Name, d.Pod)
		case is == nil || is.UID != d.UID || foreign(is) || is.Labels[v1.Pod2Label] != "web":
			return fmt.Sprintf("claim %s is deleted", d.Name)
		case pods[name]:
			return fmt.Sprintf("PVC %s is deleted although its pod exists", d.Name)
		case retain && is.Annotations[v1.SurgeClaimAnnotation] != "true":
			return fmt.Sprintf("PVC %s is deleted against the policy", d.Name)
		}
		for i := range 100 {
			if ordinal := Ordinals(s.Pod2).At(i); i < int(*s.Pod2.Spec.Replicas) && fmt.Sprintf("web-%d", ordinal) == name {
				return fmt.Sprintf("PVC %s of a replica is deleted", d.Name)
			}
		}
	}
	for _, c := range p.Create {
		for _, t := range s.Pod2.Spec.VolumeClaimTemplates {
			name := t.Name + "-" + c.Name
			is, made := claims[name], slices.ContainsFunc(c.Claims(), func(o *corev1.PersistentVolumeClaim) bool { return o.Name == name })
			switch {
			case is == nil && !made, is != nil && made:
				return fmt.Sprintf("pod %s is created, claim %s exists: %t, created: %t", c.Name, name, is != nil, made)
			case is != nil && (foreign(is) || is.DeletionTimestamp != nil):
				return fmt.Sprintf("pod %s is created on PVC %s", c.Name, name)
			case !slices.ContainsFunc(c.Pod().Spec.Volumes, func(v corev1.Volume) bool {
				return v.Name == t.Name && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == name
			}):
				return fmt.Sprintf("pod %s does not mount PVC %s", c.Name, name)
			}
		}
	}
	return ""
}

func describeClaims(s State) string {
	var b strings.Builder
	if r := s.Pod2.Spec.PersistentVolumeClaimRetentionPolicy; r != nil {
		fmt.Fprintf(&b, "  whenDeleted %s whenScaled %s\n", r.WhenDeleted, r.WhenScaled)
	}
	for _, c := range s.Claims {
		fmt.Fprintf(&b, "  claim %s %v surge %s terminating %t %s of %s owners %v\n", c.Name, c.Labels, c.Annotations[v1.SurgeClaimAnnotation],
			c.DeletionTimestamp != nil, c.Spec.Resources.Requests.Storage(), ptr.Deref(c.Spec.StorageClassName, "-"), c.OwnerReferences)
	}
	return b.String()
}
