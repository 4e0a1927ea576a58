// The address map: one cell for each address of a window. A window has at most 65,536 addresses: all of a Network up to
// a /16, or a part of a larger one.
import {addressesOf, changedAddresses, bytes, number, text} from './state.js';

const windowBits = 16;
const classes = ['bound', 'reserved', 'resting', 'free', 'outside'];

let counted = {};

// windows of a Network that have addresses in use, and the first one. Each has its first number and its counts. To count is
// expensive, so only a Network of several windows is counted, and once a second.
export function windows(network) {
  const of = `${network.namespace}/${network.name} ${network.cidr}`, now = performance.now();
  if (counted.of !== of || changedAddresses.has('*') || now - counted.at > 1000) counted = {of, at: now, list: count(network)};
  return counted.list;
}

function count(network) {
  const [base, length] = network.cidr.split('/');
  const six = base.includes(':'), free = BigInt((six ? 128 : 32) - Number(length)), first = number(base);
  const bits = free < windowBits ? free : BigInt(windowBits), size = 1n << bits;
  const found = new Map([[0n, {first, size: Number(size), six, Bound: 0, Reserved: 0, Resting: 0}]]);
  for (const a of free > bits ? addressesOf(`${network.namespace}/${network.name}`).values() : []) {
    const place = (number(a.address) - first) >> bits;
    if (place < 0n || place >= 1n << (free - bits)) continue; // of an earlier, larger CIDR
    let w = found.get(place);
    if (!w) found.set(place, w = {first: first + place * size, size: Number(size), six, Bound: 0, Reserved: 0, Resting: 0});
    w[a.state]++;
  }
  return [...found.values()].sort((a, b) => (a.first < b.first ? -1 : 1));
}

export const windowOf = (list, address) => {
  const n = number(address);
  return list.find((w) => n >= w.first && n < w.first + BigInt(w.size));
};

export const cidrOf = (w) => `${text(w.first, w.six)}/${(w.six ? 128 : 32) - Math.log2(w.size)}`;

// AddressMap draws a window on a canvas. A change costs one pixel of a small image, which is then drawn enlarged.
export class AddressMap {
  constructor(canvas) {
    this.canvas = canvas;
    this.small = document.createElement('canvas');
    this.cursor = -1;
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.show(this.network, this.window));
  }

  show(network, window) {
    if (!window) return;
    [this.network, this.window] = [network, window];
    this.columns = 2 ** Math.min(8, Math.ceil(Math.log2(window.size) / 2));
    this.rows = Math.ceil(window.size / this.columns);
    this.cell = Math.max(4, Math.min(32, Math.floor(1024 / this.columns)));
    const style = getComputedStyle(document.documentElement);
    this.colours = classes.map((name) => {
      const hex = style.getPropertyValue(`--${name}`).trim();
      return parseInt(hex.slice(1), 16);
    });
    this.line = style.getPropertyValue('--line');
    this.fore = style.getPropertyValue('--fore');
    [this.small.width, this.small.height] = [this.columns, this.rows];
    [this.canvas.width, this.canvas.height] = [this.columns * this.cell, this.rows * this.cell];
    this.image = new ImageData(this.columns, this.rows);
    for (let i = 0; i < this.columns * this.rows; i++) this.paint(i, i < window.size ? 3 : 4);
    for (const a of addressesOf(network).values()) this.change(a.address, a);
    this.draw();
  }

  paint(i, kind) {
    const rgb = this.colours[kind], data = this.image.data;
    data[4 * i] = rgb >> 16;
    data[4 * i + 1] = (rgb >> 8) & 255;
    data[4 * i + 2] = rgb & 255;
    data[4 * i + 3] = 255;
  }

  // place of an address in the window; -1 if it is outside.
  place(address) {
    if (this.window.six !== address.includes(':')) return -1;
    let n;
    if (this.window.six) n = Number(number(address) - this.window.first);
    else { // without BigInt, because this runs for each change
      const [a, b, c, d] = bytes(address);
      n = a * 2 ** 24 + b * 2 ** 16 + c * 256 + d - Number(this.window.first);
    }
    return n >= 0 && n < this.window.size ? n : -1;
  }

  change(address, record) {
    const i = this.place(address);
    if (i >= 0) this.paint(i, record ? ['Bound', 'Reserved', 'Resting'].indexOf(record.state) : 3);
  }

  draw() {
    this.small.getContext('2d').putImageData(this.image, 0, 0);
    const {width, height} = this.canvas, to = this.canvas.getContext('2d');
    to.imageSmoothingEnabled = false;
    to.drawImage(this.small, 0, 0, width, height);
    if (this.cell >= 8) {
      to.strokeStyle = this.line;
      to.beginPath();
      for (let x = 0; x <= this.columns; x++) to.rect(x * this.cell, 0, 0, height);
      for (let y = 0; y <= this.rows; y++) to.rect(0, y * this.cell, width, 0);
      to.stroke();
    }
    if (this.cursor < 0) return;
    to.strokeStyle = this.fore;
    to.lineWidth = 2;
    to.strokeRect((this.cursor % this.columns) * this.cell - 1, Math.floor(this.cursor / this.columns) * this.cell - 1, this.cell + 2, this.cell + 2);
    to.lineWidth = 1;
  }

  // at a point of the canvas; -1 outside.
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = Math.floor((event.clientX - box.left) / box.width * this.columns), y = Math.floor((event.clientY - box.top) / box.height * this.rows);
    const i = y * this.columns + x;
    return x >= 0 && x < this.columns && i >= 0 && i < this.window.size ? i : -1;
  }

  // move the cursor with a key, and say whether the key is one that moves it.
  move(key) {
    const steps = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns, PageUp: -8 * this.columns, PageDown: 8 * this.columns};
    const to = key === 'Home' ? 0 : key === 'End' ? this.window.size - 1 : key in steps ? (this.cursor < 0 ? 0 : this.cursor + steps[key]) : null;
    if (to === null) return false;
    if (to >= 0 && to < this.window.size) this.cursor = to;
    return true;
  }

  address(i = this.cursor) { return i < 0 ? '' : text(this.window.first + BigInt(i), this.window.six); }
}
