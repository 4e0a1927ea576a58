// Search by address, pod, owner, node or MAC.
import {html} from './vendor/lit-html.js';
import {all, mac, nodeOf} from './state.js';
import {table, link, since, byName} from './parts.js';

export function search(words) {
  const query = words.trim().toLowerCase();
  const found = query ? all('addresses').filter((a) => [a.address, a.pod, a.owner, nodeOf(a), mac(a.address), a.network].some((text) => text?.toLowerCase().includes(query))) : [];
  const exact = (a) => [a.address, a.pod, mac(a.address)].some((text) => text?.toLowerCase() === query);
  found.sort((a, b) => exact(b) - exact(a) || byName({...a, name: a.address}, {...b, name: b.address}));
  const waiting = query ? all('pods').filter((p) => p.waits && p.name.includes(query)) : [];
  return html`<h1>Search: ${words}</h1>${table(['Address', 'State', 'Pod', 'Owner', 'Node', 'MAC', 'Network', 'Since'], found.map((a) =>
    html`<tr><td>${link(`networks/${a.namespace}/${a.network}/${a.address}`, a.address)}</td><td>${a.state}</td><td>${a.pod}</td><td>${a.owner}</td><td>${nodeOf(a)}</td><td>${mac(a.address)}</td>
      <td>${a.namespace}/${a.network}</td><td>${since(a.since)}</td></tr>`), 'No address, pod, owner, node or MAC matches.')}
    ${waiting.length ? html`<p>${waiting.length} matching pods ${link('waiting', 'wait')}.</p>` : ''}`;
}
