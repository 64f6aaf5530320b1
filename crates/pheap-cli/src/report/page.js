'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
/** Makes an element with these attributes and content. Content is text or elements, never markup. */
const el = (tag, attributes = {}, ...content) => {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'style') for (const [p, v] of Object.entries(value)) e.style.setProperty(p, v);
    else if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) e.setAttribute(name, value === true ? '' : value);
  }
  e.append(...content.filter(c => c != null));
  return e;
};
const human = n => {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let u = 0, x = n;
  while (x >= 1024 && u < 4) { x /= 1024; u++; }
  return u ? `${x < 10 ? x.toFixed(2) : x < 100 ? x.toFixed(1) : Math.round(x)} ${units[u]}` : `${n} bytes`;
};
const count = n => n.toLocaleString('en');
const hex = n => '0x' + n.toString(16);
const share = (part, all) => all ? `${(part / all * 100).toFixed(part / all < .1 ? 1 : 0)} %` : '–';
const day = t => t == null ? null : new Date(t * 1000).toISOString().slice(0, 16).replace('T', ' ') + ' UTC';

// --- the top ---
document.title = `${data.name} – pheap report`;
$('name').textContent = data.name;
const state = data.state == null ? 'closed' : data.followed ? `in use with ${data.state}, or its last user was killed` : `not closed (${data.state})`;
$('facts').append(...[
  el('li', {}, human(data.file_bytes)), el('li', {}, `${count(data.objects)} objects`),
  el('li', {}, `${count(data.roots)} root${data.roots === 1 ? '' : 's'}`), el('li', {}, state),
  data.clean ? el('li', { class: 'good' }, '✓ checked: clean') : el('li', { class: 'bad' }, `✗ ${data.problems.length + data.more_problems} problems`)]);
if (!data.clean) {
  $('problems').hidden = false;
  $('problems').querySelector('ol').append(...data.problems.map(p => el('li', {}, p)));
  if (data.more_problems) $('problems').append(el('p', { class: 'hint' }, `and ${count(data.more_problems)} more`));
}
const KINDS = [['live', 'live objects'], ['garbage', 'garbage'], ['free_slots', 'free slots in spans'], ['logs', 'logs of roots'], ['tables', 'tables'], ['free_pages', 'free pages']];
for (const [kind, name] of KINDS) {
  const bytes = data.bytes[kind], text = `${name}: ${human(bytes)} (${share(bytes, data.file_bytes)})`;
  if (bytes) $('bar').append(el('span', { title: text, style: { flex: `${bytes} 0 0`, background: `var(--${kind})` } }));
  $('legend').append(el('li', {}, el('i', { style: { background: `var(--${kind})` } }), text));
}
$('bar').setAttribute('aria-label', [...$('legend').children].map(li => li.textContent).join(', '));

// --- treemap ---
/** Places nearly square rectangles with areas as the sizes: a row grows while its worst ratio does not. */
const squarify = (items, x, y, w, h, place) => {
  const total = items.reduce((sum, i) => sum + i.size, 0);
  if (!total || w <= 0 || h <= 0) return;
  const scale = w * h / total;
  let rest = items.slice();
  while (rest.length) {
    const side = Math.min(w, h);
    let row = [], sum = 0, best = Infinity;
    for (const item of rest) {
      const area = sum + item.size * scale, all = [...row, item], thick = area / side;
      const worst = Math.max(...all.map(i => { const long = i.size * scale / thick; return Math.max(long / thick, thick / long); }));
      if (row.length && worst > best) break;
      row = all; sum = area; best = worst;
    }
    const thick = sum / side;
    let at = 0;
    for (const item of row) {
      const long = item.size * scale / thick;
      if (w < h) place(item, x + at, y, long, thick); else place(item, x, y + at, thick, long);
      at += long;
    }
    if (w < h) { y += thick; h -= thick; } else { x += thick; w -= thick; }
    rest = rest.slice(row.length);
  }
};
const roots = [...new Set(data.usage.map(u => u.root))];
const hue = root => (roots.indexOf(root) * 137.5 + 215) % 360;
const drawMap = () => {
  const box = $('treemap'), HEAD = roots.length > 1 ? 18 : 0;
  box.replaceChildren();
  const groups = roots.map(root => {
    const types = data.usage.filter(u => u.root === root && u.span_bytes).map(u => ({ u, size: u.span_bytes }));
    return { root, types, size: types.reduce((s, t) => s + t.size, 0) };
  }).filter(g => g.size).sort((a, b) => b.size - a.size);
  const px = n => `${n.toFixed(1)}px`;
  squarify(groups, 0, 0, box.clientWidth, box.clientHeight, (group, gx, gy, gw, gh) => {
    const head = HEAD && gh > 50 && gw > 40 ? HEAD : 0;
    if (head) box.append(el('div', { class: 'group', style: { left: px(gx), top: px(gy), width: px(gw), height: px(head) } }, group.root));
    squarify(group.types, gx, gy + head, gw, gh - head, ({ u }, x, y, w, h) => {
      const text = `${u.root}: ${u.type}: ${count(u.objects)} objects, ${human(u.bytes)} live of ${human(u.span_bytes)}` + (u.garbage ? `, ${human(u.garbage)} garbage` : '');
      box.append(el('button', { class: 'tile', title: text, 'aria-label': text, onclick: () => filterBy(u.type),
        style: { left: px(x), top: px(y), width: px(w), height: px(h), '--hue': hue(u.root), '--fill': `${u.bytes / u.span_bytes * 100}%` } },
        ...(w > 46 && h > 20 ? [el('span', {}, u.type), h > 38 ? el('span', {}, human(u.span_bytes)) : null] : [])));
    });
  });
};
new ResizeObserver(drawMap).observe($('treemap'));

// --- tables ---
let order = 4, falling = true;
const COLUMNS = [['Root', u => u.root], ['Type', u => u.type], ['Objects', u => u.objects, count], ['Live', u => u.bytes, human], ['Spans', u => u.span_bytes, human],
  ['In use', u => u.span_bytes ? u.bytes / u.span_bytes : 0, x => `${Math.round(x * 100)} %`], ['Garbage', u => u.garbage, human]];
const drawTypes = () => {
  const wanted = $('filter').value.toLowerCase(), [, key] = COLUMNS[order];
  const rows = data.usage.filter(u => `${u.root} ${u.type}`.toLowerCase().includes(wanted));
  rows.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (falling ? -1 : 1));
  const head = COLUMNS.map(([name, , number], i) => el('th', { class: number && 'n', scope: 'col', 'aria-sort': i === order ? falling ? 'descending' : 'ascending' : null },
    el('button', { onclick: () => { falling = i === order ? !falling : !!number; order = i; drawTypes(); $('types').querySelectorAll('th button')[i].focus(); } }, name + (i === order ? falling ? ' ↓' : ' ↑' : ''))));
  $('types').replaceChildren(el('thead', {}, el('tr', {}, ...head)), el('tbody', {}, ...rows.slice(0, 400).map(u => el('tr', {}, ...COLUMNS.map(([name, key, number]) =>
    el('td', { class: number ? 'n' : name === 'Type' && 'v' }, number ? number(key(u)) : key(u)))))));
};
const filterBy = text => { $('filter').value = text; $('crumb').textContent = text ? `– ${text}` : ''; drawTypes(); };
$('filter').addEventListener('input', () => filterBy($('filter').value));
document.addEventListener('keydown', e => { if (e.key === 'Escape') filterBy(''); });
drawTypes();
$('largest').append(el('thead', {}, el('tr', {}, el('th', { class: 'n', scope: 'col' }, 'Bytes'), el('th', { scope: 'col' }, 'Type'), el('th', { scope: 'col' }, 'Begins with'))),
  el('tbody', {}, ...data.largest.map(o => el('tr', {}, el('td', { class: 'n' }, human(o.bytes)),
    el('td', { class: 'v' }, o.node == null ? o.type : el('button', { class: 'link', onclick: () => go(o.node, true) }, o.type)), el('td', { class: 'v' }, o.preview)))));

// --- the file ---
for (const [i, [used, live, other]] of data.parts.use.entries()) {
  const at = i * data.parts.bytes, objects = used - other;
  if (at >= data.file_bytes) break;
  const what = !used ? 'free' : other > objects ? 'logs and tables' : `${share(live, objects)} of ${human(objects)} live`;
  const colour = !used ? null : other > objects ? 'var(--logs)' : `color-mix(in oklab, var(--live) ${Math.round(20 + 80 * live / objects)}%, var(--empty))`;
  $('parts').append(el('i', { title: `${hex(at)}: ${what}`, style: colour ? { background: colour } : {} }));
}
$('parts').setAttribute('aria-label', 'Which parts of the file hold live objects');
$('parts-hint').textContent = `Each square is ${human(data.parts.bytes)}: the stronger, the more of it is live objects; violet: logs; grey: nothing.`;
const fullest = Math.max(1, ...data.tenths);
$('tenths').append(...data.tenths.map((bytes, i) => el('div', { title: `${i === 10 ? 'full' : `${i * 10} to ${i * 10 + 10} %`}: ${human(bytes)}` },
  el('i', { style: { height: `${bytes / fullest * 100}%` } }), i === 10 ? 'full' : `${i * 10} %`)));
{
  let sum = 0, path = 'M0 100';
  const steps = data.growth.length, total = data.growth.reduce((a, b) => a + b, 0) || 1;
  data.growth.forEach((bytes, i) => { sum += bytes; path += ` L${i / steps * 100} ${100 - sum / total * 98} L${(i + 1) / steps * 100} ${100 - sum / total * 98}`; });
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 100 100'); svg.setAttribute('preserveAspectRatio', 'none');
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  line.setAttribute('d', `${path} L100 100 z`); svg.append(line);
  if (steps > 1) $('growth').append(svg); else $('growth').hidden = true;
  const dates = [['created', day(data.created)], ['last written', day(data.modified)]].filter(([, d]) => d).map(([what, d]) => `${what} ${d}`).join(', ');
  $('growth-hint').textContent = `${steps === 1 ? `One arena of ${human(total)}: it has not grown yet` : `${steps} arenas, from ${human(data.growth[0] || 0)} to ${human(total)}`}. The file knows in which steps it has grown, not when; its file system says: ${dates || 'nothing'}.`;
  $('growth').setAttribute('aria-label', $('growth-hint').textContent);
}

// --- objects ---
const from = new Map();
data.nodes.forEach(([, , , rows], i) => rows.forEach(([name, , to]) => { if (to != null) { if (!from.has(to)) from.set(to, []); from.get(to).push([i, name]); } }));
const label = i => { const [title, offset] = data.nodes[i]; return offset == null ? `root ${title}` : `${title} ${hex(offset)}`; };
const drawList = () => {
  const wanted = $('find').value.toLowerCase(), items = [];
  for (let i = 0; i < data.nodes.length && items.length < 300; i++) {
    const [title, offset, , rows] = data.nodes[i];
    const text = `${title} ${offset == null ? 'root' : hex(offset)} ${wanted ? rows.map(r => `${r[0]} ${r[1]}`).join(' ') : ''}`.toLowerCase();
    if (text.includes(wanted)) items.push(el('li', {}, el('button', { onclick: () => go(i), 'aria-current': i === current ? 'true' : null }, label(i))));
  }
  $('list').replaceChildren(...items);
};
let current = 0;
const show = (i, scroll) => {
  if (!data.nodes[i]) return;
  current = i;
  const [title, offset, bytes, rows] = data.nodes[i];
  const body = rows.map(([name, value, to, cut]) => el('tr', {}, el('td', { class: 'v' }, name),
    el('td', { class: 'v' }, to != null ? el('button', { class: 'link', onclick: () => go(to) }, `→ ${label(to)}`) : cut ? `⇢ ${value} (not in this page)` : value)));
  const back = (from.get(i) || []).slice(0, 12).flatMap(([j, name], k) => [k ? ', ' : '', el('button', { class: 'link mono', onclick: () => go(j) }, `${label(j)} ${name}`)]);
  $('object').replaceChildren(el('h3', {}, title), el('small', {}, offset == null ? 'a root' : `at ${hex(offset)}, in a slot of ${human(bytes)}`),
    el('table', {}, el('tbody', {}, ...body)), back.length ? el('p', {}, el('small', {}, 'Pointed to by '), ...back) : '');
  drawList();
  if (scroll) $('browse').scrollIntoView({ block: 'start' });
};
const go = (i, scroll) => { if (scroll || location.hash !== `#o${i}`) history.pushState(null, '', `#o${i}`); show(i, scroll); };
const here = () => { const m = /^#o(\d+)$/.exec(location.hash); show(m ? +m[1] : 0, !!m); };
addEventListener('popstate', here);
$('find').addEventListener('input', drawList);
here();
$('footer').textContent = `pheap file, format ${data.format}, ${data.uuid}; ${count(data.spans)} spans, ${count(data.types)} types. ${count(data.nodes.length)} of the objects can be browsed here.`;
