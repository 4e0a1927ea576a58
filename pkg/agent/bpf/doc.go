// Package bpf loads the tc programs of the data plane, and one for sockets, into the kernel, attaches them to
// interfaces, and reads and writes their maps. It decides nothing: package tables has
// the contents of the maps. src has the programs in C, and pod2.hex and sockets.hex have them compiled.
//
// The programs are attached with clsact, which every supported kernel has. A filter stays when
// the agent ends, and one with the same handle replaces it without a gap. The maps are pinned, so
// a restarted agent finds them as it left them.
package bpf
