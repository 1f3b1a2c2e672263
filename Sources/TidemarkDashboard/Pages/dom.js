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

export function size(bytes) {
  const step = Math.min(4, Math.floor(Math.log10(bytes || 1) / 3))
  return `${number(Number((bytes / 1000 ** step).toPrecision(3)))} ${['B', 'kB', 'MB', 'GB', 'TB'][step]}`
}

/** `3 min`. */
export function duration(seconds) {
  const units = [[86_400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']]
  const [length, unit] = units.find(([length]) => seconds >= length) ?? units[3]
  return `${Math.floor(seconds / length)} ${unit}`
}

function ago(at) {
  const seconds = Math.round((Date.now() - at) / 1000)
  if (seconds < 1) return 'now'
  return seconds > 5e6 ? new Date(at).toISOString().slice(0, 10) : `${duration(seconds)} ago`
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
export function author({ name, user, device, source }) {
  const who = (name || user) && words(name || user, { title: device, class: 'who' })
  if (device) return who || h('span', { class: 'who mono', title: device }, device.slice(0, 8))
  if (source === 'client') return h('span', {}, who || span('who', 'REST client'), who && dim(' by REST'))
  return who || span('who', 'another program')
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
  if (data === null) return span('null', 'NULL')
  if (data === '') return span('null', 'empty')
  const { type, length, start } = data.$cut ?? {}
  if (type === 'text') return h('span', {}, words(`${start}…`), dim(` ${number(length)} characters`))
  if (type) return span('dim num', `${type}, ${size(length)}`)
  if (data.$blob !== undefined) {
    const digits = data.$blob.replace(/=+$/, '').length
    return span('dim num', `blob, ${size(Math.floor(digits * 3 / 4))}`)
  }
  if (typeof data === 'object') return h('code', {}, JSON.stringify(data))
  if (data.length > 500) return value({ $cut: { type: 'text', length: data.length, start: data.slice(0, 500) } })
  return typeof data === 'string' ? words(data) : span('num', `${data}`)
}

/** The member of a record for a column: a name that begins with `$` has one more. */
export const member = column => column.replace(/^\$/, '$$$$')
export const columnOf = member => member.replace(/^\$\$/, '$')

/** The members for columns that any of these records has. */
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

/** How many rows a table has; many are not counted. */
export const rowsOf = ({ rows }) => Math.min(rows?.estimate ?? rows?.atLeast ?? rows ?? 0, countedMax)
const countedMax = 10_000
export const isMore = ({ rows }) => rows?.atLeast !== undefined || rows?.estimate > countedMax
export const rowCount = table => number(rowsOf(table)) + (isMore(table) ? '+' : '')

const shownMax = 50

/**
 * A field that shows those of `[element, text]` that have its text, few at first.
 *
 * The key `/` leads to it, Enter into the first.
 */
export function finder(what, items) {
  const said = h('output', { class: 'dim' })
  const draw = most => {
    const text = field.value.trim().toLowerCase()
    let found = 0
    for (const [element, name] of items) element.hidden = !name.toLowerCase().includes(text) || ++found > most
    said.replaceChildren(`${number(Math.min(found, most))} of ${number(items.length)} `,
      found > most ? h('button', { onclick: () => draw(Infinity) }, `Show all ${number(found)}`) : '')
  }
  const enter = ({ key }) => key === 'Enter'
    && items.find(([element]) => !element.hidden)?.[0].querySelector('a, summary, input')?.click()
  const title = `Find a ${what}`
  const field = h('input', { type: 'search', placeholder: title, 'aria-label': title, 'aria-keyshortcuts': '/',
    oninput: () => draw(shownMax), onkeydown: enter })
  draw(shownMax)
  return h('div', { class: 'bar' }, field, said)
}

addEventListener('keydown', event => {
  if (event.key !== '/' || event.target.closest?.('input, select')) return
  event.preventDefault()
  document.querySelector('input[type=search]')?.focus()
})

/** What went wrong, and what to do. */
export const problem = ({ message, fix, code, status }) => h('div', { class: 'card', role: 'alert' },
  h('p', { class: 'bad' }, message), h('p', {}, fix), h('p', { class: 'dim small' }, `${code}, status ${status}`))
