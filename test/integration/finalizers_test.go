//go:build integration

package integration

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd/api"
)

// The controller sets blockOwnerDeletion in owner references. If the admission plugin
// OwnerReferencesPermissionEnforcement is on, as here, the controller needs the rules of
// its role for */finalizers. Without one of these rules, the plugin refuses some of its
// objects. With all rules, the controller creates all objects.
func TestRoleNeedsItsFinalizersRules(t *testing.T) {
	t.Parallel()
	install(t)
	waitOwnersKnown(t)
	ns := newNamespace(t)
	role, finalizers := controllersRole(t)
	name := "without-finalizers-" + ns
	without := bindRole(t, name, slices.DeleteFunc(slices.Clone(role.Rules), finalizes))
	c := startController(t, ns, "--kubeconfig", asAuthInfo(t, func(user *api.AuthInfo) { user.Impersonate = name }))
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+gatedPod("p", "blue")+pod2("web", "replicas: 1")+cronTab("v1", "ct", `cronSpec: "@yearly"`))
	refused := map[string]string{
		"networks/finalizers": "addressblocks.samplecrd.k8s.io",
		"pod2s/finalizers":    "controllerrevisions.apps",
		"crontabs/finalizers": "cronjobs.batch",
	}
	for _, rule := range finalizers {
		if refused[rule] == "" {
			t.Fatalf("this test does not know which objects need the rule %s", rule)
		}
		refusal := regexp.MustCompile(regexp.QuoteMeta(refused[rule]) + ` \S+ is forbidden: cannot set blockOwnerDeletion`)
		eventually(t, "without "+rule+" the API server refuses "+refused[rule], func(context.Context) (string, error) {
			if log := c.log.String(); !refusal.MatchString(log) {
				return "the log is\n" + tail(log, 5), nil
			}
			return "", nil
		})
	}
	without.Rules = role.Rules
	if _, err := kube.RbacV1().ClusterRoles().Update(t.Context(), without, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitReady(t, ns, "pod/p", "pod2/web", "ct/ct")
}

func finalizes(rule rbacv1.PolicyRule) bool {
	return slices.ContainsFunc(rule.Resources, func(r string) bool { return strings.HasSuffix(r, "/finalizers") })
}

// controllersRole returns the installed ClusterRole, split into one rule for each resource,
// and its finalizers resources.
func controllersRole(t *testing.T) (role *rbacv1.ClusterRole, finalizers []string) {
	t.Helper()
	role, err := kube.RbacV1().ClusterRoles().Get(t.Context(), "pod2-controller", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var rules []rbacv1.PolicyRule
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			one := *rule.DeepCopy()
			one.Resources = []string{resource}
			if rules = append(rules, one); finalizes(one) {
				finalizers = append(finalizers, resource)
			}
		}
	}
	if role.Rules = rules; len(finalizers) == 0 {
		t.Fatalf("the role has no rule for finalizers: %v", rules)
	}
	return role, finalizers
}

// bindRole grants the rules to a user with this name in the whole cluster.
func bindRole(t *testing.T, name string, rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	t.Helper()
	t.Cleanup(func() { run(t, "", "delete", "clusterrole/"+name, "clusterrolebinding/"+name) })
	role, err := kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return role
}

// waitOwnersKnown waits until the plugin knows the kinds of the owners. It reads CRDs every
// 30 s. Before that, it refuses users who may not set the finalizers of all kinds.
func waitOwnersKnown(t *testing.T) {
	t.Helper()
	controller := knownUser(t, "pod2-system", "system:serviceaccount:pod2-system:pod2-controller")
	for _, owner := range []string{"samplecrd.k8s.io/v1, kind: Network", "samplecrd.k8s.io/v1, kind: Pod2", "stable.example.com/v1, kind: CronTab"} {
		owned := fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: probe, ownerReferences: [{apiVersion: %s, name: probe, uid: x, blockOwnerDeletion: true}]}, spec: {ports: [{port: 80}]}}", owner)
		eventually(t, "the owner "+owner+" is known", func(context.Context) (string, error) {
			return controller.create(t, owned), nil
		})
	}
}
