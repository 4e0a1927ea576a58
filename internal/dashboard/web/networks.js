// Networks: the list, and one with its address map.
import {html, nothing} from './vendor/lit-html.js';
import {all, get, source, addressesOf, holdersOf, changedAddresses, podOf, nodeOf, mac} from './state.js';
import {bar, legend, problems, conditions, table, link, since, span, byName} from './parts.js';
import {AddressMap, windows, windowOf, cidrOf} from './map.js';

const waitingFor = (n) => all('pods').filter((p) => p.namespace === n.namespace && p.waits?.type === 'AddressesBound' && p.networks?.includes(n.name));

export function list() {
  const rows = all('networks').sort(byName).map((n) => {
    const waiting = waitingFor(n);
    return html`<tr><td>${link(`networks/${n.namespace}/${n.name}`, `${n.namespace}/${n.name}`)}</td><td>${n.cidr}</td><td>${n.type}</td><td>${bar(n)}</td>
      <td class="number">${n.bound}</td><td class="number">${n.reserved}</td><td class="number">${n.resting}</td><td class="number">${n.available}</td><td class="number">${n.capacity}</td>
      <td>${waiting.length ? html`<span class="bad">${waiting.length}: ${waiting[0].waits.reason}</span>` : 'none'}</td><td>${problems(n)}</td></tr>`;
  });
  return html`<h1>Networks</h1>${legend}${table(['Network', 'CIDR', 'Type', 'Use', '#Bound', '#Reserved', '#Resting', '#Free', '#Capacity', 'Pods that wait', 'Conditions'], rows,
    'This namespace has no Network.')}`;
}

let map, drawn = '', hovered = '';

// earlier holders of an address, at most this many.
const most = 8;

function earlier(network, address) {
  if (source('holders').missing) return html`<p class="soft">The earlier pods are not shown: you lack a right.</p>`;
  const time = (t) => (t ? new Date(t * 1000).toISOString().slice(0, 19) + 'Z' : '?');
  const holders = holdersOf(`${network.namespace}/${network.name}`, address);
  if (!holders.length) return nothing;
  const rows = holders.slice(0, most).map((h) => html`<tr><td>${h.pod || 'gap: records may be missing'}</td><td>${h.node || ''}</td><td>${time(h.from)}</td><td>${time(h.until)}</td></tr>`);
  return html`<h3>Earlier pods</h3>${table(['Pod', 'Node', 'From', 'Until'], rows, '')}${holders.length > most ? html`<p class="soft">The last ${most} of ${holders.length}.</p>` : nothing}`;
}

// details of an address: of the cell under the pointer, or of the selected one.
function details(network, address) {
  if (!address) return html`<p class="soft">Point at a cell, or move with the arrow keys. Press Enter to keep the address in the URL.</p>`;
  const a = addressesOf(`${network.namespace}/${network.name}`).get(address);
  if (!a) return html`<dl><dt>Address</dt><dd>${address}</dd><dt>State</dt><dd>${address === network.gateway ? 'Gateway' : 'Free, or excluded by the spec'}</dd></dl>${earlier(network, address)}`;
  const pod = podOf(a), left = a.since + network.reuseDelaySeconds - Date.now() / 1000;
  return html`<dl><dt>Address</dt><dd>${a.address}</dd><dt>State</dt><dd>${a.state} ${since(a.since)}${a.state === 'Resting' ? `, free ${left > 0 ? `in ${span(left)}` : 'now'}` : ''}</dd>
    <dt>Pod</dt><dd>${a.pod}${pod && pod.uid === a.uid ? '' : html` <span class="soft">(not running)</span>`}</dd><dt>Owner</dt><dd>${a.owner || 'none'}</dd>
    <dt>Node</dt><dd>${nodeOf(a) || 'none'}</dd><dt>MAC</dt><dd>${mac(a.address)}</dd></dl>${earlier(network, address)}`;
}

export function one({namespace, name, rest: address}, go) {
  const network = get('networks', `${namespace}/${name}`);
  if (!network) return html`<h1>Network ${namespace}/${name}</h1><p>It does not exist, or you may not read it.</p>`;
  const key = `${namespace}/${name}`, every = windows(network), window = (address && windowOf(every, address)) || every[0];
  const waiting = waitingFor(network);
  queueMicrotask(() => draw(key, network, window, address, go));
  return html`<h1>Network ${key}</h1><p>${network.cidr}, gateway ${network.gateway || 'none'}, ${network.type}. ${link(`topology/${key}`, 'Topology')}</p>
    ${bar(network)}<p>${network.bound} bound, ${network.reserved} reserved, ${network.resting} resting, ${network.available} free of ${network.capacity}.</p>
    ${waiting.length ? html`<p class="bad">${waiting.length} pods wait: ${waiting[0].waits.message}</p>` : nothing}
    <h2>Addresses ${every.length > 1 ? `of ${cidrOf(window)}` : ''}</h2>
    ${every.length > 1 || window.size === 65536 && !network.cidr.endsWith(cidrOf(window).split('/')[1]) ? html`<p>${every.map((w) => html`${link(`networks/${key}/${cidrOf(w).split('/')[0]}`, cidrOf(w))} (${w.Bound} bound) `)}</p>` : nothing}
    ${legend}<canvas id="map" tabindex="0" role="application" aria-roledescription="address map" aria-label=${`Addresses of ${cidrOf(window)}. Move with the arrow keys.`} aria-describedby="cell"></canvas>
    <div class="details" id="cell" aria-live="polite">${details(network, hovered || address)}</div>
    <h2>Conditions</h2>${conditions(network)}`;
}

// draw only what changed, unless the page shows another window.
function draw(key, network, window, address, go) {
  const canvas = document.getElementById('map');
  if (!canvas) return;
  if (!map || map.canvas !== canvas) {
    map = new AddressMap(canvas);
    drawn = '';
    const hover = (i) => {
      if (i === map.cursor) return;
      map.cursor = i;
      hovered = map.address();
      go();
    };
    canvas.onpointermove = (e) => hover(map.at(e));
    canvas.onclick = () => { if (map.cursor >= 0) go(`networks/${map.network}/${map.address()}`); };
    canvas.onkeydown = (e) => {
      if (e.key === 'Enter') return canvas.onclick();
      if (!map.move(e.key)) return;
      e.preventDefault();
      hovered = map.address();
      go();
    };
    canvas.onblur = () => { hovered = ''; go(); };
  }
  const now = `${key} ${network.cidr} ${window.first}`;
  if (now !== drawn || changedAddresses.has('*')) {
    map.cursor = -1;
    map.show(key, window);
    drawn = now;
    if (address) map.cursor = map.place(address);
  } else {
    const addresses = addressesOf(key), prefix = `${key}/`;
    for (const changed of changedAddresses) if (changed.startsWith(prefix)) map.change(changed.slice(prefix.length), addresses.get(changed.slice(prefix.length)));
  }
  changedAddresses.clear();
  map.draw();
}
