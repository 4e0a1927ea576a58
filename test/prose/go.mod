// The rules of docs/contributing for plain English, held to by tests. A module of its own,
// so that users of the controller never download what it needs.
module github.com/pod2/pod2/test/prose

go 1.26.0

require github.com/yuin/goldmark v1.8.7
