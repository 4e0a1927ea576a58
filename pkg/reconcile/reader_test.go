package reconcile

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestObjectsOfANamespace(t *testing.T) {
	for name, indexers := range map[string]cache.Indexers{
		"with the index":    {cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		"without the index": {},
	} {
		indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)
		for _, o := range []metav1.ObjectMeta{{Namespace: "a", Name: "2"}, {Namespace: "b", Name: "1"}, {Namespace: "a", Name: "1"}} {
			if err := indexer.Add(&corev1.Pod{ObjectMeta: o}); err != nil {
				t.Fatal(err)
			}
		}
		got := ""
		for _, pod := range (reader[*corev1.Pod]{indexer}).in("a") {
			got += pod.Namespace + "/" + pod.Name + " "
		}
		if want := "a/1 a/2 "; got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
