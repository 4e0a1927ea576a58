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

# Folders of docs/ with their titles in the navigation. They come first, in this order, and
# then the pages of docs/ itself.
folders='tutorials: Tutorials
how-to: How-to guides
concepts: Concepts
reference: Reference
troubleshooting: Troubleshooting
contributing: Contributing'
first='tutorials how-to concepts reference troubleshooting comparison faq glossary performance performance-dataplane contributing'

# weight prints the place of a page. In a folder, the page comes first that the folder's
# README.md links to first, or else docs/README.md.
weight() {
  local page=${1#docs/} top line place=1 name
  top=${page%%/*}
  if [[ $page != */* || $page == */README.md ]]; then
    for name in $first; do
      [[ $name != "${top%.md}" ]] || break
      place=$((place + 1))
    done
    echo "$place"
    return
  fi
  line=$(grep -noE "\]\((\./)?$(basename -- "$page")[)#]" -- "docs/$(dirname -- "$page")/README.md" 2>/dev/null || grep -noF "]($page" -- docs/README.md 2>/dev/null) || true
  line=${line%%:*}
  echo "${line:-5000}"
}

# page TITLE WEIGHT SOURCE prints the front matter of a page.
page() {
  printf -- '---\ntitle: "%s"\nweight: %d\nsource: "%s"\n---\n' "$1" "$2" "$3"
}

while IFS= read -r file; do
  target=$content/${file#docs/}
  if [[ $(basename -- "$file") == README.md ]]; then
    target=$(dirname -- "$target")/_index.md
  elif compgen -G "${file%.md}/*.md" >/dev/null; then
    target=${target%.md}/_index.md # performance.md is the first page of performance/
  fi
  mkdir -p -- "$(dirname -- "$target")"
  title=$(sed -n 's/^# //p' "$file" | head -n 1 | tr -d '`"\\')
  { page "$title" "$(weight "$file")" "${file#docs/}" && cat -- "$file"; } >"$target"
done < <(git ls-files --cached --others --exclude-standard -- 'docs/*.md' | sort -u | grep -vE '/_|^docs/pictures/')

# A folder without a README.md gets a list of its pages.
while IFS=: read -r folder title; do
  if [[ -d $content/$folder && ! -e $content/$folder/_index.md ]]; then
    page "${title# }" "$(weight "docs/$folder/README.md")" "$folder" >"$content/$folder/_index.md"
  fi
done <<<"$folders"

"$hugo" --quiet --source hack/hugo --contentDir "$PWD/$content" --destination "$PWD/public"
# Pictures keep their places beside the pages.
(cd docs && find . \( -name '*.svg' -o -name '*.png' \) -exec cp --parents -t ../public {} +)
