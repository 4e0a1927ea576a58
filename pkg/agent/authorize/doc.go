// Package authorize decides whether the agent attaches a pod, and how. The request of the container
// runtime only names the pod, the Network and the interface. All else comes from the records of
// the API server, and must agree with the request.
package authorize
