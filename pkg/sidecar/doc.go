// Package sidecar decides which generation of a Sidecar new pods get.
//
//	generation   dry run of a pod with it   new pods get
//	1            not yet                    none: see spec.whenNotReady
//	1            accepted                   1
//	2            not yet, or refused        1
//	2            accepted                   2
//
// It also decides which running pods get other images now, see Updates.
//
// The admission policy pod2-sidecars adds the Sidecar to pods. It reads the generation in
// status.injected, except for the pod of the dry run.
package sidecar
