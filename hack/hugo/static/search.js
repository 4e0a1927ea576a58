"use strict";
(() => {
  const root = document.getElementById("home").href.replace(/index\.html$/, "");
  const input = document.getElementById("search");
  const hits = document.getElementById("hits");
  const nav = document.getElementById("nav");
  const menu = document.getElementById("menu");

  menu.addEventListener("click", () => {
    menu.setAttribute("aria-expanded", String(nav.classList.toggle("open")));
  });
  const current = nav.querySelector("[aria-current]");
  if (current) current.scrollIntoView({ block: "nearest" });
  window.scrollTo(0, location.hash ? window.scrollY : 0);

  const has = (text, word) => text.toLowerCase().includes(word);

  // Every word has to occur. Titles count more than headings, and these more than text.
  function find(words) {
    const found = [];
    for (const page of window.pod2SearchIndex) {
      let score = 0;
      let missing = false;
      for (const word of words) {
        const inTitle = has(page.title, word);
        const inHeading = page.headings.some((h) => has(h.text, word));
        const inText = has(page.text, word);
        missing ||= !inTitle && !inHeading && !inText;
        score += 20 * inTitle + 5 * inHeading + inText;
      }
      if (!missing) found.push({ page, score, heading: page.headings.find((h) => words.every((w) => has(h.text, w))) });
    }
    return found.sort((a, b) => b.score - a.score).slice(0, 12);
  }

  function snippet(text, words) {
    const at = Math.max(0, text.toLowerCase().indexOf(words[0]));
    const from = Math.max(0, text.lastIndexOf(" ", Math.max(0, at - 60)) + 1);
    return (from > 0 ? "… " : "") + text.slice(from, from + 160) + " …";
  }

  function marked(text, words) {
    const line = document.createElement("span");
    const pattern = new RegExp("(" + words.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|") + ")", "gi");
    text.split(pattern).forEach((part, i) => {
      const node = i % 2 ? document.createElement("mark") : document.createTextNode(part);
      if (i % 2) node.textContent = part;
      line.append(node);
    });
    return line;
  }

  function show() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    hits.replaceChildren();
    hits.hidden = words.length === 0;
    if (hits.hidden) return;
    const found = find(words);
    for (const { page, heading } of found) {
      const link = document.createElement("a");
      link.href = root + page.url + (heading ? "#" + heading.id : "");
      const title = document.createElement("strong");
      title.textContent = page.title + (heading ? " › " + heading.text : "");
      link.append(title, marked(snippet(page.text, words), words));
      hits.append(link);
    }
    if (found.length === 0) {
      const none = document.createElement("p");
      none.textContent = "No page has all of these words.";
      hits.append(none);
    }
  }

  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    const first = hits.querySelector("a");
    if (event.key === "Enter" && first) first.click();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      input.focus();
    }
    if (event.key === "Escape") {
      input.value = "";
      show();
      input.blur();
    }
  });
})();
