//go:build integration

package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A user who may read only the objects of one namespace can plan. The user may not read
// StorageClasses, StatefulSets or quotas. It may create pods, which the policy on creators asks of
// it.
func TestPluginPlansWithFewRights(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newUser(t, ns, "planner", "samplecrd.k8s.io", "pod2s", "get create patch", "samplecrd.k8s.io", "networks", "get", "samplecrd.k8s.io", "addressblocks", "list",
		"", "pods", "list create", "", "services persistentvolumeclaims", "list", "apps", "controllerrevisions", "list", "discovery.k8s.io", "endpointslices", "list")
	create(t, ns, network("blue", `{cidr: 10.0.0.0/28}`))
	file := filepath.Join(t.TempDir(), "web.yaml")
	manifest := pod2("web", `networks: [{name: blue}], volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]`)
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	const forbidden = ` is forbidden: User "planner" cannot `
	want := `assumed that StorageClasses allow expansion: storageclasses.storage.k8s.io` + forbidden + `list resource "storageclasses" in API group "storage.k8s.io" at the cluster scope
Pod2 NS/web would be created. The first step of the controller would be:
  create revision 1 web-HASHHASHHA
  create PVC data-web-0
  create web-0 on blue: missing
  status ready
      Ready=False/PodsNotReady(web-0 does not exist yet)
      Available=False/MinimumReplicasUnavailable(0 replicas are available (at least 1 required); web-0 does not exist yet)
      Progressing=True/Progressing(web-0 does not exist yet)
      ClaimsResized=True/ClaimsResized(no PersistentVolumeClaim is smaller than its template)
  again in AGE
  create Service web-blue
The first pod, in a server dry run with your rights and not the controller's:
  web-0 would be created
  you may not list quotas: they may have no room for the other replicas
Addresses of the replicas:
  1 replica gets any free address on blue
`
	got, err := plugin(t, ns, "plan", "-f", file, "--as=planner")
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 || got != want {
		t.Errorf("kubectl pod2 plan: %v\n%s\nwant\n%s", err, got, want)
	}
}
