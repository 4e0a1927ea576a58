// Pod2s, pods that wait, events and CronTabs.
import {html, nothing} from './vendor/lit-html.js';
import {all, get, ready} from './state.js';
import {problems, conditions, table, link, since, byName} from './parts.js';

const replicasOf = (p) => all('pods').filter((pod) => pod.namespace === p.namespace && pod.pod2 === p.name).sort(byName);

export function pod2s() {
  return html`<h1>Pod2s</h1>${table(['Pod2', '#Desired', '#Ready', '#Updated', '#Available', 'Networks', 'Strategy', 'Conditions'], all('pod2s').sort(byName).map((p) =>
    html`<tr><td>${link(`pod2s/${p.namespace}/${p.name}`, `${p.namespace}/${p.name}`)}</td><td class="number">${p.desired}</td><td class="number">${p.ready}</td>
      <td class="number">${p.updated}</td><td class="number">${p.available}</td><td>${(p.networks ?? []).join(', ') || 'none'}</td><td>${strategy(p)}</td><td>${problems(p)}</td></tr>`),
  'This namespace has no Pod2.')}`;
}

const strategy = (p) => [p.strategy, p.paused && 'paused', p.partition && `partition ${p.partition}`, p.surge && `surge ${p.surge}`].filter(Boolean).join(', ');

// asked texts of the server, by URL. Each is asked again when the Pod2 changes, and after an error. An answer takes the
// server several requests, so a text is asked once at a time, and at most once a second; after an error, every five seconds.
const asked = new Map();
function ask(url, version, changed) {
  let text = asked.get(url);
  if (!text) asked.set(url, text = {});
  if (text.version === version || text.busy) return text.value;
  text.busy = true;
  const answer = (value, asOf) => {
    [text.value, text.version] = [value, asOf];
    setTimeout(() => {
      text.busy = false;
      changed();
    }, value.error ? 5000 : 1000);
    changed();
  };
  fetch(url).then(async (r) => (r.ok ? answer(await r.json(), version) : answer({error: (await r.text()).trim()}))).catch((e) => answer({error: e.message}));
  return text.value;
}

export function pod2({namespace, name}, go) {
  const p = get('pod2s', `${namespace}/${name}`);
  if (!p) return html`<h1>Pod2 ${namespace}/${name}</h1><p>It does not exist, or you may not read it.</p>`;
  const query = `namespace=${encodeURIComponent(namespace)}&name=${encodeURIComponent(name)}`, pods = replicasOf(p);
  const plan = ask(`plan?${query}`, JSON.stringify([p, pods.length, pods.filter((x) => x.ready).length]), go);
  const history = ask(`history?${query}`, `${p.update} ${p.current}`, go);
  const hash = history?.length ? history.find((r) => r.name === p.update)?.name.slice(name.length + 1) : '';
  return html`<h1>Pod2 ${namespace}/${name}</h1>
    <p>${p.desired} desired, ${p.replicas} exist, ${p.ready} ready, ${p.updated} updated, ${p.available} available. ${strategy(p)}.</p>
    <h2>Next step of the controller</h2>${said(plan, (text) => html`<pre tabindex="0">${text}</pre>`)}
    <h2>Replicas</h2><ul class="replicas">${pods.slice(0, 500).map((pod) => replica(pod, p, hash))}</ul>
    ${pods.length > 500 ? html`<p class="soft">The first 500 of ${pods.length}.</p>` : nothing}
    <h2>History</h2>${said(history, (list) => [...list].reverse().map((r) => html`<details><summary>Revision ${r.number} (${r.role}) ${since(r.created)} ${r.cause ?? ''}</summary>
      <pre tabindex="0">${r.changes || 'The first revision.'}</pre></details>`))}
    <h2>Conditions</h2>${conditions(p)}`;
}

const said = (value, show) => (value === undefined ? html`<p class="soft">Loading …</p>` : value.error ? html`<p class="bad">${value.error}</p>` : show(value));

// place of a replica, from 0: that of its ordinal among those that are not reserved. At and beyond the desired number
// are replicas of a surge, and those to scale down.
function placeOf(pod, p) {
  const start = p.start ?? 0, ordinal = Number(pod.ordinal);
  return ordinal - start - new Set((p.reserved ?? []).filter((r) => r >= start && r < ordinal)).size;
}

function replica(pod, p, hash) {
  const updated = p.updated >= p.replicas || pod.template === hash, place = placeOf(pod, p);
  return html`<li class=${updated ? 'updated' : ''}><strong>${pod.name}</strong> ${place >= p.desired ? html`<span class="soft">surge, or scaled down</span> ` : place < p.partition ? html`<span class="soft">before the partition</span> ` : nothing}
    <span class="soft">${pod.deleting ? 'is being deleted' : pod.ready ? 'Ready' : pod.phase}, ${updated ? 'updated' : 'old revision'}${pod.inPlace ? ', in place' : ''}${pod.node ? `, ${pod.node}` : ''}</span>
    ${pod.waits ? html`<div class="bad">${pod.waits.reason}: ${pod.waits.message}</div>` : nothing}</li>`;
}

// remedies by reason; the reference has them all.
const remedies = {
  NetworkExhausted: 'Grow the CIDR of the Network, or release addresses: kubectl pod2 release.',
  NetworkNotFound: 'Create the Network, or correct the request of the pod.',
  NetworkNotReady: 'Read the condition Ready of the Network.',
  NetworkTerminating: 'Wait until the Network is deleted, and recreate it.',
  AddressInUse: 'Wait, or ask for another address.',
  AddressRefused: 'Ask for another address: the Network does not hand out this one.',
  InvalidRequest: 'Correct the annotation samplecrd.k8s.io/networks.',
  MissingGate: 'Recreate the pod with the scheduling gate, and without spec.nodeName.',
  MissingRequest: 'Add the annotation samplecrd.k8s.io/networks, or remove the gate.',
  HostNetwork: 'Recreate the pod without hostNetwork.',
};

export function waiting() {
  const pods = all('pods').filter((p) => p.waits).sort(byName);
  return html`<h1>Pods that wait</h1>${table(['Pod', 'Networks', 'Condition', 'Reason', 'Message', 'What to do', 'Since'], pods.map((p) =>
    html`<tr><td>${p.namespace}/${p.name}</td><td>${(p.networks ?? []).join(', ')}</td><td>${p.waits.type}</td><td>${p.waits.reason}</td><td>${p.waits.message}</td>
      <td>${remedies[p.waits.reason] ?? ''}</td><td>${since(p.waits.since || p.created)}</td></tr>`), 'Each pod with addresses runs.')}`;
}

export function events() {
  const list = all('events').sort((a, b) => b.last - a.last);
  return html`<h1>Events</h1>${table(['Last', 'Type', 'Object', 'Reason', 'Message', '#Count'], list.map((e) =>
    html`<tr><td>${since(e.last)}</td><td class=${e.type === 'Warning' ? 'bad' : ''}>${e.type}</td><td>${e.kind} ${e.namespace}/${e.name}</td><td>${e.reason}</td><td>${e.message}</td>
      <td class="number">${e.count}</td></tr>`), 'The controller has reported no events.')}`;
}

export function cronTabs() {
  return html`<h1>CronTabs</h1>${table(['CronTab', 'Schedule', 'Last run', 'Next run', '#Active', 'Conditions'], all('crontabs').sort(byName).map((c) =>
    html`<tr><td>${c.namespace}/${c.name}</td><td>${c.schedule} ${c.timeZone ?? ''}</td><td>${since(c.last)}</td><td>${c.suspended ? 'suspended' : since(c.next)}</td>
      <td class="number">${c.active}</td><td>${ready(c)?.status === 'True' ? ready(c).reason : problems(c)}</td></tr>`), 'This namespace has no CronTab.')}`;
}
