package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a page that does not read until it may.
type slow struct {
	may  chan struct{}
	mu   sync.Mutex
	text strings.Builder
}

func (*slow) Header() http.Header { return http.Header{} }
func (*slow) WriteHeader(int)     {}
func (*slow) Flush()              {}

func (s *slow) Write(p []byte) (int, error) {
	<-s.may
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// A page that does not read keeps no queue in the server: it gets the latest values.
func TestSlowPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, page := NewStore(), &slow{may: make(chan struct{})}
		store.Replace(nil, records("a=0", "b=0"))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			sendChanges(page, httptest.NewRequestWithContext(ctx, http.MethodGet, "/changes", nil), store)
		}()
		for i := range 1000 {
			time.Sleep(time.Second)
			store.Replace(nil, records(fmt.Sprint("a=", i)))
		}
		close(page.may)
		time.Sleep(time.Minute)
		stop()
		<-ended
		want := "event: whole\ndata: {\"a\":\"0\",\"b\":\"0\"}\n\nevent: changes\ndata: {\"a\":\"999\"}\n\n"
		if got := page.text.String(); got != want {
			t.Errorf("the page gets\n%s\nwant\n%s", got, want)
		}
	})
}
