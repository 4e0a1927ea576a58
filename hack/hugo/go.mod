// The site of docs/: Hugo, built from Go modules, and the test of the site.
module github.com/pod2/pod2/hack/hugo

go 1.26.0
