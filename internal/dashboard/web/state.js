// The records of the server, by resource and key, and the functions that join them.

export const records = new Map(); // "pods" -> Map("default/web-0" -> {...})
let listener = () => {};
export let connected = false;
export let lostSince = 0;

const of = (resource) => {
  let map = records.get(resource);
  if (!map) records.set(resource, map = new Map());
  return map;
};

export const all = (resource) => [...of(resource).values()];
export const get = (resource, key) => of(resource).get(key);
export const source = (name) => get('sources', name) ?? {loaded: false};

// Addresses by Network, so that a map of one Network does not search those of all.
const byNetwork = new Map(); // "default/blue" -> Map("10.0.0.2" -> {...})
export const addressesOf = (network) => byNetwork.get(network) ?? new Map();

// holdersOf an address, and the gaps in the history of its Network: the earlier ones, the last one first.
export function holdersOf(network, address) {
  const found = [];
  for (const [key, list] of records.get('holders') ?? []) {
    if (key.startsWith(`${network}/`) && (key.endsWith(`/${address}`) || key.endsWith('/gaps'))) found.push(...list);
  }
  return found.sort((a, b) => b.until - a.until);
}

// put one record. Addresses that change are collected for the map.
export const changedAddresses = new Set();
function put(path, value) {
  const cut = path.indexOf('/');
  const resource = path.slice(0, cut), key = path.slice(cut + 1);
  if (value === null) of(resource).delete(key);
  else of(resource).set(key, value);
  if (resource !== 'addresses') return;
  const [namespace, name] = key.split('/', 2);
  const network = `${namespace}/${name}`, address = key.slice(network.length + 1);
  let map = byNetwork.get(network);
  if (!map) byNetwork.set(network, map = new Map());
  if (value === null) map.delete(address);
  else map.set(address, value);
  changedAddresses.add(key);
}

// apply is also what a test feeds.
export function apply(values, whole) {
  if (whole) {
    records.clear();
    byNetwork.clear();
    changedAddresses.clear();
    changedAddresses.add('*');
  }
  for (const path in values) put(path, values[path]);
  listener();
}

export function connect(changed) {
  listener = changed;
  const events = new EventSource('changes');
  const take = (whole) => (event) => {
    connected = true;
    lostSince = 0;
    apply(JSON.parse(event.data), whole);
  };
  events.addEventListener('whole', take(true));
  events.addEventListener('changes', take(false));
  events.onerror = () => {
    if (connected || !lostSince) lostSince = Date.now() / 1000;
    connected = false;
    listener();
  };
}

export const ready = (object) => object.conditions?.find((c) => c.type === 'Ready');
export const podOf = (address) => address.pod && get('pods', `${address.namespace}/${address.pod}`);

// holderOf an address: the pod that has it now. Another pod may have the name of the one that had it.
export function holderOf(address) {
  const pod = podOf(address);
  return address.state === 'Bound' && pod && pod.uid === address.uid ? pod : undefined;
}
export const nodeOf = (address) => holderOf(address)?.node ?? '';

// mac of an address, as the controller computes it: 0a:58 and the last four bytes.
export function mac(address) {
  const hex = (n) => n.toString(16).padStart(2, '0');
  return ['0a', '58', ...bytes(address).slice(-4).map(hex)].join(':');
}

// bytes of an address: 4 or 16. Others give no bytes.
export function bytes(address) {
  if (!address.includes(':')) return address.split('.').map(Number);
  const [head, tail] = address.split('::').map((s) => (s ? s.split(':') : []));
  const groups = tail === undefined ? head : [...head, ...Array(8 - head.length - tail.length).fill('0'), ...tail];
  return groups.flatMap((g) => [parseInt(g, 16) >> 8, parseInt(g, 16) & 255]);
}

// number of an address, as a BigInt.
export const number = (address) => bytes(address).reduce((n, b) => (n << 8n) | BigInt(b), 0n);

// text of a number, in the form that the API server has: RFC 5952 for IPv6.
export function text(n, six) {
  if (!six) return [24n, 16n, 8n, 0n].map((s) => (n >> s) & 255n).join('.');
  const groups = [];
  for (let s = 112n; s >= 0n; s -= 16n) groups.push(((n >> s) & 0xffffn).toString(16));
  let first = 0, most = 0;
  for (let i = 0, run = 0; i < 8; i++) {
    run = groups[i] === '0' ? run + 1 : 0;
    if (run > most) [first, most] = [i - run + 1, run];
  }
  if (most < 2) return groups.join(':');
  return `${groups.slice(0, first).join(':')}::${groups.slice(first + most).join(':')}`;
}
