// The page: which view the URL names, and when it is drawn.
import {html, render, nothing} from './vendor/lit-html.js';
import {connect, connected, lostSince, all, source} from './state.js';
import {since} from './parts.js';
import * as networks from './networks.js';
import * as workloads from './workloads.js';
import {topology} from './topology.js';
import {search} from './search.js';

// What each view shows needs these resources.
const views = {
  networks: {title: 'Networks', needs: ['networks', 'addresses', 'pods'], list: networks.list, one: networks.one},
  pod2s: {title: 'Pod2s', needs: ['pod2s', 'pods'], list: workloads.pod2s, one: workloads.pod2},
  waiting: {title: 'Waiting', needs: ['pods'], list: workloads.waiting},
  crontabs: {title: 'CronTabs', needs: ['crontabs'], list: workloads.cronTabs},
  events: {title: 'Events', needs: ['events'], list: workloads.events},
  topology: {needs: ['networks', 'addresses', 'pods', 'nodes', 'agents'], one: topology},
  search: {needs: ['addresses', 'pods'], list: () => search(place().words)},
};

// decoded text of a URL. A user may have typed one that cannot be decoded.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// place that the URL names. Words of a search may have slashes, such as Pod2/web.
function place() {
  const [view, ...parts] = location.hash.replace(/^#\//, '').split('/').map(decoded), [namespace, name, ...rest] = parts;
  return {view: Object.hasOwn(views, view) ? view : 'networks', namespace, name, rest: rest.join('/'), words: parts.join('/')};
}

const path = (parts) => `#/${parts.split('/').map(encodeURIComponent).join('/')}`;

// go to a place of the page, or draw it again.
function go(to) {
  if (to === undefined) schedule();
  else location.hash = path(to);
}

let settings = {}, scheduled = false, drawn = false, focusNext = false;

function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    draw();
  });
}

function header(at) {
  const submit = (e) => {
    e.preventDefault();
    location.hash = `#/search/${encodeURIComponent(new FormData(e.target).get('q'))}`;
  };
  return html`<strong>Pod2</strong><span class="soft">${settings.context ?? ''} ${settings.namespace ? `namespace ${settings.namespace}` : 'all namespaces'}</span>
    <nav aria-label="Views">${Object.entries(views).filter(([, v]) => v.title).map(([name, v]) => html`<a href=${`#/${name}`} aria-current=${at.view === name ? 'page' : nothing}>${v.title}${name === 'waiting' ? waitingCount() : ''}</a>`)}</nav>
    <form role="search" @submit=${submit}><input name="q" type="search" aria-label="Search for an address, pod, owner, node or MAC" placeholder="Address, pod, owner, node, MAC" .value=${at.view === 'search' ? at.words : ''}>
    <button>Search</button><button type="button" @click=${copy}>Copy</button></form>`;
}

const waitingCount = () => {
  const n = all('pods').filter((p) => p.waits?.type === 'AddressesBound').length;
  return n ? ` (${n})` : '';
};

// command that shows a colleague the same.
function command() {
  const quoted = (s) => (/^[\w./:@-]+$/.test(s) ? s : `'${s.replaceAll("'", `'\\''`)}'`);
  const open = decoded(location.hash.replace(/^#\//, ''));
  return ['kubectl pod2 dashboard', settings.context && `--context ${quoted(settings.context)}`, settings.namespace ? `-n ${settings.namespace}` : '-A', open && `--open ${quoted(open)}`].filter(Boolean).join(' ');
}

let copied = '';
async function copy() {
  copied = command();
  await navigator.clipboard?.writeText(copied).catch(() => {});
  schedule();
}

function alerts(at) {
  const lines = [];
  if (lostSince) lines.push(html`<p class="bad">The command kubectl pod2 dashboard does not answer. The data is from ${since(lostSince)} ago.</p>`);
  for (const name of views[at.view].needs) {
    const s = source(name);
    if (s.missing) lines.push(html`<p>You lack a right, so ${name} are not shown: ${s.missing}.</p>`);
    else if (s.since) lines.push(html`<p class="bad">The API server does not answer. The ${name} are from ${since(s.since)} ago: ${s.error}</p>`);
    else if (s.error) lines.push(html`<p>${s.error}</p>`);
  }
  if (copied) lines.push(html`<p>To show this to a colleague, copied: <code>${copied}</code></p>`);
  return lines;
}

function draw() {
  const at = place(), view = views[at.view];
  render(header(at), document.getElementById('header'));
  render(alerts(at), document.getElementById('alerts'));
  const main = document.getElementById('main');
  const loading = !connected && !lostSince || view.needs.some((name) => { const s = source(name); return !s.loaded && !s.error && !s.missing; });
  if (!drawn) main.replaceChildren();
  drawn = true;
  render(loading ? html`<p>Loading …</p>` : at.name && view.one ? view.one(at, go) : view.list ? view.list(go) : networks.list(), main);
  document.title = `${[view.title ?? at.view, at.namespace, at.name].filter(Boolean).join(' ')} – Pod2`;
  if (focusNext) main.focus();
  focusNext = false;
}

addEventListener('hashchange', () => {
  copied = '';
  focusNext = document.activeElement === document.body || document.activeElement?.closest('nav, main') !== null && document.activeElement?.id !== 'map';
  schedule();
});
setInterval(schedule, 1000); // ages
connect(schedule);
fetch('settings').then((r) => r.json()).then((s) => {
  settings = s;
  schedule();
});
