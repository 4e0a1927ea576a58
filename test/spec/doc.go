// Package spec states the promises of Pod2, once: the walls S1 to S8 of
// docs/contributing/reliability.md, and for each kind the conditions under which the controller has
// finished. It looks only at objects of the API server. It imports no package that decides,
// so a mistake there is not repeated here. The simulated server, the model, the property
// tests and the chaos tests all use it.
//
//	S1  SharedAddress, Holders      no two live pods hold one address of one Network
//	S2  Unusable, OnEdge            no unusable address is handed out
//	S3  Kept                        a replica keeps its address
//	S4  TooMany                     no pod is created above the limit
//	S5  TooFew                      enough replicas stay available
//	S6  NotOurs                     only pods of the controller's Pod2s are changed or deleted
//	S7  Write.Unconditional         every write carries its precondition
//	S8  InUse, BoundForNobody       a Network in use is not removed
//
// A function that returns a string returns "" if the promise is kept.
//
// The Done functions describe the state in which the controller has nothing left to write.
// They describe the state that a user sees, not the writes that lead there. The tests keep the
// controller running to see that it writes nothing more in that state.
package spec
