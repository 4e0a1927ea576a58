// Topology of a Network: its nodes, and the pods on each.
import {html, svg, nothing} from './vendor/lit-html.js';
import {all, get, addressesOf, holderOf, source} from './state.js';
import {link} from './parts.js';

const columns = 5, width = 190, height = 92, gap = 10, perRow = 14, most = 28, mostNodes = 60;

export function topology({namespace, name}) {
  const network = get('networks', `${namespace}/${name}`);
  if (!network) return html`<h1>Topology of ${namespace}/${name}</h1><p>It does not exist, or you may not read it.</p>`;
  const pods = new Map();
  for (const a of addressesOf(`${namespace}/${name}`).values()) {
    const pod = holderOf(a);
    if (!pod?.node) continue;
    if (!pods.has(pod.node)) pods.set(pod.node, []);
    pods.get(pod.node).push({...pod, address: a.address});
  }
  const agents = new Map(all('agents').map((a) => [a.node, a.ready])), known = new Map(all('nodes').map((n) => [n.name, n.ready]));
  const names = [...new Set([...pods.keys(), ...known.keys()])].sort((a, b) => (pods.get(b)?.length ?? 0) - (pods.get(a)?.length ?? 0) || a.localeCompare(b, 'en', {numeric: true}));
  const shown = names.slice(0, mostNodes), count = [...pods.values()].reduce((n, list) => n + list.length, 0);
  const rows = Math.max(1, Math.ceil(shown.length / columns));
  const box = (node, i) => {
    const x = gap + (i % columns) * (width + gap), y = gap + Math.floor(i / columns) * (height + gap), list = pods.get(node) ?? [];
    const ready = known.get(node), agent = agents.get(node), away = ready === false || (network.type === 'Overlay' && agent === false);
    return svg`<g><title>${`${node}: ${list.length} pods`}</title><rect class=${`node ${away ? 'away' : ''}`} x=${x} y=${y} width=${width} height=${height} rx="4"/>
      <text x=${x + 8} y=${y + 18}>${node.length > 24 ? `${node.slice(0, 23)}…` : node}</text>
      <text class="soft" x=${x + 8} y=${y + 34}>${ready === undefined ? 'Node not readable' : ready ? 'Ready' : 'not Ready'}${agent === undefined ? '' : agent ? ', agent Ready' : ', agent not Ready'}, ${list.length} pods</text>
      ${list.slice(0, most).map((pod, p) => svg`<rect class=${pod.ready ? 'fill-bound' : 'fill-reserved'} x=${x + 8 + (p % perRow) * 12.5} y=${y + 44 + Math.floor(p / perRow) * 14} width="10" height="10"><title>${`${pod.name} ${pod.address}${pod.ready ? '' : ', not Ready'}`}</title></rect>`)}
      ${list.length > most ? svg`<text class="soft" x=${x + 8} y=${y + 86}>and ${list.length - most} more</text>` : nothing}</g>`;
  };
  return html`<h1>Topology of ${namespace}/${name}</h1><p>${link(`networks/${namespace}/${name}`, 'Addresses')}. ${count} pods on ${pods.size} of ${names.length} nodes.
    ${network.type === 'Overlay' ? '' : 'The plugin of its config carries the packets, not the data plane.'}</p>
    ${source('agents').missing ? html`<p class="soft">The readiness of agents is not shown.</p>` : nothing}
    <svg class="picture" role="img" aria-label=${`${count} pods on ${pods.size} nodes`} viewBox=${`0 0 ${gap + columns * (width + gap)} ${gap + rows * (height + gap)}`}>${shown.map(box)}</svg>
    ${names.length > mostNodes ? html`<p class="soft">The ${mostNodes} nodes with the most pods, of ${names.length}.</p>` : nothing}`;
}
