#!/usr/bin/env bash
# Builds the site of docs/ into public/. Hugo reads a copy of the pages in bin/site: README.md
# of a folder is its first page, and each page gets its first heading as title and a weight.
#
#   hack/hugo/build.sh [HUGO]   HUGO is bin/hugo unless given
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

hugo=$(realpath -- "${1:-bin/hugo}")
content=bin/site
rm -rf -- "$content" public
mkdir -p -- "$content"

# weight prints the place of a page: folders and pages first that docs/README.md links to
# first, and within a folder by its own README.md.
weight() {
  local page=$1 index name line
  name=$(basename -- "$page")
  index=$(dirname -- "$page")/README.md
  if [[ $name == README.md ]]; then
    name=$(basename -- "$(dirname -- "$page")")/
    index=$(dirname -- "$(dirname -- "$page")")/README.md
  fi
  line=$(grep -noE "\]\(($name)" -- "$index" 2>/dev/null | head -n 1 | cut -d: -f1) || true
  echo "$((${line:-5000} + 1))"
}

while IFS= read -r page; do
  target=$content/${page#docs/}
  [[ $(basename -- "$page") != README.md ]] || target=$(dirname -- "$target")/_index.md
  mkdir -p -- "$(dirname -- "$target")"
  title=$(sed -n 's/^# //p' "$page" | head -n 1 | tr -d '`"\\')
  {
    printf -- '---\ntitle: "%s"\nweight: %d\n---\n' "$title" "$(weight "$page")"
    cat -- "$page"
  } >"$target"
done < <(git ls-files --cached --others --exclude-standard 'docs/*.md' 'docs/**/*.md' | sort -u | grep -v '/_')

"$hugo" --quiet --source hack/hugo --contentDir "$PWD/$content" --destination "$PWD/public"
# Pictures keep their places beside the pages.
(cd docs && find . \( -name '*.svg' -o -name '*.png' \) -exec cp --parents -t ../public {} +)
