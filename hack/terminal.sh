#!/usr/bin/env bash
# The picture of a terminal in README.md: a real run, recorded as text and drawn as SVG.
#
#   hack/terminal.sh record   run the commands on a local cluster of their own, write docs/pictures/terminal.txt, and draw it;
#                             needs `make cluster-tools build`
#   hack/terminal.sh draw     print the SVG of docs/pictures/terminal.txt; a test compares it with docs/pictures/terminal.svg
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
text=docs/pictures/terminal.txt
picture=docs/pictures/terminal.svg
cd -- "$root"

# draw makes one text element of each line. Colours follow the reader's light or dark mode.
draw() {
  awk '
    { gsub(/&/, "\\&amp;"); gsub(/</, "\\&lt;"); gsub(/>/, "\\&gt;"); line[NR] = $0; if (length($0) > width) width = length($0) }
    END {
      w = int(width * 8.43) + 40; h = NR * 20 + 64
      printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" aria-label=\"A terminal\">\n", w, h, w, h
      print "<style>"
      print "  .ground { fill: #f6f8fa; stroke: #d1d9e0 } .dot { fill: #c4ccd4 }"
      print "  text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2328; white-space: pre }"
      print "  .typed { font-weight: 700 } .prompt { fill: #59636e } .note { fill: #59636e }"
      print "  @media (prefers-color-scheme: dark) {"
      print "    .ground { fill: #0d1117; stroke: #3d444d } .dot { fill: #3d444d }"
      print "    text { fill: #e6edf3 } .prompt, .note { fill: #9198a1 }"
      print "  }"
      print "</style>"
      printf "<rect class=\"ground\" x=\".5\" y=\".5\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n", w - 1, h - 1
      for (i = 0; i < 3; i++) printf "<circle class=\"dot\" cx=\"%d\" cy=\"20\" r=\"6\"/>\n", 22 + 20 * i
      for (i = 1; i <= NR; i++) {
        y = 40 + i * 20
        if (line[i] == "") continue
        if (line[i] ~ /^\$ /)
          printf "<text x=\"20\" y=\"%d\" xml:space=\"preserve\"><tspan class=\"prompt\">$ </tspan><tspan class=\"typed\">%s</tspan></text>\n", y, substr(line[i], 3)
        else
          printf "<text x=\"20\" y=\"%d\" xml:space=\"preserve\"%s>%s</text>\n", y, (line[i] ~ /^#/ ? " class=\"note\"" : ""), line[i]
      }
      print "</svg>"
    }' "$text"
}

record() {
  local dir work controller
  dir=$root/.localcluster/terminal
  work=$(mktemp -d)
  # shellcheck disable=SC2064 # the values of now
  trap "[[ ! -s '$work/pid' ]] || kill \$(cat '$work/pid') || true; hack/localcluster.sh down '$dir'; rm -rf '$work'" EXIT
  NODES=3 hack/localcluster.sh up "$dir"
  export KUBECONFIG=$dir/kubeconfig PATH=$root/bin:$PATH
  kubectl apply -f crd/ -f artifacts/20-user-roles.yaml -f artifacts/30-admission-policy.yaml -f artifacts/31-validation-policies.yaml -f artifacts/32-warnings.yaml -f artifacts/33-sidecars.yaml
  setsid bin/pod2-controller --metrics-bind-address=127.0.0.1:0 --health-probe-bind-address=127.0.0.1:0 --kubeconfig="$KUBECONFIG" \
    </dev/null &>"$work/log" &
  controller=$!
  echo "$controller" >"$work/pid"
  kubectl create -f example/example-network.yaml -f example/example-pod2.yaml
  kubectl wait --for=condition=Ready --timeout=120s networks --all
  kubectl wait --for=condition=Ready --timeout=120s pod2/web

  mkdir -p "$(dirname -- "$text")"
  local columns='NAME:.metadata.name,NODE:.spec.nodeName,UID:.metadata.uid'
  {
    say '# web is a Pod2 with three replicas on the Networks blue and green.'
    run kubectl get pod web-1 -o custom-columns="$columns"
    run kubectl pod2 addresses
    run kubectl delete pod web-1
    kubectl wait --for=create --timeout=60s pod/web-1 &>/dev/null
    run kubectl wait --for=condition=Ready --timeout=60s pod/web-1
    say '# It is another pod, with the same addresses.'
    run kubectl get pod web-1 -o custom-columns="$columns"
    run kubectl pod2 addresses
  } >"$text"
  cat -- "$text"
  draw >"$picture"
}

# run prints a command as a person would type it, and its output.
run() {
  printf '$ %s\n' "$*"
  "$@" 2>&1 | sed 's/ *$//'
  echo
}

say() {
  printf '%s\n' "$*"
}

case ${1:-} in
record) record ;;
draw) draw ;;
*)
  echo "usage: hack/terminal.sh record | draw" >&2
  exit 2
  ;;
esac
