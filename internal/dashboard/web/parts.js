// Small parts of several views.
import {html, svg, nothing} from './vendor/lit-html.js';

export const states = ['Bound', 'Reserved', 'Resting', 'Free'];

const units = [['d', 86400], ['h', 3600], ['m', 60], ['s', 1]];

// span of seconds, as kubectl prints ages: 3d, 5h, 12m, 40s.
export function span(seconds) {
  const [unit, size] = units.find(([, size]) => seconds >= 2 * size) ?? ['s', 1];
  return `${Math.max(0, Math.floor(seconds / size))}${unit}`;
}

// since a time, as a relative time with the exact one in its title.
export function since(time) {
  if (!time) return '–';
  const date = new Date(time * 1000), left = Date.now() / 1000 - time;
  return html`<time datetime=${date.toISOString()} title=${date.toLocaleString()}>${left < -1 ? `in ${span(-left)}` : span(left)}</time>`;
}

// bar of the four states. Each number is also in the table.
export function bar(n) {
  const total = Math.max(1, n.capacity);
  let x = 0;
  const parts = [['bound', n.bound], ['reserved', n.reserved], ['resting', n.resting], ['free', n.available]].map(([name, count]) => {
    const width = 100 * count / total, part = svg`<rect class=${`fill-${name}`} x=${x} width=${width} height="10"/>`;
    x += width;
    return part;
  });
  return html`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img"
    aria-label=${`${n.bound} bound, ${n.reserved} reserved, ${n.resting} resting, ${n.available} free of ${n.capacity}`}>${parts}</svg>`;
}

export const legend = html`<ul class="legend">${states.map((s) => html`<li><svg viewBox="0 0 1 1" aria-hidden="true">
  <rect class=${`fill-${s.toLowerCase()}`} width="1" height="1"/></svg>${s}</li>`)}</ul>`;

// conditions that a reader must see: those that are not as they should be.
export function problems(object) {
  const list = (object.conditions ?? []).filter((c) => c.status !== 'True');
  if (object.deleting) return html`<span class="bad">is being deleted</span>`;
  return list.length ? list.map((c) => html`<div class=${c.status === 'False' ? 'bad' : 'soft'}>${c.type} ${c.status}: ${c.reason}${c.message ? html` <span class="soft">${c.message}</span>` : nothing}</div>`) : html`<span class="good">✓ all True</span>`;
}

export function conditions(object) {
  return table(['Condition', 'Status', 'Reason', 'Message', 'Since'], (object.conditions ?? []).map((c) =>
    html`<tr><td>${c.type}</td><td>${c.status}</td><td>${c.reason}</td><td>${c.message}</td><td>${since(c.since)}</td></tr>`));
}

const most = 200;

// table with at most 200 rows. A heading that begins with # is of numbers.
export function table(heads, rows, empty = 'None.') {
  if (!rows.length) return html`<p class="soft">${empty}</p>`;
  return html`<div class="scroll"><table><thead><tr>${heads.map((h) => html`<th scope="col" class=${h.startsWith('#') ? 'number' : ''}>${h.replace('#', '')}</th>`)}</tr></thead>
    <tbody>${rows.slice(0, most)}</tbody></table></div>
    ${rows.length > most ? html`<p class="soft">The first ${most} of ${rows.length}. Search finds the others.</p>` : nothing}`;
}

export const link = (path, label) => html`<a href=${`#/${path.split('/').map(encodeURIComponent).join('/')}`}>${label}</a>`;

export const byName = (a, b) => `${a.namespace}/${a.name}`.localeCompare(`${b.namespace}/${b.name}`, 'en', {numeric: true});
