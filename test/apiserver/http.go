package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// Call is a parsed request.
type Call struct {
	Process, Method, Path string
	Body                  []byte
	Resource              *Resource // nil for discovery
	Namespace, Name, Sub  string
	What                  string // "GET pods/web-0", for readers
	Query                 url.Values
	contentType           string
}

func (c *Call) writes() bool { return c.Method != http.MethodGet }

// Counts says whether the call is a write that a test counts.
func (c *Call) Counts() bool { return c.writes() && c.Resource != nil && !Apart[c.Resource.Resource] }

// Kind is the kind of the request: "PUT pods/status".
func (c *Call) Kind() string {
	verb := c.Method
	switch {
	case c.Query.Get("watch") != "":
		verb = "WATCH"
	case verb == http.MethodGet && c.Name == "":
		verb = "LIST"
	}
	return kindOf(verb, c.Resource, c.Sub)
}

func kindOf(verb string, r *Resource, sub string) string {
	return strings.TrimSuffix(verb+" "+r.Resource+"/"+sub, "/")
}

// ReadCall parses a request of a process.
func ReadCall(process string, r *http.Request) (*Call, error) {
	c := &Call{Process: process, Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), contentType: r.Header.Get("Content-Type")}
	if r.Body != nil {
		var err error
		if c.Body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
	}
	parts := strings.Split(strings.Trim(c.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		c.What = c.Method + " " + c.Path
		return c, nil
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		c.Namespace, parts = parts[1], parts[2:]
	}
	for _, known := range Resources {
		if known.Resource == parts[0] {
			c.Resource = known
		}
	}
	if c.Resource == nil {
		return nil, fmt.Errorf("apiserver: unknown path %s", c.Path)
	}
	parts = append(parts, "", "")
	c.Name, c.Sub = parts[1], parts[2]
	verb := c.Method
	if c.Method == http.MethodGet && c.Query.Get("watch") != "" {
		verb = "WATCH"
	}
	c.What = strings.TrimRight(verb+" "+strings.Join(parts[:3], "/"), "/")
	if c.Method == http.MethodPost {
		if obj, err := c.Decode(); err == nil {
			c.What += "/" + obj.GetName()
		}
	}
	return c, nil
}

// Decode returns the object in the body.
func (c *Call) Decode() (Object, error) {
	obj, _, err := Decoder.Decode(c.Body, ptrTo(c.Resource.GVK()), c.Resource.new())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	typed, ok := obj.(Object)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%T is not an object", obj))
	}
	return typed, nil
}

// DeleteOptions returns the options of a deletion.
func (c *Call) DeleteOptions() (options metav1.DeleteOptions, err error) {
	if len(c.Body) > 0 {
		if _, _, err := Decoder.Decode(c.Body, ptrTo(core.WithKind("DeleteOptions")), &options); err != nil {
			return options, apierrors.NewBadRequest(err.Error())
		}
	}
	return options, nil
}

// Preconditions returns the UID and the resourceVersion that a patch or a deletion names.
func (c *Call) Preconditions() (uid, version string, err error) {
	if c.Method == http.MethodDelete {
		options, err := c.DeleteOptions()
		if p := options.Preconditions; p != nil {
			uid, version = string(ptr.Deref(p.UID, "")), ptr.Deref(p.ResourceVersion, "")
		}
		return uid, version, err
	}
	meta, err := PatchMetadata(c.Body)
	if err != nil {
		return "", "", apierrors.NewBadRequest(err.Error())
	}
	return string(meta.UID), meta.ResourceVersion, nil
}

func ptrTo[T any](v T) *T { return &v }

// handle executes a call.
func (s *Server) handle(c *Call) *http.Response {
	s.Lock()
	defer s.Unlock()
	if c.Resource == nil {
		return s.discover(c)
	}
	if s.unserved[c.Resource.Resource] {
		return failure(apierrors.NewGenericServerResponse(http.StatusNotFound, c.Method, c.Resource.GroupResource(), "", "404 page not found", 0, true))
	}
	if c.Method == http.MethodGet {
		if c.Query.Get("watch") != "" {
			return s.watch(c)
		}
		if c.Name == "" {
			return s.answerList(c)
		}
	}
	code := http.StatusOK
	obj, err := s.execute(c)
	if c.Counts() {
		result := "ok"
		if err != nil {
			result = string(apierrors.ReasonForError(err))
		}
		s.Note("%s: %s -> %s", c.Process, c.What, result)
	}
	if err != nil {
		return failure(err)
	}
	if c.Method == http.MethodPost {
		code = http.StatusCreated
	}
	text, err := json.Marshal(obj)
	if err != nil {
		return failure(err)
	}
	return answer(code, text)
}

func (s *Server) execute(c *Call) (Object, error) {
	r := c.Resource
	old := s.Get(r, c.Namespace, c.Name)
	request := Request{Process: c.Process, Verb: c.Method, Resource: r.Resource, Subresource: c.Sub, Name: c.Name, Target: old}
	missing := func() error {
		if old != nil {
			return nil
		}
		return apierrors.NewNotFound(r.GroupResource(), c.Name)
	}
	look := func() {
		if c.Counts() && s.OnWrite != nil {
			s.OnWrite(request)
		}
	}
	switch c.Method {
	case http.MethodGet:
		return old, missing()
	case http.MethodPost, http.MethodPut:
		body, err := c.Decode()
		if err != nil {
			return nil, err
		}
		request.Object, request.UID, request.Version = body, string(body.GetUID()), body.GetResourceVersion()
		if c.Method == http.MethodPost {
			request.Name = body.GetName()
			look()
			if c.Query.Get("dryRun") != "" {
				return s.DryRun(c.Process, r, c.Namespace, body)
			}
			return s.Create(c.Process, r, c.Namespace, body)
		}
		look()
		if err := missing(); err != nil {
			return nil, err
		}
		return s.Update(c.Process, r, c.Sub, old, body, true)
	case http.MethodPatch:
		var err error
		if request.UID, request.Version, err = c.Preconditions(); err != nil {
			return nil, err
		}
		look()
		if err := missing(); err != nil {
			return nil, err
		}
		next, err := Patched(c.contentType, r, s.objects[Key{r.Resource, c.Namespace, c.Name}].JSON(), c.Body)
		if err != nil {
			return nil, err
		}
		return s.Update(c.Process, r, c.Sub, old, next, false)
	case http.MethodDelete:
		options, err := c.DeleteOptions()
		if err != nil {
			return nil, err
		}
		request.UID, request.Version, _ = c.Preconditions()
		look()
		if err := missing(); err != nil {
			return nil, err
		}
		return s.Delete(c.Process, r, old, options)
	}
	return nil, apierrors.NewMethodNotSupported(r.GroupResource(), c.Method)
}

// Config returns a client configuration whose requests are executed at once, like those of
// a test's users.
func (s *Server) Config(who string) *rest.Config {
	return Config(roundTripper(func(r *http.Request) (*http.Response, error) {
		c, err := ReadCall(who, r)
		if err != nil {
			return nil, err
		}
		response, _, err := s.Answer(c)
		if err != nil {
			return nil, err
		}
		if body, ok := response.Body.(*stream); ok {
			context.AfterFunc(r.Context(), func() { body.end(r.Context().Err()) })
		}
		return response, nil
	}))
}

// Config returns a client configuration with this transport.
func Config(transport http.RoundTripper) *rest.Config {
	return &rest.Config{Host: "http://apiserver", Transport: transport, QPS: -1}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
