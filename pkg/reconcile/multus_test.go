package reconcile

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network/multus"
)

func newDefinition(name string) *nadv1.NetworkAttachmentDefinition {
	return &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: name, UID: "uid-of-definition", Labels: map[string]string{v1.NetworkLabel: name},
	}}
}

func newVNI(name string, network types.UID) *v1.VNI {
	return &v1.VNI{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)},
		Spec:       v1.VNISpec{Network: v1.NetworkReference{Namespace: ns, Name: "blue", UID: network}},
	}
}

// syncText renders the calls of a sync and its error.
func (w *world) syncText(kind, name string) string {
	calls, err := w.sync(kind, name)
	if err != nil {
		calls += "\n" + err.Error()
	}
	return calls
}

// blueVNI is the first number that a Network with the UID of newNetwork("blue told") tries.
func blueVNI() string { return multus.Name(multus.Numbers(newNetwork("blue told").UID, 1)[0]) }

func TestANewNetworkGetsANumberAndADefinition(t *testing.T) {
	w := newWorld(t, newNetwork("blue told"))
	same(t, w.syncText(KindMultus, "blue"), strings.Join([]string{
		"create vnis " + blueVNI(), "get networks blue", "create network-attachment-definitions blue", "wakes Network blue",
	}, "\n"))
}

// The cache of VNIs does not show yet that another Network took the number.
func TestANumberThatIsTakenIsNotTold(t *testing.T) {
	w := newWorld(t, newNetwork("blue told"))
	w.add(newVNI(blueVNI(), "of-another"))
	same(t, w.syncText(KindMultus, "blue"), "create vnis "+blueVNI()+" -> AlreadyExists\ncreate VNI "+blueVNI()+` (claimed for Multus default/blue): the view is out of date: vnis.samplecrd.k8s.io "`+blueVNI()+`" already exists`)
}

// The cache of Networks does not show the Network yet, or shows an old version.
func TestAVNIIsReleasedOnTheWordOfALiveReadAlone(t *testing.T) {
	w := newWorld(t, newVNI("70000", newNetwork("blue told").UID))
	w.add(newNetwork("blue told"))
	same(t, w.syncText(KindMultus, "blue"), "get networks blue\nrelease VNI 70000 (the Network is gone): the Network still exists: the view is out of date")
}

func TestAVNIOfANetworkThatIsGoneIsReleased(t *testing.T) {
	w := newWorld(t, newVNI("70000", "gone"))
	same(t, w.syncText(KindMultus, "blue"), "get networks blue -> NotFound\ndelete vnis 70000 uid=uid-of-70000 rv=101")
}

func TestWhoRefusesTheDefinitionIsTold(t *testing.T) {
	w := newWorld(t, newNetwork("blue told"))
	w.refuse = refusing("create network-attachment-definitions", quota)
	same(t, w.syncText(KindMultus, "blue"), strings.Join([]string{
		"create vnis " + blueVNI(), "get networks blue", "create network-attachment-definitions blue -> Forbidden", "wakes Network blue",
		"event on blue: Warning FailedWrite: exceeded quota", "create NetworkAttachmentDefinition default/blue: exceeded quota",
	}, "\n"))
}

// If the cache shows a definition of another owner, the condition reports it and no write
// is tried.
func TestAForeignDefinitionIsNeverWritten(t *testing.T) {
	theirs := newDefinition("blue")
	theirs.Labels = nil
	w := newWorld(t, newNetwork("blue told"), newVNI(blueVNI(), newNetwork("blue").UID), theirs)
	same(t, w.syncText(KindMultus, "blue"), "wakes Network blue\n"+
		"event on blue: Warning NameTaken: NetworkAttachmentDefinition blue exists but does not belong to this Network: delete it, or create a Network with another name")
	w.catchUp()
	w.clock.SetTime(now.Add(time.Hour))
	same(t, w.syncText(KindMultus, "blue"), "")
}

// The first list of definitions has no answer yet, so it is unknown whether there are any.
func TestNothingIsToldBeforeDefinitionsAreListed(t *testing.T) {
	w := newWorld(t, newNetwork("blue told"))
	w.r.kinds.multus.definitionKind.synced = func() bool { return false }
	same(t, w.syncText(KindMultus, "blue"), "")
	w.r.kinds.multus.definitionKind.tried = true // the list failed
	same(t, w.syncText(KindMultus, "blue"), "create vnis "+blueVNI()+"\nwakes Network blue")
}

// The cache does not show the definition yet. A taken name causes no separate live read.
func TestADefinitionThatTheCacheLacksIsAStaleView(t *testing.T) {
	theirs := newDefinition("blue")
	theirs.Labels = nil
	w := newWorld(t, newNetwork("blue told"), newVNI(blueVNI(), newNetwork("blue").UID))
	w.add(theirs)
	same(t, w.syncText(KindMultus, "blue"), "get networks blue\ncreate network-attachment-definitions blue -> AlreadyExists\n"+
		`create NetworkAttachmentDefinition default/blue: the view is out of date: network-attachment-definitions.k8s.cni.cncf.io "blue" already exists`)
}
