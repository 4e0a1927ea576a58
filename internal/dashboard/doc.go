// Package dashboard is the page of `kubectl pod2 dashboard`. It runs on the user's machine with the user's rights, and
// only reads.
//
//	API server --list, watch--> feed --records--> Store --changes (server-sent events)--> page (web/)
//
// A feed turns each object into records (package view) and drops it. The Store has the latest value of each record. Each
// open page asks for the changes since its last number, ten times a second at most.
package dashboard
