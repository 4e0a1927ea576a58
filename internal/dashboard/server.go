package dashboard

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pod2/pod2/pkg/reconcile"
)

//go:embed web
var web embed.FS

// changesEvery is how long a page waits for more changes before it gets some.
const changesEvery = 100 * time.Millisecond

// Revision is a revision of a Pod2.
type Revision struct {
	Number int64  `json:"number"`
	Name   string `json:"name"`
	Role   string `json:"role"`
	Cause  string `json:"cause,omitempty"`
	// Created in seconds since 1970.
	Created int64 `json:"created"`
	// Changes since the previous revision, as a unified diff.
	Changes string `json:"changes"`
}

// Options of a dashboard.
type Options struct {
	Clients reconcile.Clients
	// Namespace to show; empty for all.
	Namespace string
	// Context of the kubeconfig, for the command that the page offers to copy.
	Context string
	// Address to listen on: a loopback address. Port 0 chooses a free one.
	Address string
	Now     func() time.Time
	// Plan returns the next step of the controller for a Pod2, in words.
	Plan func(ctx context.Context, namespace, name string) (string, error)
	// History returns the revisions of a Pod2, the oldest first.
	History func(ctx context.Context, namespace, name string) ([]Revision, error)
}

// Run serves the page until ctx ends. It calls ready with the URL.
func Run(ctx context.Context, o Options, ready func(url string)) error {
	l, err := listen(o.Address)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	store := NewStore()
	for _, s := range sources(o.Clients, o.Namespace) {
		go newFeed(s, store, o.Now).run(ctx)
	}
	handler, err := newHandler(o, store)
	if err != nil {
		return err
	}
	host := l.Addr().String()
	guarded := newGuard(host, handler)
	server := &http.Server{Handler: guarded, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	ready("http://" + host + "/open/" + guarded.token)
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the dashboard: %w", err)
	}
	return nil
}

func newHandler(o Options, store *Store) (http.Handler, error) {
	files, err := fs.Sub(web, "web")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(files))
	mux.HandleFunc("/changes", func(w http.ResponseWriter, r *http.Request) { sendChanges(w, r, store) })
	mux.HandleFunc("/settings", func(w http.ResponseWriter, _ *http.Request) {
		send(w, map[string]string{"namespace": o.Namespace, "context": o.Context}, nil)
	})
	mux.HandleFunc("/plan", func(w http.ResponseWriter, r *http.Request) {
		text, err := o.Plan(r.Context(), r.FormValue("namespace"), r.FormValue("name"))
		send(w, text, err)
	})
	mux.HandleFunc("/history", func(w http.ResponseWriter, r *http.Request) {
		list, err := o.History(r.Context(), r.FormValue("namespace"), r.FormValue("name"))
		send(w, list, err)
	})
	return mux, nil
}

// send JSON, or the text of an error.
func send(w http.ResponseWriter, value any, err error) {
	if err != nil {
		code := http.StatusBadGateway
		if apierrors.IsForbidden(err) {
			code = http.StatusForbidden
		}
		http.Error(w, err.Error(), code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the page is gone if this fails
}

// sendChanges as server-sent events, until the page is closed. A page that reads slowly makes the write wait, and then
// gets the latest values only.
func sendChanges(w http.ResponseWriter, r *http.Request, store *Store) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	number := uint64(0)
	for {
		changes, more := store.Since(number)
		text, err := json.Marshal(changes.Values)
		if err != nil {
			return
		}
		kind := "changes"
		if changes.Whole {
			kind = "whole"
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, text); err != nil || control.Flush() != nil {
			return
		}
		number = changes.Number
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
		select {
		case <-time.After(changesEvery):
		case <-r.Context().Done():
			return
		}
	}
}
