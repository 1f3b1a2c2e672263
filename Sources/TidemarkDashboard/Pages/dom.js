// Elements, numbers and times. Data reaches the page as text nodes only.

import { recordAddress } from './route.js'

/** Makes an element; `svg:` begins the name of one of a drawing. Strings become text nodes. */
export function h(tag, attributes, ...children) {
  const element = tag.startsWith('svg:') ? document.createElementNS('http://www.w3.org/2000/svg', tag.slice(4))
    : document.createElement(tag)
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === false) continue
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value)
    else element.setAttribute(key, value === true ? '' : value)
  }
  element.append(...children.flat(3).filter(child => child !== undefined && child !== null && child !== false))
  return element
}

export const a = (href, ...children) => h('a', { href }, children)
export const span = (kind, ...children) => h('span', { class: kind }, children)
export const dim = (...children) => span('dim', children)
export const card = (...children) => h('div', { class: 'card' }, children)
export const head = (title, ...children) => h('div', { class: 'head' }, h('h1', {}, title), children)
export const empty = text => h('p', { class: 'empty' }, text)

export const pager = (...children) => h('nav', { class: 'bar', 'aria-label': 'Further pages' }, children)

/** A number with its thousands apart. */
export const number = value => value?.toLocaleString('en') ?? '–'

/** `1 row`, `2 rows`. */
export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? '' : 's'}`

export const size = bytes => bytes.toLocaleString('en', {
  style: 'unit', unit: 'byte', unitDisplay: 'narrow', notation: 'compact'
})

function ago(at) {
  const seconds = Math.round((Date.now() - at) / 1000)
  if (seconds < 1) return 'now'
  const [length, unit] = [[86_400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']].find(([length]) => seconds >= length)
  return seconds > 5e6 ? new Date(at).toISOString().slice(0, 10) : `${Math.floor(seconds / length)} ${unit} ago`
}

/** A relative time that stays right; the exact time is its title. */
export function time(text) {
  if (!text) return '–'
  const at = Date.parse(text)
  return h('time', { datetime: text, title: new Date(at).toLocaleString(), class: 'num' }, ago(at))
}

setInterval(() => {
  if (document.hidden) return
  for (const element of document.querySelectorAll('time')) {
    const text = ago(Date.parse(element.dateTime))
    if (text !== element.textContent) element.textContent = text
  }
}, 1000)

/** A text that people wrote: its direction comes from its letters. */
export const words = (text, attributes) => h('bdi', { dir: 'auto', ...attributes }, text)

/** A link to a record, by its table and its key as in a path. */
export const recordLink = (table, key, ...children) => a(recordAddress(table, key),
  children.length ? children : words(`${table} ${decodeURIComponent(key)}`))

/** The name of the author of a revision, or of a device. */
export function author({ name, user, device }) {
  if (name || user) return words(name || user, { title: device, class: 'who' })
  return device ? h('span', { class: 'who mono', title: device }, device.slice(0, 8)) : span('who', 'another program')
}

/** What a revision did: `player: 1 new, 2 changed`. */
export function summary(tables) {
  const parts = Object.entries(tables ?? {}).map(([table, { created, updated, deleted }]) => {
    const counts = [[created, 'new'], [updated, 'changed'], [deleted, 'deleted']].filter(([value]) => value)
    return `${table}: ${counts.map(([value, verb]) => `${number(value)} ${verb}`).join(', ') || 'touched'}`
  })
  return parts.join(' · ') || 'no records'
}

export const isNumeric = data => typeof data === 'number' || typeof data === 'bigint'

/** A value of a column. Long values come cut by the server. */
export function value(data) {
  if (data === undefined) return dim('unknown')
  if (data === null) return dim('NULL')
  const { type, length, start } = data.$cut ?? {}
  if (type === 'text') return h('span', {}, words(`${start}…`), dim(` ${number(length)} characters`))
  if (type) return span('dim num', `${type}, ${size(length)}`)
  if (data.$blob !== undefined) return span('dim num', `blob, ${size(Math.floor(data.$blob.length * 3 / 4))}`)
  if (typeof data === 'object') return h('code', {}, JSON.stringify(data))
  if (data.length > 500) return value({ $cut: { type: 'text', length: data.length, start: data.slice(0, 500) } })
  return typeof data === 'string' ? words(data) : span('num', `${data}`)
}

/** The columns that any of these records has. */
export const columnsOf = (...records) =>
  [...new Set(records.flatMap(record => Object.keys(record ?? {})))].filter(column => !/^\$(?!\$)/.test(column))

const cellClass = ({ right, hide, name } = {}) =>
  [right && 'right', hide && 'narrow-hide', name && 'name'].filter(Boolean).join(' ') || undefined

/** A table: `columns` as `[title, {right, hide, name}]`, rows as arrays of cells. */
export function grid(caption, columns, rows, kind) {
  const titles = columns.map(([title, options]) => h('th', { scope: 'col', class: cellClass(options) }, title))
  const cells = row => row.map((cell, index) => h('td', { class: cellClass(columns[index][1]) }, cell))
  return scroll(caption, kind, titles, rows.map(row => h('tr', {}, cells(row))))
}

/** A table that scrolls sideways, also by the keyboard. */
export const scroll = (caption, kind, titles, rows) => h('div', { class: 'scroll', tabindex: 0, role: 'region',
  'aria-label': caption }, h('table', { class: kind }, h('thead', {}, h('tr', {}, titles)), h('tbody', {}, rows)))

/** A table of columns, each as `[name, cell, ...]`. */
export const fields = (caption, titles, rows, kind = '') => scroll(caption, `fields ${kind}`,
  titles.map(title => h('th', { scope: 'col' }, title)),
  rows.map(([name, ...cells]) => h('tr', {}, h('th', { scope: 'row' }, words(name)), cells)))

/** What went wrong, and what to do. */
export const problem = ({ message, fix, code, status }) => h('div', { class: 'card', role: 'alert' },
  h('p', { class: 'bad' }, message), h('p', {}, fix), h('p', { class: 'dim small' }, `${code}, status ${status}`))
