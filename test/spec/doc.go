// Package spec states what Pod2 promises, once: the walls S1 to S8 of docs/reliability.md,
// and, kind by kind, when the controller is done. It speaks of the objects of an API server
// alone. It imports no package that decides, so that a mistake there cannot be made here
// too. The simulated server, the model, the property tests and the chaos tests all ask it.
//
//	S1  SharedAddress, Holders      no two live pods hold one address of one Network
//	S2  Unusable, OnEdge            no address is handed out that must not be
//	S3  Kept                        a replica keeps its address
//	S4  TooMany                     no pod is created while there are enough
//	S5  TooFew                      enough replicas stay available
//	S6  NotOurs                     only pods of ours are changed or deleted
//	S7  Write.Unconditional         every write carries its precondition
//	S8  InUse, BoundForNobody       a Network in use is not removed
//
// A function that returns a string returns "" for a kept promise.
//
// "Done" is what must be so when the controller has nothing left to write. It is said in
// what a user sees: it is no list of the writes that lead there. That no more is written
// once it is so, the tests see by running the controller on.
package spec
