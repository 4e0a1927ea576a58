// Package history decides which AddressHistories a Network gets: which pods held its
// addresses earlier.
//
//	AddressHistory blue-0    256 records
//	AddressHistory blue-1    256 records
//	AddressHistory blue-2    12 records, and a checksum of the holders of all addresses
//
// A record is written once, when a pod no longer holds an address. The AddressBlocks have the
// current holders, so a new holder needs no record. Only the newest AddressHistory changes.
// The oldest one is deleted.
//
// The controller finds the end of a tenure by comparing each version of an AddressBlock with the
// next one. It waits a few seconds for further ones, and writes them together. A controller that
// stops writes them first. A controller that is killed before this write loses them. The next one
// finds out, because the checksum in the newest AddressHistory does not match the AddressBlocks:
//
//	AddressHistory   through 10:00:00, checksum of {10.1.0.2 web-0, 10.1.0.3 web-1}
//	10:00:07         web-1 terminates, and another pod gets its address
//	10:00:08         the controller is killed
//	10:00:30         the checksum is now that of {10.1.0.2 web-0, 10.1.0.3 db-0}
//	record           gap from 09:59:52 until 10:00:30
//
// The gap begins a little earlier, because the view at the write may have been old.
//
// New holders change the checksum too. The controller writes it some time after they came.
//
// No promise about addresses rests on AddressHistories.
package history
