package sim

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
)

// call is a request, read.
type call struct {
	process                    string
	method, path               string
	query                      url.Values
	contentType                string
	body                       []byte
	resource                   *resource // nil: one for discovery
	namespace, name, sub, what string    // what is "GET pods/web-0" for people
}

func (c *call) writes() bool { return c.method != http.MethodGet }

// counts says whether the call is one of the writes that a test counts.
func (c *call) counts() bool { return c.writes() && c.resource != nil && !apart[c.resource.Resource] }

// kind is the kind of request: "PUT pods/status".
func (c *call) kind() string {
	verb := c.method
	switch {
	case c.query.Get("watch") != "":
		verb = "WATCH"
	case verb == http.MethodGet && c.name == "":
		verb = "LIST"
	}
	return kindOf(verb, c.resource, c.sub)
}

func kindOf(verb string, r *resource, sub string) string {
	return strings.TrimSuffix(verb+" "+r.Resource+"/"+sub, "/")
}

func readCall(process string, r *http.Request) (*call, error) {
	c := &call{process: process, method: r.Method, path: r.URL.Path, query: r.URL.Query(), contentType: r.Header.Get("Content-Type")}
	if r.Body != nil {
		var err error
		if c.body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
	}
	parts := strings.Split(strings.Trim(c.path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		c.what = c.method + " " + c.path
		return c, nil
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		c.namespace, parts = parts[1], parts[2:]
	}
	for _, known := range resources {
		if known.Resource == parts[0] {
			c.resource = known
		}
	}
	if c.resource == nil {
		return nil, fmt.Errorf("sim: nothing is known of %s", c.path)
	}
	parts = append(parts, "", "")
	c.name, c.sub = parts[1], parts[2]
	verb := c.method
	if c.method == http.MethodGet && c.query.Get("watch") != "" {
		verb = "WATCH"
	}
	c.what = strings.TrimRight(verb+" "+strings.Join(parts[:3], "/"), "/")
	if c.method == http.MethodPost {
		if obj, err := c.decode(); err == nil {
			c.what += "/" + obj.GetName()
		}
	}
	return c, nil
}

func (c *call) decode() (Object, error) {
	obj, _, err := decoder.Decode(c.body, ptrTo(c.resource.gvk()), c.resource.new())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	typed, ok := obj.(Object)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%T is no object", obj))
	}
	return typed, nil
}

func ptrTo[T any](v T) *T { return &v }

// handle executes a call.
func (s *Server) handle(c *call) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.resource == nil {
		return s.discover(c)
	}
	if s.processes[c.process] != nil {
		s.asked[c.kind()] = true
	}
	if s.unserved[c.resource.Resource] {
		return failure(apierrors.NewGenericServerResponse(http.StatusNotFound, c.method, c.resource.GroupResource(), "", "404 page not found", 0, true))
	}
	if c.method == http.MethodGet {
		if c.query.Get("watch") != "" {
			return s.watch(c)
		}
		if c.name == "" {
			return s.answerList(c)
		}
	}
	code := http.StatusOK
	obj, err := s.execute(c)
	if c.counts() {
		result := "ok"
		if err != nil {
			result = string(apierrors.ReasonForError(err))
		}
		s.note("%s: %s -> %s", c.process, c.what, result)
	}
	if err != nil {
		return failure(err)
	}
	if c.method == http.MethodPost {
		code = http.StatusCreated
	}
	text, err := json.Marshal(obj)
	if err != nil {
		return failure(err)
	}
	return answer(code, text)
}

func (s *Server) execute(c *call) (Object, error) {
	r := c.resource
	old := s.get(r, c.namespace, c.name)
	request := Request{Process: c.process, Verb: c.method, Resource: r.Resource, Subresource: c.sub, Name: c.name, Target: old}
	missing := func() error {
		if old != nil {
			return nil
		}
		return apierrors.NewNotFound(r.GroupResource(), c.name)
	}
	look := func() {
		if c.counts() {
			for _, m := range s.monitors {
				s.fault(m.Request(s, request))
			}
		}
	}
	switch c.method {
	case http.MethodGet:
		return old, missing()
	case http.MethodPost, http.MethodPut:
		body, err := c.decode()
		if err != nil {
			return nil, err
		}
		request.Object, request.UID, request.Version = body, string(body.GetUID()), body.GetResourceVersion()
		if c.method == http.MethodPost {
			request.Name = body.GetName()
			look()
			return s.create(c.process, r, c.namespace, body)
		}
		look()
		if err := missing(); err != nil {
			return nil, err
		}
		return s.update(c.process, r, c.sub, old, body, true)
	case http.MethodPatch:
		var body metav1.PartialObjectMetadata
		if err := json.Unmarshal(c.body, &body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		request.UID, request.Version = string(body.UID), body.ResourceVersion
		look()
		if err := missing(); err != nil {
			return nil, err
		}
		next, err := patched(c.contentType, r, s.objects[key{r.Resource, c.namespace, c.name}].json(), c.body)
		if err != nil {
			return nil, err
		}
		return s.update(c.process, r, c.sub, old, next, false)
	case http.MethodDelete:
		var options metav1.DeleteOptions
		if len(c.body) > 0 {
			if _, _, err := decoder.Decode(c.body, ptrTo(core.WithKind("DeleteOptions")), &options); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
		}
		if p := options.Preconditions; p != nil {
			if p.UID != nil {
				request.UID = string(*p.UID)
			}
			if p.ResourceVersion != nil {
				request.Version = *p.ResourceVersion
			}
		}
		look()
		if err := missing(); err != nil {
			return nil, err
		}
		return s.delete(c.process, r, old, options)
	}
	return nil, apierrors.NewMethodNotSupported(r.GroupResource(), c.method)
}

// Config is that of somebody whose requests are executed at once, as those of users
// in a test are.
func (s *Server) Config(who string) *rest.Config {
	return config(roundTripper(func(r *http.Request) (*http.Response, error) {
		c, err := readCall(who, r)
		if err != nil {
			return nil, err
		}
		response, _ := s.serve(c)
		if response == nil {
			return nil, errLost
		}
		if body, ok := response.Body.(*stream); ok {
			context.AfterFunc(r.Context(), func() { body.end(r.Context().Err()) })
		}
		return response, nil
	}))
}

func config(transport http.RoundTripper) *rest.Config {
	return &rest.Config{Host: "http://sim", Transport: transport, QPS: -1}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
