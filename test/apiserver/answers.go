package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// answerList answers with the requested page. The continue token is the number of objects
// in the earlier pages.
func (s *Server) answerList(c *Call) *http.Response {
	matches, err := c.selector()
	if err != nil {
		return failure(err)
	}
	var items []json.RawMessage
	for _, v := range s.All(c.Resource, c.Namespace) {
		if matches(v.Object) {
			items = append(items, v.JSON())
		}
	}
	meta := map[string]any{"resourceVersion": strconv.Itoa(s.version)}
	first, _ := strconv.Atoi(c.Query.Get("continue"))
	items = items[min(first, len(items)):]
	limit, _ := strconv.Atoi(c.Query.Get("limit"))
	if s.PageSize > 0 && (limit == 0 || limit > s.PageSize) {
		limit = s.PageSize
	}
	if limit > 0 && limit < len(items) {
		meta["continue"], meta["remainingItemCount"] = strconv.Itoa(first+limit), len(items)-limit
		items = items[:limit]
	}
	if items == nil {
		items = []json.RawMessage{}
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": c.Resource.GroupVersion().String(), "kind": c.Resource.Kind + "List", "metadata": meta, "items": items,
	})
	if err != nil {
		return failure(err)
	}
	return answer(http.StatusOK, text)
}

// selector returns the selector of a list or a watch.
func (c *Call) selector() (func(Object) bool, error) {
	byLabel, err := labels.Parse(c.Query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(c.Query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(obj Object) bool {
		return byLabel.Matches(labels.Set(obj.GetLabels())) &&
			byField.Matches(fields.Set{"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace()})
	}, nil
}

// discover answers with the resources of a group and version.
func (s *Server) discover(c *Call) *http.Response {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, r := range Resources {
		if strings.HasSuffix(c.Path, "/"+r.GroupVersion().String()) && !s.unserved[r.Resource] {
			list.GroupVersion = r.GroupVersion().String()
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: r.Resource, Kind: r.Kind, Namespaced: true})
		}
	}
	if list.GroupVersion == "" {
		return failure(apierrors.NewNotFound(Resources[0].GroupResource(), c.Path))
	}
	text, err := json.Marshal(list)
	if err != nil {
		return failure(err)
	}
	return answer(http.StatusOK, text)
}

func failure(err error) *http.Response {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	text, _ := json.Marshal(s)
	response := answer(int(s.Code), text)
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		response.Header.Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	}
	return response
}

func answer(code int, text []byte) *http.Response {
	return respond(code, io.NopCloser(bytes.NewReader(text)))
}

func respond(code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: body,
	}
}
